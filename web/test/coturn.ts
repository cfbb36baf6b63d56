/** A TURN server that nobody here wrote. */

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { createInterface } from "node:readline";

const PORT = 3_478;

export interface Relay {
  url: string;
  /** Everything that it has said. */
  log: string[];
  stop(): Promise<void>;
}

/** Must run in a network that is nobody else's, as its port is always the same. */
export async function relay(host: string, secret: string): Promise<Relay> {
  const folder = mkdtempSync(`${tmpdir()}/sangam-coturn-`);
  const options = [
    "-n", "--no-cli", "--no-tls", "--no-dtls", "--verbose", "--log-file=stdout", "--simple-log",
    "--fingerprint", "--use-auth-secret", `--static-auth-secret=${secret}`, "--realm=sangam.test",
    `--listening-ip=${host}`, `--relay-ip=${host}`, `--listening-port=${PORT}`,
    `--pidfile=${folder}/pid`, `--userdb=${folder}/users`, "--relay-threads=1",
  ];
  const child = spawn("/usr/bin/turnserver", options, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const log: string[] = [];
  await new Promise<void>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`turnserver ended with ${code}: ${log.join("\n")}`)));
    createInterface({ input: child.stdout }).on("line", (line) => {
      log.push(line);
      if (line.includes("UDP listener opened")) resolve();
    });
  });
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
  return { url: `turn:${host}:${PORT}?transport=udp`, log, stop };
}
