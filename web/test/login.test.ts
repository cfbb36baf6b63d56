/** People without a token log in with an account elsewhere, and come back to the meeting. */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { execFileSync } from "node:child_process";
import { guarded, makes, port, PROGRAM, shown, type Broker } from "./brokers";
import { accessible } from "./couple";
import { etcd } from "./etcd";
import { identities, SECRET, type Identities } from "./provider";
import { person, picture, type Person } from "./people";

const HOST = "127.0.0.1";
const ACCOUNTS = {
  anna: { name: "Anna Example", groups: ["staff"] },
  bert: { name: "Bert Example", groups: ["guests"] },
};

let broker: Broker;
let provider: Identities;
/** Where two servers that share their sessions listen. */
let shared: [number, number];
let people: Person[] = [];

function variables(issuer: string): Record<string, string> {
  return {
    SANGAM_LOGIN_ISSUER: issuer, SANGAM_LOGIN_CLIENT_SECRET: SECRET, SANGAM_LOGIN_CHAIRS: "staff",
  };
}

beforeAll(async () => {
  const [http, other] = [await port(HOST), await port(HOST)];
  shared = [await port(HOST), await port(HOST)];
  const pages = [http, shared[0]].map((one) => `http://${HOST}:${one}`);
  provider = await identities([HOST, other], pages, ACCOUNTS);
  broker = await guarded(http, variables(provider.issuer));
});

afterEach(async () => {
  await Promise.all(people.map((one) => one.leave()));
  people = [];
});

afterAll(async () => {
  await broker?.kill();
  await provider?.stop();
});

/** Somebody who opens a meeting's address and goes to the provider's page. */
async function comes(name: string, meeting: string, at: Broker[] = [broker]): Promise<Person> {
  const origins = at.map(({ origin }) => origin);
  const one = await person(name, 520, [...origins, provider.issuer]);
  people.push(one);
  await one.page.goto(`${origins[0]}/m/meet/${meeting}`);
  await one.page.getByRole("link", { name: "Log in to join" }).click();
  return one;
}

async function logsIn(
  name: string, account: string, meeting: string, at?: Broker[],
): Promise<Person> {
  const one = await comes(name, meeting, at);
  await one.page.getByLabel("Account").fill(account);
  await one.page.getByRole("button", { name: "Continue" }).click();
  await one.page.waitForURL(`**/m/meet/${meeting}`);
  await one.page.getByRole("button", { name: "Join now" }).click();
  return one;
}

