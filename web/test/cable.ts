/** A network of its own for one browser, at the other end of a cable that can be cut. */

import { execFileSync, spawn } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";

const NEAR = "10.77.0.1";
const FAR = "10.77.0.2";

export interface Cable {
  /** The address at this end. */
  near: string;
  /** A program that starts a browser at the other end. */
  browser: string;
  cut(): Promise<void>;
  mend(): Promise<void>;
  remove(): Promise<void>;
}

function ip(...args: string[]): void {
  execFileSync("ip", args, { stdio: ["ignore", "ignore", "inherit"] });
}

/** Must run in a network namespace that is nobody else's: scripts/web.sh makes one. */
export async function cable(): Promise<Cable> {
  const holder = spawn("unshare", ["--net", "sh", "-c", "echo ready; exec sleep infinity"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await new Promise<void>((resolve, reject) => {
    holder.once("error", reject);
    holder.once("exit", () => reject(new Error("no network namespace")));
    holder.stdout.once("data", () => resolve());
  });
  const pid = String(holder.pid);
  const far = (...args: string[]) =>
    execFileSync("nsenter", ["--net", "--target", pid, "ip", ...args], { stdio: "inherit" });
  ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", pid);
  ip("address", "add", `${NEAR}/24`, "dev", "near");
  ip("link", "set", "near", "up");
  far("link", "set", "lo", "up");
  far("address", "add", `${FAR}/24`, "dev", "far");
  far("link", "set", "far", "up");

  const folder = mkdtempSync(`${tmpdir()}/sangam-cable-`);
  const browser = `${folder}/browser`;
  const program = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
  writeFileSync(browser, `#!/bin/sh\nexec nsenter --net --target ${pid} ${program} "$@"\n`);
  chmodSync(browser, 0o755);
  return {
    near: NEAR,
    browser,
    cut: async () => ip("link", "set", "near", "down"),
    mend: async () => ip("link", "set", "near", "up"),
    remove: async () => {
      ip("link", "delete", "near");
      holder.kill("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
