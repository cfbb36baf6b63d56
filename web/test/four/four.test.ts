/**
 * Four people in four browsers at two brokers: `make page-four`. Dirk sits at the other end of a cable;
 * the broker that he and Bert came by dies at the end.
 */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { token, two, type Broker } from "../brokers";
import { cable, type Cable } from "../cable";
import { button, tile } from "../couple";
import { draws, opens, shows } from "../drawing";
import { enter, person, picture, type Person } from "../people";
import { hears, sees, tones, until } from "../senses";

/** Far enough apart to be told apart, and none a multiple of another. */
const PEOPLE = [["Anna", 520], ["Bert", 1_340], ["Cara", 860], ["Dirk", 2_210]] as const;
/** Four browsers on two processors take their time. */
const PATIENCE_MS = 60_000;

let line: Cable;
let brokers: [Broker, Broker];
let people: Person[] = [];
const four = () => people as [Person, Person, Person, Person];

beforeAll(async () => {
  line = await cable();
  brokers = await two(line.near);
  const origins = brokers.map((one) => one.origin);
  people = await Promise.all(PEOPLE.map(([name, tone]) =>
    person(name, tone, origins, name === "Dirk" ? { program: line.browser } : {})));
  for (const one of people) one.page.setDefaultTimeout(PATIENCE_MS);
});

afterEach(async ({ task }) => {
  if (task.result?.state !== "fail") return;
  console.error(people.flatMap((one) => one.faults).join("\n"));
  await Promise.all(people.map((one) => picture(one, `failed-${one.name.toLowerCase()}`)));
});

afterAll(async () => {
  await Promise.all(people.map((one) => one.leave()));
  await Promise.all((brokers ?? []).map((one) => one.kill()));
  await line?.remove();
});

/** Everybody, with everybody else. */
const pairs = () => people.flatMap((one) =>
  people.filter((other) => other !== one).map((other) => [one, other] as const));

async function everybodyMeets(): Promise<void> {
  for (const [one, other] of pairs()) await sees(one.page, other.name, PATIENCE_MS);
  for (const one of people) {
    const others = people.filter((other) => other !== one).map((other) => other.tone);
    await hears(one.page, others, PATIENCE_MS);
  }
}

/** Waits until none of the others hears somebody. */
async function unheard(silent: Person): Promise<void> {
  const quiet = (heard: number[]) => heard.every((tone) => Math.abs(tone - silent.tone) > 15);
  for (const one of people.filter((other) => other !== silent)) {
    await until(`silence of ${silent.name}`, () => tones(one.page), quiet, PATIENCE_MS);
  }
}

/** Switches a microphone on, once the page knows that it may. */
async function switchesOn(one: Person): Promise<void> {
  const on = button(one, "Mute");
  const told = one.page.getByText("The chair has muted you.");
  for (;;) {
    await button(one, "Unmute").click();
    await on.or(told).first().waitFor();
    if ((await on.count()) > 0) return;
    await button(one, "Close").click();
  }
}

async function come(one: Person, at: number): Promise<void> {
  const name = one.name.toLowerCase();
  const shown = await token(brokers[0], "weekly", name, at === 0 ? "chair" : "participant");
  await enter(one, `${brokers[at % 2]?.origin}/m/meet/weekly#token=${shown}`);
}

test("three come in, and the fourth waits in the lobby until it is let in", async () => {
  const [anna, bert, cara, dirk] = four();
  for (const [at, one] of [anna, bert, cara].entries()) {
    await come(one, at);
    await tile(one, `${one.name} (you)`).waitFor();
  }
  await button(anna, /^People/).click();
  await anna.page.getByText("Let people in one by one").click();
  await come(dirk, 3);
  await dirk.page.getByText("Please wait, somebody will let you in").waitFor();
  expect(await tile(bert, "Dirk").count(), "not before").toBe(0);
  await button(anna, "Let Dirk in").click();
  await tile(dirk, "Dirk (you)").waitFor();
});

test("four people at two brokers see and hear each other", async () => {
  await everybodyMeets();
  await picture(four()[0], "four");
});

