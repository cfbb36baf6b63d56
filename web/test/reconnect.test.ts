/** The broker of a page dies, or its network does: the page goes on, without being loaded again. */

import { afterEach, beforeEach, expect, test } from "vitest";
import { token, two, type Broker } from "./brokers";
import { cable, type Cable } from "./cable";
import { accessible, button, tile } from "./couple";
import { draws, opens, shows } from "./drawing";
import { enter, person, picture, type Person } from "./people";
import { hears, sees } from "./senses";

/**
 * The page promises 5 s after a broker died and 3 s after a network came back; how long it took is
 * printed, as a busy machine may take longer.
 */
const PATIENCE_MS = 20_000;

let line: Cable;
let brokers: [Broker, Broker];
let anna: Person;
let bert: Person;
let cara: Person | undefined;
const people = () => [anna, bert, cara].filter((one) => one !== undefined);

beforeEach(async () => {
  cara = undefined;
  line = await cable();
  brokers = await two(line.near);
  const origins = brokers.map((one) => one.origin);
  // Bert sits at the other end of the cable.
  [anna, bert] = await Promise.all([
    person("Anna", 520, origins), person("Bert", 1_340, origins, { program: line.browser }),
  ]);
  await enter(anna, await link(0, "anna", "chair"));
  await enter(bert, await link(1, "bert", "participant"));
  await Promise.all([sees(anna.page, "Bert"), sees(bert.page, "Anna")]);
  expect(bert.page.url(), "tokens are nobody else's").toBe(`${brokers[1].origin}/m/meet/weekly`);
  await bert.page.evaluate(() => Object.assign(globalThis, { same: true }));
});

afterEach(async ({ task }) => {
  if (task.result?.state === "fail") {
    console.error(people().flatMap((one) => one.faults).join("\n"));
    await Promise.all(people().map((one) => picture(one, `failed-${one.name.toLowerCase()}`)));
  }
  await Promise.all(people().map((one) => one.leave()));
  await Promise.all((brokers ?? []).map((one) => one.kill()));
  await line?.remove();
});

async function link(at: number, name: string, role: string): Promise<string> {
  const shown = await token(brokers[0], "weekly", name, role);
  return `${brokers[at]?.origin}/m/meet/weekly#token=${shown}`;
}

/** How long after `since` frames go on: a few more, or those of a connection that was made anew. */
async function back(one: Person, name: string, since: number, patienceMs: number): Promise<number> {
  await sees(one.page, name, patienceMs);
  return Math.round(performance.now() - since);
}

/** All hear each other, and those whose way was lost were not loaded again. */
async function asBefore(...lost: Person[]): Promise<void> {
  await Promise.all(people().map((one) => {
    const others = people().filter((other) => other !== one);
    return hears(one.page, others.map((other) => other.tone), PATIENCE_MS);
  }));
  for (const { page } of lost) {
    expect(await page.evaluate(() => "same" in globalThis), "no reload").toBe(true);
    await page.getByText("Connection lost").waitFor({ state: "detached" });
  }
}

test("two pages whose broker dies go on through another", async () => {
  cara = await person("Cara", 860, brokers.map((one) => one.origin));
  await enter(cara, await link(1, "cara", "participant"));
  await Promise.all([
    sees(anna.page, "Cara"), sees(bert.page, "Cara"), sees(cara.page, "Anna"), sees(cara.page, "Bert"),
  ]);
  await cara.page.evaluate(() => Object.assign(globalThis, { same: true }));
  // Where a screen was shown, and is no more, a camera may have to play after the change of brokers.
  await button(bert, "Share your screen").click();
  await sees(anna.page, "Bert", PATIENCE_MS, "screen");
  await button(bert, "Stop sharing").click();
  await Promise.all([anna, cara].map((one) => tile(one, "Bert's screen").waitFor({ state: "detached" })));
  await Promise.all([opens(anna, "draws"), opens(bert, "draws")]);
  await draws(anna, "Rectangle", [0.2, 0.2]);
  await shows(bert, 1);
  const moved = bert.page.waitForRequest(
    (request) => request.url().startsWith(`${brokers[0].origin}/v1/whep/`), { timeout: PATIENCE_MS },
  );
  await brokers[1].kill();
  const died = performance.now();
  const noticed = moved.then(() => Math.round(performance.now() - died));
  const pairs = people().flatMap((one) => people().filter((other) => other !== one)
    .map(async (other) => `${one.name} ${other.name} ${await back(one, other.name, died, PATIENCE_MS)} ms`));
  const took = (await Promise.all(pairs)).join(", ");
  console.log(`broker of two died: noticed after ${await noticed} ms; who sees whom again after: ${took}`);
  await asBefore(bert, cara);
  await bert.page.locator("[data-live=true][data-may=draws]").waitFor({ timeout: PATIENCE_MS });
  await draws(bert, "Ellipse", [0.5, 0.3]);
  await Promise.all([shows(anna, 2), shows(bert, 2)]);
});

test("a page whose network was cut is back", async () => {
  await line.cut();
  await bert.page.getByText("Connection lost").waitFor();
  await picture(bert, "cut");
  await accessible(bert.page, "connection lost");
  await line.mend();
  const mended = performance.now();
  const took = await Promise.all([
    back(bert, "Anna", mended, PATIENCE_MS), back(anna, "Bert", mended, PATIENCE_MS),
  ]);
  console.log(`network was cut: seen again ${took.join(" and ")} ms after it was back`);
  await asBefore(bert);
  await bert.page.keyboard.press("h");
  await anna.page.getByRole("img", { name: "Hand raised" }).waitFor();
});
