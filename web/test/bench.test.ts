/** The benches of `make bench-web` for a few seconds: that they measure, not what. */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { application } from "../bench/application";
import { MEDIA } from "../bench/meters";
import { drawing, pageRender } from "../bench/page-render";
import { write, type Report, type Row } from "../bench/report";

/** Nothing here is about time: a busy machine may take all it needs. */
const PATIENCE_MS = 300_000;

const numbers = (row: Row | undefined, ...names: string[]) => names.map((name) => Number(row?.[name]));

/** What was written of it. */
function written(report: Report, picture?: string): (ending: string) => string {
  const folder = mkdtempSync(`${tmpdir()}/sangam-bench-`);
  try {
    write(folder, report, picture);
    const endings = picture === undefined ? ["json", "csv", "md"] : ["json", "csv", "md", "svg"];
    const texts = new Map(endings.map((ending) =>
      [ending, readFileSync(`${folder}/${report.experiment}.${ending}`, "utf8")]));
    return (ending) => texts.get(ending) ?? "";
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("page-render measures a page without pictures and with two", async () => {
  const report = await pageRender({
    streams: [0, 2], seconds: 1, clipSeconds: 2, settleSeconds: 0, command: "a test",
  });
  const [none, two] = report.ours;
  expect(report.ours.map((row) => row["streams"])).toEqual([0, 2]);
  expect(none).not.toHaveProperty("shown_per_s");
  for (const row of [none, two]) {
    const [all = 0, user = 0, system = 0] =
      numbers(row, "browser_cpu_percent", "user_percent", "system_percent");
    expect(all).toBeGreaterThan(0);
    expect(all).toBeCloseTo(user + system);
  }
  for (const value of numbers(two, "decoded_worst_per_s", "shown_worst_per_s", "received_kbps")) {
    expect(value).toBeGreaterThan(0);
  }
  const text = written(report, drawing(report));
  expect(text("svg")).toContain("Fast JMF client");
  expect(JSON.parse(text("json"))).toMatchObject({ experiment: "page-render", verdict: { passed: true } });
}, PATIENCE_MS);

test("application measures sound, pictures and board at once", async () => {
  const report = await application({
    rounds: [MEDIA], seconds: 2, settleSeconds: 0, command: "a test",
  });
  expect(report.ours.map((row) => row["medium"])).toEqual([...MEDIA]);
  for (const row of report.ours) {
    const [samples = 0, best = 0, median = 0, p95 = 0, max = 0] = numbers(
      row, "samples", "latency_best_second_ms", "latency_p50_ms", "latency_p95_ms", "latency_max_ms");
    const what = JSON.stringify(row);
    expect(samples, what).toBeGreaterThan(0);
    expect(best, what).toBeGreaterThan(0);
    expect(median, what).toBeLessThanOrEqual(p95);
    expect(p95, what).toBeLessThanOrEqual(max);
  }
  const [, video, screen] = report.ours;
  for (const row of [video, screen]) {
    for (const value of numbers(row, "sent_per_s", "decoded_per_s", "shown_per_s")) {
      expect(value).toBeGreaterThan(0);
    }
  }
  expect(written(report)("csv").split("\n")).toHaveLength(MEDIA.length + 2);
}, PATIENCE_MS);
