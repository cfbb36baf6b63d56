/** The broker of a page dies, or its network does: the page goes on, without being loaded again. */

import { afterEach, beforeEach, expect, test } from "vitest";
import { token, two, type Broker } from "./brokers";
import { cable, type Cable } from "./cable";
import { accessible } from "./couple";
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

beforeEach(async () => {
  line = await cable();
  brokers = await two(line.near);
  const origins = brokers.map((one) => one.origin);
  // Bert sits at the other end of the cable.
  [anna, bert] = await Promise.all([
    person("Anna", 520, origins), person("Bert", 1_340, origins, { program: line.browser }),
  ]);
  const link = async (at: number, name: string, role: string) =>
    `${brokers[at]?.origin}/m/meet/weekly#token=${await token(brokers[0], "weekly", name, role)}`;
  await enter(anna, await link(0, "anna", "chair"));
  await enter(bert, await link(1, "bert", "participant"));
  await Promise.all([sees(anna.page, "Bert"), sees(bert.page, "Anna")]);
  expect(bert.page.url(), "tokens are nobody else's").toBe(`${brokers[1].origin}/m/meet/weekly`);
  await bert.page.evaluate(() => Object.assign(globalThis, { same: true }));
});

afterEach(async ({ task }) => {
  if (task.result?.state === "fail") {
    console.error([...(anna?.faults ?? []), ...(bert?.faults ?? [])].join("\n"));
    if (anna && bert) await Promise.all([picture(anna, "failed-anna"), picture(bert, "failed-bert")]);
  }
  await Promise.all([anna?.leave(), bert?.leave()]);
  await Promise.all((brokers ?? []).map((one) => one.kill()));
  await line?.remove();
});

/** How long after `since` frames go on: a few more, or those of a connection that was made anew. */
async function back(one: Person, name: string, since: number, patienceMs: number): Promise<number> {
  await sees(one.page, name, patienceMs);
  return Math.round(performance.now() - since);
}

async function asBefore(): Promise<void> {
  await Promise.all([hears(anna.page, bert.tone), hears(bert.page, anna.tone)]);
  expect(await bert.page.evaluate(() => "same" in globalThis), "no reload").toBe(true);
  await bert.page.getByText("Connection lost").waitFor({ state: "detached" });
}

test("a page whose broker dies goes on through another", async () => {
  await Promise.all([opens(anna, "draws"), opens(bert, "draws")]);
  await draws(anna, "Rectangle", [0.2, 0.2]);
  await shows(bert, 1);
  const moved = bert.page.waitForRequest(
    (request) => request.url().startsWith(`${brokers[0].origin}/v1/whep/`), { timeout: PATIENCE_MS },
  );
  await brokers[1].kill();
  const died = performance.now();
  await moved;
  const noticed = Math.round(performance.now() - died);
  const took = await Promise.all([
    back(bert, "Anna", died, PATIENCE_MS), back(anna, "Bert", died, PATIENCE_MS),
  ]);
  console.log(`broker died: noticed after ${noticed} ms, seen again after ${took.join(" and ")} ms`);
  await asBefore();
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
  await asBefore();
  await bert.page.keyboard.press("h");
  await anna.page.getByRole("img", { name: "Hand raised" }).waitFor();
});
