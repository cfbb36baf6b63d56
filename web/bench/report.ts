/** Results as `sangam bench` writes them: JSON, CSV and Markdown (docs/spec/bench-report.md). */

import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { arch, availableParallelism, cpus, loadavg, release, totalmem } from "node:os";

/** Named values in the order they were set; the specification lists the names. */
export type Row = Record<string, string | number | boolean>;

export interface Check {
  name: string;
  value: number;
  at_most?: number;
  at_least?: number;
  passed: boolean;
}

export interface Verdict {
  passed: boolean;
  checks: Check[];
  text: string;
}

export interface Machine {
  cpu: string;
  cores: number;
  kernel: string;
  memory_mib: number;
  rmem_max?: number;
  wmem_max?: number;
  load_average: string;
  date: string;
  commit: string;
  command: string;
  /** Name and version. */
  browser: string;
}

export interface Report {
  experiment: string;
  title: string;
  ours: Row[];
  paper: Row[];
  notes: string[];
  machine: Machine;
  verdict: Verdict;
}

/** A value against its bound; one that is no number keeps to none. */
export function check(name: string, value: number, bound: { at_most: number } | { at_least: number }): Check {
  const passed = "at_most" in bound ? value <= bound.at_most : value >= bound.at_least;
  return { name, value, ...bound, passed };
}

export function verdict(checks: Check[]): Verdict {
  const missed = checks.filter((one) => !one.passed);
  const names = missed.map((one) => one.name).join("; ");
  const [all, some] = [checks.length, missed.length];
  const text = all === 0 ? "measured; nothing was to be reached"
    : some === 0 ? `reached: ${all} of ${all} checks`
      : `missed ${some} of ${all} checks: ${names}`;
  return { passed: some === 0, checks, text };
}

/** The facts that stand beside every figure; `load` was read before the run. */
export function machine(command: string, browser: string, load: string): Machine {
  const [first] = cpus();
  return {
    cpu: first?.model ?? arch(), cores: availableParallelism(), kernel: release(),
    memory_mib: Math.floor(totalmem() / 2 ** 20),
    ...limit("rmem_max"), ...limit("wmem_max"), load_average: load,
    date: new Date().toISOString().replace(/\.\d+Z$/, "Z"), commit: commit(), command, browser,
  };
}

/** Load averages now: what else the machine does. */
export function load(): string {
  return loadavg().map((one) => one.toFixed(2)).join(" ");
}

/** Nothing in a network namespace whose kernel shows it to the first one only. */
function limit(name: "rmem_max" | "wmem_max"): Pick<Machine, "rmem_max" | "wmem_max"> {
  try {
    return { [name]: Number(readFileSync(`/proc/sys/net/core/${name}`, "utf8")) };
  } catch {
    return {};
  }
}

function commit(): string {
  const git = (...args: string[]) => execFileSync("git", args, { encoding: "utf8", stdio: "pipe" });
  try {
    const changed = git("status", "--porcelain").trim() !== "";
    return git("rev-parse", "--short=12", "HEAD").trim() + (changed ? "+" : "");
  } catch {
    return "";
  }
}

/** Writes `NAME.json`, `.csv`, `.md` and, if there is a picture, `.svg`. */
export function write(folder: string, report: Report, picture?: string): void {
  mkdirSync(folder, { recursive: true });
  const file = (ending: string, text: string) =>
    writeFileSync(`${folder}/${report.experiment}.${ending}`, text);
  file("json", `${json(report)}\n`);
  file("csv", csv(report.ours, report.paper));
  file("md", markdown(report));
  if (picture !== undefined) file("svg", picture);
}

/** Six decimals keep nanoseconds of a millisecond and no noise. */
export function json(report: Report): string {
  const short = (_: string, value: unknown) =>
    typeof value === "number" ? Math.round(value * 1e6) / 1e6 : value;
  return JSON.stringify(report, short, 2);
}

/** A value as a person reads it: three significant decimals at most. */
export function text(value: Row[string] | undefined): string {
  if (value === undefined) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string" || Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  return value.toFixed(size >= 1_000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

function columns(rows: readonly Row[]): string[] {
  return [...new Set(rows.flatMap((row) => Object.keys(row)))];
}

/** Both tables as one; the first column says whose row it is. */
export function csv(ours: readonly Row[], paper: readonly Row[]): string {
  const names = columns([...ours, ...paper]);
  const quoted = (cell: string) => (/[",\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  const lines = (whose: string, rows: readonly Row[]) =>
    rows.map((row) => [whose, ...names.map((name) => quoted(text(row[name])))].join(","));
  return [`whose,${names.join(",")}`, ...lines("ours", ours), ...lines("paper", paper), ""].join("\n");
}

export function table(rows: readonly Row[]): string {
  if (rows.length === 0) return "Nothing measured.\n";
  const names = columns(rows);
  const cells = [names, ...rows.map((row) => names.map((name) => text(row[name])))];
  const widths = names.map((_, at) => Math.max(...cells.map((line) => line[at]?.length ?? 0)));
  const join = (line: readonly string[]) =>
    `| ${line.map((cell, at) => cell.padStart(widths[at] ?? 0)).join(" | ")} |\n`;
  const [head = [], ...rest] = cells;
  const rule = widths.map((width) => `${"-".repeat(width - 1)}:`);
  return [head, rule, ...rest].map(join).join("");
}

export function markdown(report: Report): string {
  const { verdict, machine } = report;
  const list = (lines: readonly string[]) => lines.map((line) => `- ${line}\n`).join("");
  const checks = verdict.checks.map((one) => {
    const bound = one.at_most === undefined ? `at least ${one.at_least}` : `at most ${one.at_most}`;
    return `${one.passed ? "reached" : "MISSED"}: ${one.name} = ${one.value.toFixed(4)} (${bound})`;
  });
  const facts = [
    `date: ${machine.date}`, `commit: ${machine.commit}`, `command: \`${machine.command}\``,
    `processor: ${machine.cpu} (${machine.cores} cores)`, `kernel: ${machine.kernel}`,
    `memory: ${machine.memory_mib} MiB`, `browser: ${machine.browser}`,
    `load average before: ${machine.load_average}`,
  ];
  const sections = [
    ["Ours", table(report.ours)],
    ...(report.paper.length > 0 ? [["The paper", table(report.paper)]] : []),
    ["Verdict", `${verdict.text}\n${checks.length > 0 ? `\n${list(checks)}` : ""}`],
    ["How to read this", list(report.notes)],
    ["Machine", list(facts)],
  ];
  const body = sections.map(([title, content]) => `\n## ${title}\n\n${content}`).join("");
  return `# ${report.experiment}\n\n${report.title}\n${body}`;
}
