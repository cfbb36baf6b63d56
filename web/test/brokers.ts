/** Brokers as processes: the program under test, linked, with the page that was built. */

import { execFileSync, spawn } from "node:child_process";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { createInterface } from "node:readline";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const PROGRAM = process.env["SANGAM"] ?? `${ROOT}target/debug/sangam`;
export const PAGE = process.env["SANGAM_PAGE_FOLDER"] ?? `${ROOT}web/app/dist`;

/** What an operator shows, where one has to. */
const OPERATOR = "operator-of-a-test";

export interface Broker {
  origin: string;
  /** Where native clients and other brokers come in. */
  udp: string;
  /** Address and port for media, UDP and TCP. */
  webrtc: string;
  /** Ends it without a word, as a crash would. */
  kill(): Promise<void>;
  /** Starts it again where it was, with more variables. */
  again(more: Record<string, string>): Promise<Broker>;
}

interface Ready {
  event: string;
  http: string;
  udp: string[];
  webrtc: string[];
}

/** A number that is free now: two brokers must know each other's before they start. */
export function port(host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, host, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : 0));
    });
  });
}

interface Wanted {
  name: string;
  host: string;
  http: number;
  /** Origins of the other brokers. */
  others: string[];
  more: string[];
  variables: Record<string, string>;
}

async function start(wanted: Wanted): Promise<Broker> {
  const { name, host, http, others, more, variables } = wanted;
  const args = [
    "serve", "--dev", "--json", "--log", "error", "--until-stdin-closes", "--name", name,
    "--listen", `${host}:0`, "--webrtc", `${host}:0`, "--http", `${host}:${http}`, ...more,
  ];
  const env = {
    ...process.env, SANGAM_PAGE_FOLDER: PAGE, SANGAM_PAGE_BROKERS: others.join(","), ...variables,
  };
  const child = spawn(PROGRAM, args, { env, stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const ready = await new Promise<Ready>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`${PROGRAM} ended with ${code}`)));
    child.once("error", reject);
    createInterface({ input: child.stdout }).once("line", (line) => resolve(JSON.parse(line) as Ready));
  });
  const kill = async () => {
    child.kill("SIGKILL");
    await ended;
  };
  const [udp = ""] = ready.udp;
  const [webrtc = ""] = ready.webrtc;
  const again = (changed: Record<string, string>) =>
    start({ ...wanted, variables: { ...variables, ...changed } });
  return { origin: `http://${ready.http}`, udp, webrtc, kill, again };
}

/** A broker by itself, of which this machine needs no token. */
export async function one(): Promise<Broker> {
  const host = "127.0.0.1";
  return start({ name: "a", host, http: await port(host), others: [], more: [], variables: {} });
}

/** A broker by itself that wants a token of everybody. */
export async function guarded(
  http: number, more: Record<string, string>, others: string[] = [],
): Promise<Broker> {
  const variables = { SANGAM_API_TOKEN: OPERATOR, ...more };
  return start({ name: "a", host: "127.0.0.1", http, others, more: [], variables });
}

/**
 * Two linked brokers; the first one hosts the sessions. Beyond this machine they want a token. `more` are
 * variables of both.
 */
export async function two(
  host = "127.0.0.1", more: Record<string, string> = {},
): Promise<[Broker, Broker]> {
  const [a, b] = [await port(host), await port(host)];
  const [of, at] = [`http://${host}:${a}`, `http://${host}:${b}`];
  const open = host === "127.0.0.1";
  const variables: Record<string, string> = open
    ? more : { SANGAM_API_TOKEN: OPERATOR, SANGAM_LINKS_ACCEPT: `${host}/32`, ...more };
  const first = await start({ name: "a", host, http: a, others: [at], more: [], variables });
  const second = await start({
    name: "b", host, http: b, others: [of], more: ["--link", first.udp],
    variables: { ...variables, SANGAM_SESSIONS_ENABLED: "false" },
  });
  return [first, second];
}

/**
 * Two session servers that share their sessions in an etcd, and a broker without one, all linked.
 * Pages of each may go on at the others. Keys are kept in `folder`.
 */
export async function sharing(etcd: string, folder: string): Promise<[Broker, Broker, Broker]> {
  const host = "127.0.0.1";
  const keys = `${folder}/tokens`;
  execFileSync(PROGRAM, ["token", "key", "--out", keys], { stdio: "ignore" });
  const ports = [await port(host), await port(host), await port(host)];
  const origins = ports.map((one) => `http://${host}:${one}`);
  const links: string[] = [];
  const broker = async (n: number, name: string, sessions: Record<string, string>) => {
    const started = await start({
      name, host, http: ports[n] ?? 0, others: origins.filter((_, other) => other !== n),
      more: links.flatMap((link) => ["--link", link]),
      variables: { SANGAM_API_TOKEN: OPERATOR, SANGAM_AUTH_KEYS: `${keys}.pub`, ...sessions },
    });
    links.push(started.udp);
    return started;
  };
  const shared = { SANGAM_SESSIONS_ETCD: etcd, SANGAM_SESSIONS_KEY: `${keys}.key` };
  return [
    await broker(0, "a", shared), await broker(1, "b", shared),
    await broker(2, "c", { SANGAM_SESSIONS_ENABLED: "false" }),
  ];
}

/** Asks something of sessions as an operator does. */
export function asks(
  { origin }: Broker, path: string, body: object, redirect: RequestRedirect = "follow",
): Promise<Response> {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${OPERATOR}` };
  const init = { method: "POST", headers, body: JSON.stringify(body), redirect };
  return fetch(`${origin}/v1/sessions${path}`, init);
}

/** Makes a session; the status, as no other server is asked. */
export async function makes(broker: Broker, name: string): Promise<number> {
  return (await asks(broker, "", { tenant: "meet", name, title: name }, "manual")).status;
}

/** What an operator reads of a session. */
export async function shown({ origin }: Broker, path: string): Promise<Record<string, unknown>> {
  const headers = { Authorization: `Bearer ${OPERATOR}` };
  return (await fetch(`${origin}/v1/sessions${path}`, { headers })).json() as Promise<Record<string, unknown>>;
}

/** A token for a meeting, which is made if it is not there. */
export async function token(
  broker: Broker, session: string, identity: string, role: string,
): Promise<string> {
  await asks(broker, "", { tenant: "meet", name: session, title: "Weekly" });
  const made = await asks(broker, `/meet/${session}/tokens`, { identity, role });
  return ((await made.json()) as { token: string }).token;
}
