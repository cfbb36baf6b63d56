import { describe, expect, test } from "vitest";
import { pictures } from "../pictures";
import { sounds, type Burst } from "../sounds";

const NOW = 1_795_000_000_123;

describe("the time in a picture", () => {
  const { code, age } = pictures();
  /** As encoders leave it: grey, and not the same everywhere. */
  const worn = (cells: boolean[]) => cells.map((white, n) => (white ? 190 : 50) + (n % 5) * 8 - 16);

  test("is read as its age", () => {
    for (const ms of [0, 1, 37, 1_234, 59_999]) expect(age(worn(code(NOW - ms)), NOW)).toBe(ms);
  });

  test("is read across the moment when it begins anew", () => {
    const turn = Math.ceil(NOW / 2 ** 24) * 2 ** 24;
    expect(age(worn(code(turn - 5)), turn + 7)).toBe(12);
  });

  test("is nothing in a black, white or grey picture", () => {
    for (const level of [0, 128, 255]) expect(age(Array<number>(32).fill(level), NOW)).toBeUndefined();
  });

  test("is nothing when a cell is wrong, or it is too old", () => {
    const levels = worn(code(NOW));
    for (let n = 0; n < levels.length; n++) {
      const wrong = levels.map((level, at) => (at === n ? 255 - level : level));
      // A wrong bit of the time makes it old or from the future, or does not agree with the sum.
      expect(age(wrong, NOW), `cell ${n}`).toBeUndefined();
    }
    expect(age(worn(code(NOW - 61_000)), NOW)).toBeUndefined();
  });
});

describe("an ear", () => {
  const { score, ear } = sounds();
  const all = score();
  /** Looks of 4,800 samples that overlap, as an analyser gives them. */
  const hear = (sound: Float32Array, step: number): Burst[] => {
    const listen = ear();
    const found: Burst[] = [];
    for (let next = step; next <= sound.length; next += step) {
      found.push(...listen(sound.subarray(Math.max(0, next - 4_800), next), next));
    }
    return found;
  };

  test("hears each burst once, where it begins, and knows its tone", () => {
    const sound = new Float32Array(all.length + 12_000);
    sound.set(all, 6_000);
    for (const step of [480, 1_920, 2_047]) {
      const found = hear(sound, step);
      expect(found.map((one) => one.tone)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
      for (const [n, { at }] of found.entries()) {
        const late = at - 6_000 - n * 12_000;
        expect(late).toBeGreaterThanOrEqual(0);
        expect(late).toBeLessThan(10);
      }
    }
  });

  test("hears nothing in silence and noise that is faint", () => {
    const faint = Float32Array.from({ length: 48_000 }, (_, n) => 0.02 * Math.sin(n));
    expect(hear(faint, 1_920)).toEqual([]);
  });
});