test("all four see a screen, read a line and draw on one board", async () => {
  const [anna, bert] = four();
  await button(bert, "Share your screen").click();
  for (const one of people.filter((other) => other !== bert)) {
    await sees(one.page, "Bert", PATIENCE_MS, "screen");
  }
  await button(bert, "Stop sharing").click();
  await button(anna, "Chat").click();
  await anna.page.getByLabel("Your message").fill("Hello, all");
  await anna.page.keyboard.press("Enter");
  for (const one of people.slice(1)) await button(one, "Chat, 1").waitFor();
  for (const [n, one] of people.entries()) {
    await opens(one, "draws");
    await draws(one, "Rectangle", [0.1 + 0.15 * n, 0.1 + 0.15 * n]);
  }
  for (const one of people) await shows(one, 4);
  await picture(anna, "four-board");
  for (const one of people) await button(one, /^Whiteboard/).click();
});

test("the word goes from one to another, and only who has it is heard", async () => {
  const [anna, bert, cara] = four();
  for (const one of people.slice(1)) {
    await button(one, "Mute").click();
    await button(one, "Unmute").waitFor();
  }
  await button(anna, /^People/).click();
  await anna.page.getByText("Speaking on request").click();
  await button(bert, "Unmute").click();
  await button(bert, /Waiting to speak, number 1/).waitFor();
  await button(cara, "Unmute").click();
  await button(cara, /Waiting to speak, number 2/).waitFor();
  await button(anna, "Let Bert speak").click();
  for (const one of people.filter((other) => other !== bert)) {
    await hears(one.page, bert.tone, PATIENCE_MS);
  }
  await unheard(cara);
  await button(bert, "Mute").click();
  await button(cara, /Waiting to speak, number 1/).waitFor();
  await button(anna, "Let Cara speak").click();
  for (const one of people.filter((other) => other !== cara)) {
    await hears(one.page, cara.tone, PATIENCE_MS);
  }
  await unheard(bert);
  await anna.page.getByText("Speaking on request").click();
});

test("whoever is muted by the chair is heard by nobody until it may speak again", async () => {
  const [anna, bert, cara, dirk] = four();
  await switchesOn(dirk);
  await hears(cara.page, dirk.tone, PATIENCE_MS);
  await button(anna, "More for Dirk").click();
  await anna.page.getByRole("menuitem", { name: "Mute", exact: true }).click();
  await unheard(dirk);
  await button(anna, "More for Dirk").click();
  await anna.page.getByRole("menuitem", { name: "Let speak again" }).click();
  await switchesOn(dirk);
  await switchesOn(bert);
  await everybodyMeets();
});

test("one whose network was cut is back, and the others never left", async () => {
  const [anna, bert, cara, dirk] = four();
  await line.cut();
  await dirk.page.getByText("Connection lost").waitFor();
  await sees(anna.page, "Cara", PATIENCE_MS);
  await hears(cara.page, [anna.tone, bert.tone], PATIENCE_MS);
  await line.mend();
  const mended = performance.now();
  await sees(dirk.page, "Anna", PATIENCE_MS);
  console.log(`network of one of four was cut: sees again after ${Math.round(performance.now() - mended)} ms`);
  await everybodyMeets();
});

test("the broker of two dies, and all four go on without a reload", async () => {
  const [anna, bert, cara, dirk] = four();
  for (const { page } of people) await page.evaluate(() => Object.assign(globalThis, { same: true }));
  await brokers[1].kill();
  const died = performance.now();
  const back = async (one: Person, name: string) => {
    await sees(one.page, name, PATIENCE_MS);
    return `${one.name} ${name}: ${Math.round(performance.now() - died)} ms`;
  };
  const seen = await Promise.all([
    back(bert, "Anna"), back(dirk, "Cara"), back(anna, "Bert"), back(cara, "Dirk"),
  ]);
  console.log(`broker of two of four died: who sees whom again after ${seen.join(", ")}`);
  await everybodyMeets();
  for (const { page, name } of people) {
    expect(await page.evaluate(() => "same" in globalThis), `${name} was not loaded again`).toBe(true);
  }
  await picture(anna, "four-on-one");
  expect(people.flatMap((one) => one.faults)).toEqual([]);
});
