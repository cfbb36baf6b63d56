import { expect, test } from "vitest";
import { bySecond, latencies, quantile } from "../figures";
import { match } from "../meters";
import { stat, tree } from "../processes";

test("a quantile is one of the values, and none of nothing", () => {
  expect(quantile([3, 1, 2], 0.5)).toBe(2);
  expect(quantile([1, 2, 3, 4], 0.95)).toBe(4);
  expect(quantile([], 0.5)).toBeNaN();
});

test("latencies have the best and the worst of whole seconds, not of one that was cut short", () => {
  const samples = [{ at: 100, ms: 20 }, { at: 900, ms: 30 }, { at: 1_500, ms: 90 }, { at: 2_100, ms: 10 }];
  expect(latencies(samples, 0, 2_200)).toEqual({
    samples: 4, latency_p50_ms: 20, latency_p95_ms: 90, latency_max_ms: 90,
    latency_best_second_ms: 20, latency_worst_second_ms: 90,
  });
  expect(latencies(samples.slice(3), 0, 2_200)["latency_best_second_ms"], "at the end").toBe(10);
  expect(latencies([], 0, 1_000)).toEqual({ samples: 0 });
});

test("a second without samples counts as an empty one", () => {
  const samples = [{ at: 100, ms: 1 }, { at: 2_100, ms: 2 }, { at: 9_000, ms: 3 }];
  expect(bySecond(samples, 0, 3)).toEqual([[1], [], [2]]);
});

test("a burst is matched with the next of its tone, and a lost one with none", () => {
  const heard = [{ at: 900, tone: 0 }, { at: 1_120, tone: 1 }, { at: 3_100, tone: 2 }];
  expect(match({ at: 1_000, tone: 1 }, heard)).toEqual({ at: 1_120, ms: 120 });
  expect(match({ at: 1_000, tone: 0 }, heard), "heard before").toBeUndefined();
  expect(match({ at: 1_000, tone: 2 }, heard), "too late").toBeUndefined();
});

test("a process is read whatever its name is, with its children that have ended", () => {
  const line = "42 (a) (b) R 7 1 1 0 -1 0 10 0 0 0 150 50 100 25 20 0 1 0 99";
  expect(stat(line)).toEqual({ pid: 42, parent: 7, user: 2.5, system: 0.75 });
  expect(stat("")).toBeUndefined();
});

test("a tree of processes counts what this one uses", () => {
  const before = tree(process.pid);
  const more = () => {
    const now = tree(process.pid);
    return now.user + now.system > before.user + before.system;
  };
  const until = performance.now() + 3_000;
  let isMore = false;
  // To read it is work enough.
  while (!isMore && performance.now() < until) isMore = more();
  expect(isMore).toBe(true);
  expect(Object.keys(before.kinds)).toContain("browser");
});
