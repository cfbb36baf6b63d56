import { expect, test } from "vitest";
import { classOf, Heights } from "../src/heights.ts";

test("a height is told as the next class that is enough", () => {
  expect([0, 1, 90, 91, 360, 361, 2_160, 9_000].map(classOf))
    .toEqual([0, 90, 90, 180, 360, 540, 2_160, 2_160]);
});

test("only what is new is told, and what was not taken again", () => {
  const heights = new Heights();
  const now = [{ mid: "2", height: 180 }, { mid: "3", height: 0 }];
  expect(heights.news(now), "nothing was told yet").toEqual(now);
  expect(heights.news(now), "nor taken").toEqual(now);
  expect(heights.isHidden("3")).toBe(false);
  heights.told(now);
  expect(heights.news(now)).toEqual([]);
  expect(["2", "3", "4"].map((mid) => heights.isHidden(mid))).toEqual([false, true, false]);
  expect(heights.news([{ mid: "2", height: 360 }, { mid: "3", height: 0 }]))
    .toEqual([{ mid: "2", height: 360 }]);
});
