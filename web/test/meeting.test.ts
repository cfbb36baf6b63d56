/** Two people in two browsers at two brokers. */

import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { two, type Broker } from "./brokers";
import { enter, person, picture, type Person } from "./people";
import { hears, sees } from "./senses";

let brokers: [Broker, Broker];
let anna: Person;
let bert: Person;

beforeAll(async () => {
  brokers = await two();
  const origins = brokers.map((one) => one.origin);
  [anna, bert] = await Promise.all([person("Anna", 520, origins), person("Bert", 1_340, origins)]);
});

afterEach(async ({ task }) => {
  if (task.result?.state !== "fail") return;
  console.error([...anna.faults, ...bert.faults].join("\n"));
  await Promise.all([picture(anna, "failed-anna"), picture(bert, "failed-bert")]);
});

afterAll(async () => {
  await Promise.all([anna?.leave(), bert?.leave()]);
  await Promise.all((brokers ?? []).map((one) => one.kill()));
});

test("the connection is tried before joining", async () => {
  // Anna sends layers, Bert one small picture.
  await anna.page.goto(`${brokers[0].origin}/`);
  await anna.page.evaluate(() => {
    const kept = JSON.parse(localStorage.getItem("sangam.settings") ?? "{}") as object;
    localStorage.setItem("sangam.settings", JSON.stringify({ ...kept, saveData: false }));
  });
  await anna.page.goto(`${brokers[0].origin}/m/meet/weekly`);
  const works = anna.page.locator("[data-outcome=good]");
  await works.nth(2).waitFor();
  await picture(anna, "prejoin");
});

test("two people at two brokers see and hear each other", async () => {
  await enter(anna, `${brokers[0].origin}/m/meet/weekly`);
  await anna.page.getByRole("article", { name: "Anna (you)" }).waitFor();
  await enter(bert, `${brokers[1].origin}/m/meet/weekly`);
  await Promise.all([sees(anna.page, "Bert"), sees(bert.page, "Anna")]);
  const streams = await (await fetch(`${brokers[0].origin}/v1/streams`)).text();
  expect(streams, "layers").toContain('meet/weekly/main/video/m1/video/1');
  await Promise.all([hears(anna.page, bert.tone), hears(bert.page, anna.tone)]);
  await picture(anna, "meeting");
  expect([...anna.faults, ...bert.faults]).toEqual([]);
});
