/** Looks after the connections with a broker, so that a dead one is left within seconds. */

import type { Brokers } from "./brokers.ts";
import { PeerError, type Peer } from "./peer.ts";
import { between, count, judge, type Counts, type Quality } from "./quality.ts";

/** How often the connections are looked at. */
const LOOK_MS = 500;
/** Media and feedback come many times a second: after so long without, the broker is asked. */
const SILENT_MS = 800;
/** For so long a broker that answered is not asked again: where nobody speaks, silence is normal. */
const TRUST_MS = 2_500;
/** How long after nobody answered all are asked again. */
const ASK_MS = 250;
/**
 * Starts of ICE with every look that finds nothing to try: browsers tell WebRTC of a network only some
 * 1.5 s after it is back.
 */
const QUICK_STARTS = 6;
/**
 * Between later ones, at first and at most, and from any that has found something: a long path needs
 * several looks to get through, and a start forgets what the one before has found.
 */
const START_MS = 1_000;
const START_MAX_MS = 8_000;
/** Quality is judged over so long. */
const JUDGE_MS = 2_000;

export interface WatchEvents {
  peers(): Peer[];
  /** Everything has to be made anew, with the broker in use. */
  moved(): void;
  /** Whether media are to be expected right now. */
  interrupted(now: boolean): void;
  quality(peer: Peer, quality: Quality): void;
}

interface Seen {
  bytes: number;
  at: number;
  counts: Counts | undefined;
  countedAt: number;
}

/** How often ICE was started since a connection was there last, when, and when it may be again. */
interface Pace {
  starts: number;
  at: number;
  next: number;
}

export class Watch {
  #brokers: Brokers;
  #events: WatchEvents;
  #seen = new WeakMap<Peer, Seen>();
  #paces = new WeakMap<Peer, Pace>();
  #timer: ReturnType<typeof setInterval>;
  #asking = false;
  #cut = false;
  #answered = -TRUST_MS;
  #again: ReturnType<typeof setTimeout> | undefined;
  #stopped = false;
  #online = () => void this.doubt();

  constructor(brokers: Brokers, events: WatchEvents) {
    this.#brokers = brokers;
    this.#events = events;
    this.#timer = setInterval(() => void this.#look(), LOOK_MS);
    globalThis.addEventListener?.("online", this.#online);
  }

  stop(): void {
    this.#stopped = true;
    clearInterval(this.#timer);
    clearTimeout(this.#again);
    globalThis.removeEventListener?.("online", this.#online);
  }

  /** A connection says that it is lost: no need to wait for silence. */
  async doubt(): Promise<void> {
    if (this.#asking) return;
    this.#asking = true;
    try {
      await this.#resolve();
    } finally {
      this.#asking = false;
    }
  }

  async #look(): Promise<void> {
    const now = performance.now();
    const peers = this.#events.peers();
    const silent = await Promise.all(peers.map((peer) => this.#isSilent(peer, now)));
    for (const peer of peers) {
      if (peer.pc.connectionState === "connected") this.#paces.delete(peer);
    }
    // Some connections may have nothing to say; if none has, the broker may be gone.
    const doubtful = peers.length > 0 && silent.every(Boolean) && now - this.#answered > TRUST_MS;
    const broken = peers.some((peer) => peer.state === "lost" || peer.pc.connectionState === "disconnected");
    if (doubtful || broken || this.#cut) await this.doubt();
  }

  async #isSilent(peer: Peer, now: number): Promise<boolean> {
    const report = await peer.pc.getStats();
    peer.notice(report);
    const counts = count(report.values());
    const seen = this.#seen.get(peer) ?? { bytes: -1, at: now, counts: undefined, countedAt: now };
    this.#seen.set(peer, seen);
    if (counts.bytes !== seen.bytes) [seen.bytes, seen.at] = [counts.bytes, now];
    if (now - seen.countedAt >= JUDGE_MS || !seen.counts) {
      const measures = seen.counts && between(seen.counts, counts);
      [seen.counts, seen.countedAt] = [counts, now];
      if (measures) this.#events.quality(peer, judge(measures));
    }
    return now - seen.at > SILENT_MS;
  }

  async #resolve(): Promise<void> {
    const before = this.#brokers.current;
    if (!(await this.#brokers.choose())) {
      this.#interrupt(true);
      clearTimeout(this.#again);
      if (!this.#stopped) this.#again = setTimeout(() => void this.doubt(), ASK_MS);
      return;
    }
    if (this.#brokers.current === before) await this.#revive();
    else this.#events.moved();
    this.#interrupt(false);
    this.#answered = performance.now();
  }

  /** The broker lives: connections that it still knows start ICE anew, others are made anew. */
  async #revive(): Promise<void> {
    const peers = this.#events.peers();
    if (peers.some((peer) => peer.state === "lost")) return this.#events.moved();
    const stale = peers.filter((peer) => this.#due(peer));
    try {
      await Promise.all(stale.map((peer) => peer.restart()));
    } catch (error) {
      if (error instanceof PeerError && error.status !== 0) this.#events.moved();
    }
  }

  /** Whether ICE has to start anew: at once after a cut, later and later where that does not help. */
  #due(peer: Peer): boolean {
    const now = performance.now();
    const { starts, at, next } = this.#paces.get(peer) ?? { starts: 0, at: -START_MS, next: 0 };
    const tries = peer.hasFound && now - at < START_MS;
    const stale = peer.pc.connectionState === "disconnected" && now >= next && !tries;
    if (!this.#cut && !stale) return false;
    const late = starts + 1 - QUICK_STARTS;
    const wait = late < 0 ? 0 : Math.min(START_MS * 2 ** late, START_MAX_MS);
    this.#paces.set(peer, { starts: starts + 1, at: now, next: now + wait });
    return true;
  }

  #interrupt(now: boolean): void {
    if (this.#cut === now) return;
    this.#cut = now;
    this.#events.interrupted(now);
  }
}
