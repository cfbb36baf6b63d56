/** A connection test: what a meeting will need, tried one by one. */

import { answers } from "./brokers.ts";
import { pathOf, type Named } from "./api.ts";
import { PeerError, type Door } from "./peer.ts";
import { Player } from "./player.ts";

/** `unknown`: it cannot be tried before somebody lets this member in. */
export type Outcome = "running" | "good" | "bad" | "unknown";

export interface Report {
  server: Outcome;
  signalling: Outcome;
  media: Outcome;
  /** Milliseconds there and back, once media got through. */
  rttMs?: number;
  /** How media go: `udp`, `tcp`, or `relay` by a server between. */
  way?: string;
}

const PATIENCE_MS = 6_000;

/** Tries everything; `tell` hears of each step. `servers` are where sessions may be, by origin. */
export async function probe(
  door: Door, servers: readonly string[], named: Named, tell: (report: Report) => void,
): Promise<Report> {
  let report: Report = { server: "running", signalling: "running", media: "running" };
  const step = (part: Partial<Report>) => tell((report = { ...report, ...part }));
  step({});
  const server = answers(door.origin).then((good) => step({ server: good ? "good" : "bad" }));
  // Brokers need not have sessions: one that has them will do.
  const line = Promise.any(servers.map((one) => opens(one, named)))
    .then(() => step({ signalling: "good" }), () => step({ signalling: "bad" }));
  const media = passes(door, named).then(step);
  await Promise.all([server, line, media]);
  return report;
}

function opens(server: string, named: Named): Promise<void> {
  const socket = new WebSocket(`${server.replace(/^http/, "ws")}${pathOf(named)}/signal`);
  return new Promise<void>((resolve, reject) => {
    setTimeout(reject, PATIENCE_MS);
    socket.onopen = () => resolve();
    socket.onerror = reject;
  }).finally(() => socket.close());
}

/** ICE and DTLS with the broker, by a player of a topic that nobody publishes. */
async function passes(door: Door, { tenant, session }: Named): Promise<Partial<Report>> {
  const player = new Player(door);
  try {
    const connected = new Promise<boolean>((resolve) => {
      setTimeout(() => resolve(false), PATIENCE_MS);
      player.onstate = () => resolve(player.state === "connected");
    });
    await player.play(`${tenant}/${session}/main`, "test");
    if (!(await connected)) return { media: "bad" };
    return { media: "good", ...(await way(player.pc)) };
  } catch (error) {
    const asked = error instanceof PeerError && (error.status === 401 || error.status === 403);
    return { media: asked ? "unknown" : "bad" };
  } finally {
    player.close();
  }
}

interface Pair extends RTCStats {
  nominated?: boolean;
  currentRoundTripTime?: number;
  localCandidateId?: string;
}

async function way(pc: RTCPeerConnection): Promise<Partial<Report>> {
  const stats = await pc.getStats();
  const all = [...stats.values()] as Pair[];
  const pair = all.find((one) => one.type === "candidate-pair" && one.nominated);
  const local = stats.get(pair?.localCandidateId ?? "") as
    { protocol?: string; candidateType?: string } | undefined;
  const found: Partial<Report> = {};
  if (pair?.currentRoundTripTime !== undefined) found.rttMs = pair.currentRoundTripTime * 1_000;
  const way = local?.candidateType === "relay" ? "relay" : local?.protocol;
  if (way) found.way = way;
  return found;
}