async function counted(name: string): Promise<number> {
  const metrics = await (await fetch(`${broker.origin}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(metrics)?.[1]);
}

test("staff make a meeting by opening it, guests join, and both are who the provider says", async () => {
  const anna = await logsIn("Anna", "anna", "weekly");
  await anna.page.getByRole("button", { name: "Leave" }).waitFor();
  expect(anna.page.url(), "the token is not left in the address").toBe(`${broker.origin}/m/meet/weekly`);
  const bert = await logsIn("Bert", "bert", "weekly");
  await bert.page.getByRole("button", { name: "Leave" }).waitFor();
  const { members } = await shown(broker, "/meet/weekly") as { members: Record<string, string>[] };
  const known = members.map(({ identity, role }) => [identity, role]);
  expect(known.sort()).toEqual([["anna", "chair"], ["bert", "participant"]]);
  expect([...anna.faults, ...bert.faults]).toEqual([]);
  expect(await counted("sangam_logins_total")).toBe(2);
});

test("who logs out is a stranger here and at the provider", async () => {
  const anna = await logsIn("Anna", "anna", "weekly");
  await anna.page.getByRole("button", { name: "Leave" }).click();
  await accessible(anna.page, "left, with an account");
  await anna.page.getByRole("link", { name: "Log out" }).click();
  // The provider's own page asks, as no other page should be able to log somebody out.
  await anna.page.getByRole("button", { name: /sign me out/i }).click();
  await anna.page.waitForURL(`${broker.origin}/m/meet/weekly`);
  await anna.page.getByText("You are logged out.").waitFor();
  await accessible(anna.page, "logged out");
  await picture(anna, "logged-out");
  const kept = await anna.page.evaluate(() => Object.keys(sessionStorage));
  expect(kept.filter((key) => /token|account/.test(key))).toEqual([]);
  await anna.page.getByRole("link", { name: "Log in to join" }).click();
  await anna.page.getByLabel("Account").waitFor();
  expect(anna.faults).toEqual([]);
  for (const to of ["https://evil.example/", "//evil.example/m/a/b", "/m/meet"]) {
    for (const path of [`/v1/logout?to=${to}`, `/v1/logout/end?state=${to}`]) {
      const { status } = await fetch(broker.origin + path, { redirect: "manual" });
      expect(status, path).toBe(400);
    }
  }
});

test("a guest makes no meeting", async () => {
  const bert = await logsIn("Bert", "bert", "other");
  await bert.page.getByText(/no session|is no such/i).first().waitFor();
  const sessions = await shown(broker, "") as { sessions: { name: string }[] };
  expect(sessions.sessions.map(({ name }) => name)).not.toContain("other");
});

test("who is refused is told so, and may try again", async () => {
  const before = await counted("sangam_logins_refused_total");
  const bert = await comes("Bert", "weekly");
  await bert.page.getByRole("button", { name: "Cancel" }).click();
  await bert.page.getByText("the login was refused").waitFor();
  await picture(bert, "login-refused");
  await accessible(bert.page, "login refused");
  expect(bert.page.url()).toBe(`${broker.origin}/m/meet/weekly`);
  await bert.page.getByRole("link", { name: "Log in to join" }).waitFor();
  expect(await counted("sangam_logins_refused_total")).toBe(before + 1);
});

test("what another browser began, or nobody, is not finished here", async () => {
  const callback = `${broker.origin}/v1/login/callback?code=x&state=y`;
  const none = await fetch(callback, { redirect: "manual" });
  expect([none.status, (await none.json() as { code: string }).code]).toEqual([400, "late"]);
  const begun = await fetch(`${broker.origin}/v1/login?to=/m/meet/weekly`, { redirect: "manual" });
  const cookie = begun.headers.get("set-cookie")?.split(";")[0] ?? "";
  expect(cookie).toMatch(/^sangam_login=./);
  const other = await fetch(callback, { redirect: "manual", headers: { Cookie: cookie } });
  expect(other.status).toBe(400);
  // A code that the provider never gave.
  const state = new URL(begun.headers.get("location") ?? "").searchParams.get("state");
  const forged = await fetch(`${broker.origin}/v1/login/callback?code=x&state=${state}`, {
    redirect: "manual", headers: { Cookie: cookie },
  });
  expect(forged.headers.get("location")).toBe("/m/meet/weekly#login=refused");
  for (const to of ["https://evil.example/", "//evil.example/m/a/b", "/m/meet", "/m/other/weekly"]) {
    const { status } = await fetch(`${broker.origin}/v1/login?to=${encodeURIComponent(to)}`, { redirect: "manual" });
    expect([400, 403], to).toContain(status);
  }
});

test("a meeting is made at the server that has less to do", async () => {
  const store = await etcd();
  const keys = `${store.folder}/tokens`;
  execFileSync(PROGRAM, ["token", "key", "--out", keys], { stdio: "ignore" });
  const serves = (n: 0 | 1) => guarded(shared[n], {
    ...variables(provider.issuer), SANGAM_SESSIONS_ETCD: store.url,
    SANGAM_SESSIONS_KEY: `${keys}.key`, SANGAM_AUTH_KEYS: `${keys}.pub`,
  }, [`http://${HOST}:${shared[n ? 0 : 1]}`]);
  const servers = [await serves(0), await serves(1)];
  try {
    let made = 0;
    // As many as make this one send others away.
    while (servers[0] && (await makes(servers[0], `full-${made}`)) !== 307) {
      made += 1;
      expect(made).toBeLessThan(200);
    }
    const anna = await logsIn("Anna", "anna", "far", servers);
    await anna.page.getByRole("button", { name: "Leave" }).waitFor();
    expect(servers[1] && ((await shown(servers[1], "/meet/far")) as { name?: string }).name).toBe("far");
  } finally {
    await Promise.all(servers.map((one) => one.kill()));
    await store.stop();
  }
});

test("a provider that is not there keeps nobody waiting, and the broker runs", async () => {
  const nowhere = `http://${HOST}:${await port(HOST)}`;
  const alone = await guarded(await port(HOST), variables(nowhere));
  try {
    const begun = await fetch(`${alone.origin}/v1/login?to=/m/meet/weekly`, { redirect: "manual" });
    expect(begun.headers.get("location")).toBe("/m/meet/weekly#login=unreachable");
    const out = await fetch(`${alone.origin}/v1/logout?to=/m/meet/weekly`, { redirect: "manual" });
    expect(out.headers.get("location")).toBe("/m/meet/weekly#login=left");
    expect((await fetch(`${alone.origin}/healthz`)).ok).toBe(true);
  } finally {
    await alone.kill();
  }
});
