/** Members of a meeting who are no browsers: GStreamer's webrtcbin, by WHIP and WHEP. */

import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { PROGRAM, ROOT, type Broker } from "./brokers";

const SCRIPT = `${ROOT}app/tests/gstreamer/webrtc.py`;
/** Longer than any test. */
const SECONDS = "300";

export interface Member {
  id: string;
  /** Hertz. */
  tone: number;
  /** Decodes what another member sends: ends well once it has seen frames and heard the tone. */
  meets(id: string, tone: number): Promise<void>;
  leave(): void;
}

interface Line {
  type?: string;
  event?: string;
  member?: string;
  id?: number;
}

/** Lines of JSON of a process, one after the other. */
class Lines {
  #lines: AsyncIterator<string>;
  readonly child: ChildProcess;

  constructor(program: string, args: string[], env: Record<string, string> = {}) {
    const stdio = ["pipe", "pipe", "inherit"] as const;
    const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: [...stdio] });
    this.child = child;
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  async until(fits: (line: Line) => boolean): Promise<Line> {
    for (;;) {
      const { value, done } = await this.#lines.next();
      if (done) throw new Error(`${this.child.spawnargs.join(" ")} ended`);
      const line = JSON.parse(value as string) as Line;
      if (fits(line)) return line;
    }
  }
}

async function token({ origin }: Broker, identity: string, name: string): Promise<string> {
  const made = await fetch(`${origin}/v1/sessions/meet/weekly/tokens`, {
    method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ identity, name }),
  });
  return ((await made.json()) as { token: string }).token;
}

/** Joins the session `meet/weekly` at its server, takes the floors and publishes at a broker. */
export async function member(
  name: string, tone: number, { server, broker }: { server: Broker; broker: Broker },
): Promise<Member> {
  const shown = { SANGAM_TOKEN: await token(server, name, name) };
  const session = ["session", "--server", server.origin, "join", "meet/weekly"];
  const joined = new Lines(PROGRAM, session, shown);
  const { member: id = "" } = await joined.until((line) => line.type === "welcome");
  for (const [number, medium] of (["audio", "video"] as const).entries()) {
    joined.child.stdin?.write(`${JSON.stringify({ id: number + 1, do: "request", medium })}\n`);
    await joined.until((line) => line.type === "done" && line.id === number + 1);
  }
  const script = (what: string, topic: string, ...more: string[]) =>
    new Lines("/usr/bin/python3", [
      SCRIPT, what, `${broker.origin}/v1/${what === "play" ? "whep" : "whip"}/meet/weekly/main/${topic}`,
      "--seconds", SECONDS, ...more,
    ]);
  const sends = [
    script("publish", `audio/${id}`, "--video", "none", "--tone", String(tone)),
    script("publish", `video/${id}`, "--tone", "0"),
  ];
  await Promise.all(sends.map((one) => one.until((line) => line.event === "connected")));
  const meets = async (other: string, hertz: number) => {
    const play = script("play", `%2B/${other}`, "--tone", String(hertz), "--frames", "10");
    const ended = new Promise<number | null>((resolve) => play.child.once("exit", resolve));
    await play.until((line) => line.event === "end");
    if ((await ended) !== 0) throw new Error(`${name} does not see and hear ${other}`);
  };
  const leave = () => {
    for (const { child } of [...sends, joined]) child.kill("SIGKILL");
  };
  return { id, tone, meets, leave };
}
