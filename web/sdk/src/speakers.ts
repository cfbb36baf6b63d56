/** Who speaks: from the loudness that each receiver reports, without looking at the sound itself. */

import type { MemberId } from "./protocol.ts";

/** Loudness (0 to 1, linear) above which somebody speaks: some -40 dBov. */
const SPEAKS = 0.01;
/** For so long somebody still counts as speaking: words have gaps. */
const HOLD_MS = 700;
/** How long another must have spoken before the picture changes to them. */
const CHANGE_MS = 900;

export class Speakers {
  #heard = new Map<MemberId, { last: number; since: number }>();
  #main: MemberId | undefined;

  /** Takes what was heard of everybody; whether anything is different now. */
  hear(now: number, levels: ReadonlyMap<MemberId, number>): boolean {
    const before = [...this.#heard.keys()].join();
    for (const [member, level] of levels) {
      if (level < SPEAKS) continue;
      const since = this.#heard.get(member)?.since ?? now;
      this.#heard.set(member, { last: now, since });
    }
    for (const [member, { last }] of this.#heard) {
      if (now - last > HOLD_MS || !levels.has(member)) this.#heard.delete(member);
    }
    const main = this.#choose(now);
    const same = main === this.#main && before === [...this.#heard.keys()].join();
    this.#main = main;
    return !same;
  }

  /** Everybody who speaks now. */
  get speaking(): ReadonlySet<MemberId> {
    return new Set(this.#heard.keys());
  }

  /** Whom to show large: who speaks, or spoke last. */
  get main(): MemberId | undefined {
    return this.#main;
  }

  #choose(now: number): MemberId | undefined {
    if (this.#main !== undefined && this.#heard.has(this.#main)) return this.#main;
    const ready = [...this.#heard].filter(([, one]) => now - one.since >= CHANGE_MS);
    const longest = ready.sort(([, a], [, b]) => a.since - b.since)[0];
    return longest?.[0] ?? this.#main;
  }
}
