import { expect, test } from "vitest";
import { between, count, judge, THRESHOLDS, worst } from "../src/quality.ts";

test("the worst measure decides", () => {
  expect(judge({ loss: 0, rttMs: 20, jitterMs: 5 })).toBe("good");
  expect(judge(THRESHOLDS.good)).toBe("good");
  expect(judge({ loss: 0.05, rttMs: 20, jitterMs: 5 })).toBe("fair");
  expect(judge({ loss: 0, rttMs: 300, jitterMs: 5 })).toBe("fair");
  expect(judge({ loss: 0, rttMs: 20, jitterMs: 81 })).toBe("poor");
});

test("loss is judged between two looks, and not by a handful of packets", () => {
  const stat = (received: number, lost: number) =>
    [{ type: "inbound-rtp", id: "a", timestamp: 0, packetsReceived: received, packetsLost: lost, jitter: 0.01 }];
  const first = count(stat(100, 50) as RTCStats[]);
  const then = count(stat(190, 60) as RTCStats[]);
  expect(between(first, then)).toEqual({ loss: 0.1, rttMs: 0, jitterMs: 10 });
  expect(between(first, count(stat(105, 50) as RTCStats[]))).toBeUndefined();
});

test("of many connections the worst is shown", () => {
  expect(worst(["good", undefined, "poor", "fair"])).toBe("poor");
  expect(worst(["good", "fair"])).toBe("fair");
  expect(worst([undefined])).toBeUndefined();
});
