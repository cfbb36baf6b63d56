/** Four people in four browsers at two brokers: `make page-four`. */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { two, type Broker } from "../brokers";
import { enter, person, picture, type Person } from "../people";
import { hears, sees } from "../senses";

/** Far enough apart to be told apart, and none a multiple of another. */
const PEOPLE = [["Anna", 520], ["Bert", 1_340], ["Cara", 860], ["Dirk", 2_210]] as const;
/** Four browsers on two processors take their time. */
const PATIENCE_MS = 60_000;

let brokers: [Broker, Broker];
let people: Person[] = [];

beforeAll(async () => {
  brokers = await two();
  const origins = brokers.map((one) => one.origin);
  people = await Promise.all(PEOPLE.map(([name, tone]) => person(name, tone, origins)));
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
});

/** Everybody, with everybody else. */
const pairs = () => people.flatMap((one) =>
  people.filter((other) => other !== one).map((other) => [one, other] as const));

test("four people at two brokers see and hear each other", async () => {
  for (const [at, one] of people.entries()) {
    await enter(one, `${brokers[at % 2]?.origin}/m/meet/weekly`);
    await one.page.getByRole("article", { name: `${one.name} (you)` }).waitFor();
  }
  for (const [one, other] of pairs()) await sees(one.page, other.name, PATIENCE_MS);
  for (const one of people) {
    const others = people.filter((other) => other !== one).map((other) => other.tone);
    await hears(one.page, others, PATIENCE_MS);
  }
  await picture(people[0]!, "four");
});

test("all four see a screen, read a line and draw on one board", async () => {
  const [anna, bert] = people as [Person, Person];
  await bert.page.getByRole("button", { name: "Share your screen" }).click();
  for (const one of people.filter((one) => one !== bert)) {
    await sees(one.page, "Bert", PATIENCE_MS, "screen");
  }
  await bert.page.getByRole("button", { name: "Stop sharing" }).click();
  await anna.page.getByRole("button", { name: "Chat" }).click();
  await anna.page.getByLabel("Your message").fill("Hello, all");
  await anna.page.keyboard.press("Enter");
  for (const one of people.slice(1)) {
    await one.page.getByRole("button", { name: "Chat, 1" }).waitFor();
  }
  for (const [n, one] of people.entries()) {
    await one.page.getByRole("button", { name: /^Whiteboard/ }).click();
    await one.page.locator("[data-live=true][data-may=draws]").waitFor();
    const board = one.page.getByRole("region", { name: "Whiteboard" });
    await board.getByRole("button", { name: "Rectangle" }).click();
    const box = await one.page.locator("canvas.interactive").boundingBox();
    const [x, y] = [(box?.x ?? 0) + 40 + n * 60, (box?.y ?? 0) + 60 + n * 40];
    await one.page.mouse.move(x, y);
    await one.page.mouse.down();
    await one.page.mouse.move(x + 30, y + 20);
    await one.page.mouse.move(x + 50, y + 30);
    await one.page.mouse.up();
  }
  for (const one of people) await one.page.locator('[data-shapes="4"]').waitFor();
  await picture(anna, "four-board");
  expect(people.flatMap((one) => one.faults)).toEqual([]);
});
