/** What processes and the machine have used of the processors, by /proc. */

import { readdirSync, readFileSync } from "node:fs";
import type { Browser } from "playwright-core";

/** USER_HZ: /proc counts in hundredths of a second on every Linux. */
const TICKS_PER_S = 100;

/** Seconds on processors. */
export interface Cpu {
  user: number;
  system: number;
}

/** A process and all that descend from it. */
export interface Tree extends Cpu {
  /** User and system, by what the processes are: `browser`, `renderer`, `gpu-process`, ... */
  kinds: Record<string, number>;
}

interface Process extends Cpu {
  pid: number;
  parent: number;
}

/** One line of /proc/PID/stat, with what its children used that have ended. */
export function stat(line: string): Process | undefined {
  // The name stands in brackets and may hold anything, brackets as well.
  const at = line.lastIndexOf(")");
  const words = line.slice(at + 2).split(" ").map(Number);
  const pid = Number.parseInt(line, 10);
  const [parent, user, system] = [words[1], words[11], words[12]];
  if (at < 0 || parent === undefined || user === undefined || system === undefined) return undefined;
  const [users, systems] = [words[13] ?? 0, words[14] ?? 0];
  return { pid, parent, user: (user + users) / TICKS_PER_S, system: (system + systems) / TICKS_PER_S };
}

/** What a process and its descendants have used until now. */
export function tree(root: number): Tree {
  const all = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).flatMap((name) => {
    const one = stat(read(`/proc/${name}/stat`));
    return one ? [one] : [];
  });
  const found = all.filter((one) => one.pid === root);
  // Children are appended while this goes over them.
  for (const one of found) found.push(...all.filter((other) => other.parent === one.pid));
  const sum: Tree = { user: 0, system: 0, kinds: {} };
  for (const { pid, user, system } of found) {
    sum.user += user;
    sum.system += system;
    const kind = pid === root ? "browser" : kindOf(pid);
    sum.kinds[kind] = (sum.kinds[kind] ?? 0) + user + system;
  }
  return sum;
}

/** What Chromium calls a process of its own. */
function kindOf(pid: number): string {
  const words = read(`/proc/${pid}/cmdline`).split(/[\0 ]/);
  return words.find((word) => word.startsWith("--type="))?.slice("--type=".length) ?? "other";
}

/** Seconds on processors of everything on this machine. */
export function machineCpu(): number {
  const [user = 0, nice = 0, system = 0, , , irq = 0, soft = 0] =
    read("/proc/stat").split("\n", 1)[0]?.split(/\s+/).slice(1).map(Number) ?? [];
  return (user + nice + system + irq + soft) / TICKS_PER_S;
}

/** The first process of a browser; all others descend from it. */
export async function rootOf(browser: Browser): Promise<number> {
  const session = await browser.newBrowserCDPSession();
  try {
    const { processInfo } = await session.send("SystemInfo.getProcessInfo");
    const first = processInfo.find((one) => one.type === "browser");
    if (!first) throw new Error("the browser names no process of its own");
    return first.id;
  } finally {
    await session.detach();
  }
}

/** Empty for what has ended meanwhile. */
function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
