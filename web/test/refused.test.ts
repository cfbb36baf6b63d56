/** Links that let nobody in, meetings that are not to be had now, and devices that are not: in words. */

import { execFileSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { asks, guarded, port, PROGRAM, token, type Broker } from "./brokers";
import { accessible, button, tile } from "./couple";
import { enter, person, picture, type Means, type Person } from "./people";
import { devices } from "./senses";

const HOUR_S = 3_600;

const folder = mkdtempSync(`${tmpdir()}/sangam-links-`);
/** As a backend of somebody's own has it. */
let key: { kid: string; makes: string };
let broker: Broker;
let anna: Person;
let others: Person[] = [];

beforeAll(async () => {
  const made = execFileSync(PROGRAM, ["token", "key", "--shared", "--out", `${folder}/own`, "--json"]);
  key = JSON.parse(String(made)) as typeof key;
  broker = await guarded(await port("127.0.0.1"), {
    SANGAM_AUTH_KEYS: key.makes, SANGAM_SESSIONS_KEY: key.makes,
  });
  anna = await person("Anna", 520, [broker.origin]);
});

afterEach(async ({ task }) => {
  if (task.result?.state === "fail") {
    const all = [anna, ...others].filter(Boolean);
    console.error(all.flatMap((one) => one.faults).join("\n"));
    await Promise.all(all.map((one) => picture(one, `failed-${one.name.toLowerCase()}`)));
  }
  await Promise.all(others.map((one) => one.leave()));
  others = [];
});

afterAll(async () => {
  await anna?.leave();
  await broker?.kill();
  rmSync(folder, { recursive: true, force: true });
});

async function another(name: string, means: Means): Promise<Person> {
  const one = await person(name, 1_340, [broker.origin], means);
  others.push(one);
  return one;
}

const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** A token for the session `weekly`, with other claims where they are given. */
function signed(more: { exp?: number; room?: string } = {}): string {
  const { exp = Math.floor(Date.now() / 1_000) + HOUR_S, room = "weekly" } = more;
  const claims = { sub: "anna", name: "Anna", tenant: "meet", exp, video: { room, roomJoin: true } };
  const text = `${part({ alg: "HS256", typ: "JWT", kid: key.kid })}.${part(claims)}`;
  const secret = readFileSync(key.makes, "utf8").trim();
  return `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
}

/** Somebody else's claims under the signature of a token that is good. */
function tampered(): string {
  const [head, claims = "", signature] = signed().split(".");
  const said = JSON.parse(String(Buffer.from(claims, "base64url"))) as { video: object };
  const more = { ...said, video: { ...said.video, roomAdmin: true } };
  return `${head}.${part(more)}.${signature}`;
}

/** Follows a link as if it were the first. */
async function follows(shown: string | undefined, session = "weekly"): Promise<void> {
  await anna.page.goto(`${broker.origin}/healthz`);
  // A window keeps the token of a meeting.
  await anna.page.evaluate(() => sessionStorage.clear());
  const fragment = shown === undefined ? "" : `#token=${shown}`;
  await enter(anna, `${broker.origin}/m/meet/${session}${fragment}`);
}

/** Reads why a link does not let one in. */
async function refused(shown: string | undefined, words: string, session?: string): Promise<void> {
  await follows(shown, session);
  await anna.page.getByText(words, { exact: true }).waitFor();
  await accessible(anna.page, words);
}

const does = async (command: string, more: object = {}) =>
  expect((await asks(broker, "/meet/weekly/commands", { do: command, ...more })).status).toBe(200);

test("a link that lets nobody in says why", async () => {
  await asks(broker, "", { tenant: "meet", name: "weekly", title: "Weekly" });
  const past = Math.floor(Date.now() / 1_000) - HOUR_S;
  await refused(signed({ exp: past }), "This link has expired. Ask for a new one.");
  expect(await button(anna, "Try again").count(), "nor does it later").toBe(0);
  await picture(anna, "expired");
  expect(await devices(anna.page), "no lamp stays on").toBe(0);
  await refused(tampered(), "This link is not valid. Was all of it copied?");
  await refused("nothing", "This link is not valid. Was all of it copied?");
  await refused(signed({ room: "daily" }), "This link is for another meeting.");
  await refused(signed({ room: "none" }), "There is no such meeting.", "none");
  await refused(undefined, "This meeting is for invited people only. Ask for a link.");
  // The same page lets in who has a link that is good.
  await follows(signed());
  await tile(anna, "Anna (you)").waitFor();
});

test("whoever leaves may come again, but not into a meeting that is locked", async () => {
  await does("lock", { locked: true });
  await anna.page.getByRole("img", { name: "The meeting is locked" }).waitFor();
  await accessible(anna.page, "locked, inside");
  await button(anna, "Leave").click();
  await anna.page.getByText("You left the meeting").waitFor();
  await accessible(anna.page, "left");
  expect(await devices(anna.page), "off").toBe(0);
  await button(anna, "Join again").click();
  await button(anna, "Join now").click();
  await anna.page.getByText("The meeting is locked.", { exact: true }).waitFor();
  await accessible(anna.page, "locked, outside");
  await does("lock", { locked: false });
  await button(anna, "Try again").click();
  await button(anna, "Join now").click();
  await tile(anna, "Anna (you)").waitFor();
});

test("a meeting that has not begun, is paused or is over says so", async () => {
  const start_ms = Date.now() + HOUR_S * 1_000;
  await asks(broker, "", { tenant: "meet", name: "later", title: "Later", start_ms });
  await follows(signed({ room: "later" }), "later");
  await anna.page.getByText("The meeting has not begun yet.").waitFor();
  await accessible(anna.page, "not begun");
  await follows(signed());
  await button(anna, "Mute").waitFor();
  await does("deactivate");
  await anna.page.getByText("The meeting is paused.").waitFor();
  await anna.page.getByRole("button", { name: "Your microphone goes on with the meeting" }).waitFor();
  await accessible(anna.page, "paused");
  await picture(anna, "paused");
  await does("activate");
  await anna.page.getByText("The meeting is paused.").waitFor({ state: "detached" });
});

test("whoever may only look on is told so, and devices that are missing or not allowed are named", async () => {
  const link = async (name: string, role: string) =>
    `${broker.origin}/m/meet/weekly#token=${await token(broker, "weekly", name, role)}`;
  const olga = await another("Olga", { blind: true });
  await olga.page.goto(await link("olga", "observer"));
  await olga.page.getByText("No camera was found.").waitFor();
  await accessible(olga.page, "no camera");
  await button(olga, "Join now").click();
  await olga.page.getByText("Your role does not allow this.").waitFor();
  await accessible(olga.page, "looking on");
  const dirk = await another("Dirk", { args: ["--use-fake-ui-for-media-stream=deny"] });
  await dirk.page.goto(await link("dirk", "participant"));
  await dirk.page.getByText("does not let this page use the camera").waitFor();
  await dirk.page.getByText("does not let this page use the microphone").waitFor();
  await accessible(dirk.page, "devices denied");
  await picture(dirk, "denied");
  await button(dirk, "Join now").click();
  await tile(anna, "Dirk").waitFor();
  await button(dirk, "Camera on").click();
  await dirk.page.getByText("does not let this page use the camera").waitFor();
  await accessible(dirk.page, "a device denied in the meeting");
});

test("a meeting that is over is told from one that never was", async () => {
  await does("finish");
  await anna.page.getByText("The meeting is over").waitFor();
  await refused(signed(), "The meeting is over.");
  expect(anna.faults).toEqual([]);
});
