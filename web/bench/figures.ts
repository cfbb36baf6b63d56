/** Samples into figures. */

import type { Row } from "./report";

/** A latency, and when it ended. */
export interface Sample {
  /** Milliseconds since 1970. */
  at: number;
  ms: number;
}

/** The smallest value that a part of all do not exceed; no number of none. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? NaN;
}

/** Values by seconds from `begin` on, so many of them; those without any are empty. */
export function bySecond(samples: readonly Sample[], begin: number, count: number): number[][] {
  const seconds = Array.from({ length: count }, (): number[] => []);
  for (const { at, ms } of samples) seconds[Math.floor((at - begin) / 1_000)]?.push(ms);
  return seconds;
}

/** Latencies of a row: of all samples, and of the whole seconds with the best and the worst median. */
export function latencies(samples: readonly Sample[], begin: number, end: number): Row {
  if (samples.length === 0) return { samples: 0 };
  const all = samples.map((one) => one.ms);
  const seconds = bySecond(samples, begin, Math.floor((end - begin) / 1_000));
  const some = seconds.filter((one) => one.length > 0);
  // Nothing within them where all came at the end.
  const medians = (some.length > 0 ? some : [all]).map((one) => quantile(one, 0.5));
  return {
    samples: all.length,
    latency_p50_ms: quantile(all, 0.5),
    latency_p95_ms: quantile(all, 0.95),
    latency_max_ms: Math.max(...all),
    latency_best_second_ms: Math.min(...medians),
    latency_worst_second_ms: Math.max(...medians),
  };
}

/** Asks once a second, `seconds` times. */
export async function each<T>(seconds: number, ask: () => Promise<T>): Promise<T[]> {
  const answers: T[] = [];
  for (let n = 0; n < seconds; n++) {
    await second();
    answers.push(await ask());
  }
  return answers;
}

export function second(count = 1): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, count * 1_000));
}

/** What a counter of the browser's grew by. */
export function grown(
  before: RTCInboundRtpStreamStats, after: RTCInboundRtpStreamStats, name: keyof RTCInboundRtpStreamStats,
): number {
  return Number(after[name] ?? 0) - Number(before[name] ?? 0);
}
