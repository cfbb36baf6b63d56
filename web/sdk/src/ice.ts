/** Relays for networks that let nothing else pass: what a broker says, kept until half of it is over. */

import type { Door } from "./peer.ts";

/** How long a broker may take to say so; connections are tried without relays then. */
const ANSWER_MS = 2_000;

interface Answer {
  ice_servers?: RTCIceServer[];
  ttl_s?: number | null;
}

interface Kept {
  servers: Promise<RTCIceServer[]>;
  /** Of `performance.now()`; for ever where there are no relays. */
  untilMs: number;
}

const kept = new Map<string, Kept>();

/** What `RTCConfiguration` takes as `iceServers`; nothing if there are none or the broker is silent. */
export function relays(door: Door): Promise<RTCIceServer[]> {
  const known = kept.get(door.origin);
  if (known && performance.now() < known.untilMs) return known.servers;
  const entry: Kept = { servers: Promise.resolve([]), untilMs: Infinity };
  entry.servers = ask(door).then(({ ice_servers, ttl_s }) => {
    if (ttl_s) entry.untilMs = performance.now() + ttl_s * 500;
    return ice_servers ?? [];
  }).catch(() => {
    // Somebody else may be let in, or the network be back.
    if (kept.get(door.origin) === entry) kept.delete(door.origin);
    return [];
  });
  kept.set(door.origin, entry);
  return entry.servers;
}

async function ask(door: Door): Promise<Answer> {
  const headers: Record<string, string> = {};
  if (door.token) headers["Authorization"] = `Bearer ${door.token}`;
  const signal = AbortSignal.timeout(ANSWER_MS);
  const answer = await fetch(`${door.origin}/v1/ice`, { headers, cache: "no-store", signal });
  // A broker of an earlier release has none.
  if (answer.status === 404) return {};
  if (!answer.ok) throw new Error(answer.statusText);
  return (await answer.json()) as Answer;
}
