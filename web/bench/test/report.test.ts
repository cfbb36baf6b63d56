import { describe, expect, test } from "vitest";
import { plot } from "../plot";
import { check, csv, json, machine, markdown, table, text, verdict, type Report } from "../report";
import { TABLE_3 } from "../table3";

const report: Report = {
  experiment: "page-render", title: "CPU", ours: [{ streams: 1, browser_cpu_percent: 12.3456789 }],
  paper: [{ client: "VIC, of Access Grid", streams: 1 }], notes: ["Only growth."],
  machine: machine("make bench-web", "Chromium 1", "0.1 0.2 0.3"),
  verdict: verdict([check("loss", 0.5, { at_most: 1 }), check("share", 0.5, { at_least: 0.8 })]),
};

describe("a report", () => {
  test("keeps the order of its rows and six decimals", () => {
    const read = JSON.parse(json(report)) as Report;
    expect(Object.keys(read.ours[0] ?? {})).toEqual(["streams", "browser_cpu_percent"]);
    expect(read.ours[0]?.["browser_cpu_percent"]).toBe(12.345679);
    expect(Object.keys(read)).toEqual(
      ["experiment", "title", "ours", "paper", "notes", "machine", "verdict"]);
  });

  test("has a verdict that names what was missed, and a value that is no number is missed", () => {
    expect(report.verdict.passed).toBe(false);
    expect(report.verdict.text).toBe("missed 1 of 2 checks: share");
    expect(check("latency", NaN, { at_most: 150 }).passed).toBe(false);
    expect(verdict([]).passed).toBe(true);
  });

  test("joins unlike rows into one table, quoted where it must be", () => {
    expect(csv(report.ours, report.paper)).toBe(
      'whose,streams,browser_cpu_percent,client\nours,1,12.35,\npaper,1,,"VIC, of Access Grid"\n');
    expect(table([{ aa: 1 }, { bb: true }])).toBe(
      "| aa |  bb |\n| -: | --: |\n|  1 |     |\n|    | yes |\n");
  });

  test("tells numbers as people read them", () => {
    expect([1_234.5, 123.45, 12.345, 0.12345, 7].map(text)).toEqual(
      ["1235", "123.5", "12.35", "0.123", "7"]);
  });

  test("names machine, bound and outcome in words", () => {
    const page = markdown(report);
    expect(page).toContain("- reached: loss = 0.5000 (at most 1)\n- MISSED: share = 0.5000 (at least 0.8)");
    expect(page).toContain("- browser: Chromium 1\n");
    expect(report.machine.date).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  });
});

test("the paper's table has three clients and eight numbers of streams", () => {
  expect(TABLE_3).toHaveLength(24);
  const last = TABLE_3.filter((row) => row["streams"] === 8).map((row) => row["cpu_to_percent"]);
  expect(last).toEqual([41, 63, 35]);
});

test("a picture holds every line within its edges, and names from outside are no markup", () => {
  const svg = plot({ title: "a < b", x: "streams", y: "%" }, [
    { name: "ours", ours: true, points: [[0, 10], [8, 187.5]] },
    { name: "R&D", ours: false, points: [[1, 9]] },
  ]);
  expect(svg).toContain("a &lt; b");
  expect(svg).toContain("R&amp;D");
  const points = [...svg.matchAll(/<circle cx="([\d.-]+)" cy="([\d.-]+)"/g)]
    .map((found) => [Number(found[1]), Number(found[2])] as const);
  expect(points).toHaveLength(3);
  for (const [x, y] of points) {
    expect(x).toBeGreaterThanOrEqual(72);
    expect(x).toBeLessThanOrEqual(836);
    expect(y).toBeGreaterThanOrEqual(48);
    expect(y).toBeLessThanOrEqual(424);
  }
  expect(points[1]?.[1], "more is higher").toBeLessThan(points[0]?.[1] ?? 0);
});
