/** Members whose camera is a clip, sent as it is: many streams, and hardly a processor for them. */

import { execFile, spawn } from "node:child_process";
import { promisify } from "node:util";
import { PROGRAM, type Broker } from "../test/brokers";
import { seat } from "../test/seat";

/** The paper's pictures (Wu et al., Table 3); how many there were in a second it does not say. */
export const CLIP = { width: 352, height: 288, perS: 30, kbps: 500 } as const;

/**
 * Colours, a clock and grain, so that the encoder needs every bit. A key frame a second, as nobody
 * can ask FFmpeg for one.
 */
export async function clip(path: string, seconds: number): Promise<void> {
  const { width, height, perS, kbps } = CLIP;
  const picture = `testsrc2=size=${width}x${height}:rate=${perS},noise=alls=20:allf=t`;
  const rate = `-b:v ${kbps}k -minrate ${kbps}k -maxrate ${kbps}k -bufsize ${kbps}k -g ${perS}`;
  const codec = "-pix_fmt yuv420p -c:v libvpx -deadline realtime -cpu-used 8 -lag-in-frames 0 -auto-alt-ref 0";
  await promisify(execFile)("ffmpeg", [
    "-y", "-nostdin", "-v", "error", "-f", "lavfi", "-i", picture, "-t", String(seconds),
    ...`${codec} ${rate}`.split(" "), path,
  ]);
}

export interface Guest {
  name: string;
  leave(): void;
}

/** A member that shows a clip again and again, at its own pace, by processes of its own. */
export async function guest(broker: Broker, name: string, path: string): Promise<Guest> {
  const { id, leave: stand } = await seat(broker, name, ["video"]);
  const shows = spawn(PROGRAM, [
    "publish", "--to", broker.udp, "--topic", `meet/weekly/main/video/${id}`,
    "--file", path, "--copy", "--loop", "--json",
  ], { stdio: ["ignore", "ignore", "inherit"] });
  const leave = () => {
    // FFmpeg goes with it.
    shows.kill("SIGKILL");
    stand();
  };
  return { name, leave };
}
