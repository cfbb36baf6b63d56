/** Members without a page: `sangam session join` as a process, which holds their floors. */

import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { PROGRAM, type Broker } from "./brokers";

interface Line {
  type?: string;
  event?: string;
  member?: string;
  id?: number;
}

/** Lines of JSON of a process, one after the other. */
export class Lines {
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

export interface Seat {
  /** Such as `m17`. */
  id: string;
  leave(): void;
}

async function token({ origin }: Broker, identity: string, name: string): Promise<string> {
  const made = await fetch(`${origin}/v1/sessions/meet/weekly/tokens`, {
    method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ identity, name }),
  });
  return ((await made.json()) as { token: string }).token;
}

/** Joins the session `meet/weekly`, which is there, at its server, and takes these floors. */
export async function seat(
  server: Broker, name: string, media: readonly string[],
): Promise<Seat> {
  const shown = { SANGAM_TOKEN: await token(server, name, name) };
  const session = ["session", "--server", server.origin, "join", "meet/weekly"];
  const joined = new Lines(PROGRAM, session, shown);
  const { member: id = "" } = await joined.until((line) => line.type === "welcome");
  for (const [number, medium] of media.entries()) {
    joined.child.stdin?.write(`${JSON.stringify({ id: number + 1, do: "request", medium })}\n`);
    await joined.until((line) => line.type === "done" && line.id === number + 1);
  }
  return { id, leave: () => joined.child.kill("SIGKILL") };
}
