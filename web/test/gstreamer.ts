/** Members of a meeting who are no browsers: GStreamer's webrtcbin, by WHIP and WHEP. */

import { ROOT, type Broker } from "./brokers";
import { Lines, seat } from "./seat";

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

/** Joins the session `meet/weekly` at its server, takes the floors and publishes at a broker. */
export async function member(
  name: string, tone: number, { server, broker }: { server: Broker; broker: Broker },
): Promise<Member> {
  const { id, leave: stand } = await seat(server, name, ["audio", "video"]);
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
    for (const { child } of sends) child.kill("SIGKILL");
    stand();
  };
  return { id, tone, meets, leave };
}
