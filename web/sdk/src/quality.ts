/** How good the network is to somebody, from what WebRTC counts; thresholds in docs/guides/page.md. */

export type Quality = "good" | "fair" | "poor";

/** Share of packets lost, round trip and jitter up to which a network is good, and fair. */
export const THRESHOLDS = {
  good: { loss: 0.02, rttMs: 200, jitterMs: 30 },
  fair: { loss: 0.08, rttMs: 450, jitterMs: 80 },
} as const;

export interface Measures {
  /** 0 to 1. */
  loss: number;
  rttMs: number;
  jitterMs: number;
}

/** The worst of the three decides. */
export function judge(measures: Measures): Quality {
  const within = (limits: Measures) =>
    measures.loss <= limits.loss &&
    measures.rttMs <= limits.rttMs &&
    measures.jitterMs <= limits.jitterMs;
  if (within(THRESHOLDS.good)) return "good";
  return within(THRESHOLDS.fair) ? "fair" : "poor";
}

/** The worst of what was judged, if anything was. */
export function worst(all: Iterable<Quality | undefined>): Quality | undefined {
  const found = new Set(all);
  return (["poor", "fair", "good"] as const).find((one) => found.has(one));
}

/** What one connection counted when it was looked at last. */
export interface Counts {
  packets: number;
  lost: number;
  bytes: number;
  frames: number;
  rttMs: number;
  jitterMs: number;
}

/** Adds up a connection's report. */
export function count(report: Iterable<RTCStats>): Counts {
  const sum: Counts = { packets: 0, lost: 0, bytes: 0, frames: 0, rttMs: 0, jitterMs: 0 };
  for (const stat of report as Iterable<RTCStats & Record<string, number | boolean>>) {
    const of = (key: string) => Number(stat[key] ?? 0);
    if (stat.type === "inbound-rtp") {
      sum.packets += of("packetsReceived");
      sum.lost += Math.max(0, of("packetsLost"));
      sum.frames += of("framesDecoded");
      sum.jitterMs = Math.max(sum.jitterMs, of("jitter") * 1_000);
    } else if (stat.type === "remote-inbound-rtp") {
      sum.lost += Math.max(0, of("packetsLost"));
      sum.rttMs = Math.max(sum.rttMs, of("roundTripTime") * 1_000);
      sum.jitterMs = Math.max(sum.jitterMs, of("jitter") * 1_000);
    } else if (stat.type === "outbound-rtp") {
      sum.packets += of("packetsSent");
    } else if (stat.type === "candidate-pair" && stat["nominated"] === true) {
      sum.bytes += of("bytesReceived");
      sum.rttMs = Math.max(sum.rttMs, of("currentRoundTripTime") * 1_000);
    }
  }
  return sum;
}

/** What happened between two looks; undefined if too little to judge by. */
export function between(before: Counts, now: Counts): Measures | undefined {
  const lost = Math.max(0, now.lost - before.lost);
  const packets = Math.max(0, now.packets - before.packets);
  if (packets + lost < 10) return undefined;
  return { loss: lost / (packets + lost), rttMs: now.rttMs, jitterMs: now.jitterMs };
}
