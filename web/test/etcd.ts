/** An etcd of one member, from the system. */

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { port } from "./brokers";
import { until } from "./senses";

const HOST = "127.0.0.1";

export interface Etcd {
  url: string;
  /** What stands there goes with it. */
  folder: string;
  /** Ends it without a word, as a crash would; what it keeps stays. */
  kill(): Promise<void>;
  /** Starts it again with what it kept, and waits until it is well. */
  again(): Promise<void>;
  stop(): Promise<void>;
}

export async function etcd(): Promise<Etcd> {
  const folder = mkdtempSync(`${tmpdir()}/sangam-etcd-`);
  const [clients, peers] = [await port(HOST), await port(HOST)];
  const [url, between] = [`http://${HOST}:${clients}`, `http://${HOST}:${peers}`];
  const args = [
    "--data-dir", `${folder}/data`, "--listen-client-urls", url, "--advertise-client-urls", url,
    "--listen-peer-urls", between, "--initial-advertise-peer-urls", between,
    "--initial-cluster", `default=${between}`, "--logger", "zap", "--log-level", "error",
  ];
  let kill = await starts(url, args);
  const stop = async () => {
    await kill();
    rmSync(folder, { recursive: true, force: true });
  };
  const again = async () => {
    kill = await starts(url, args);
  };
  return { url, folder, kill: () => kill(), again, stop };
}

/** Starts it; what ends it. */
async function starts(url: string, args: string[]): Promise<() => Promise<void>> {
  const child = spawn("etcd", args, { stdio: ["ignore", "ignore", "inherit"] });
  const failed = new Promise<never>((_, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`etcd ended with ${code}`)));
  });
  const well = () => fetch(`${url}/health`).then((answer) => answer.text()).catch(() => "");
  await Promise.race([until("etcd is well", well, (text) => text.includes('"true"')), failed]);
  const ended = failed.catch(() => undefined);
  return async () => {
    child.kill("SIGKILL");
    await ended;
  };
}
