/** Everything that people do with each other in a meeting, in two browsers at two brokers. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { two, type Broker } from "./brokers";
import { enter, person, picture, type Person } from "./people";
import { devices, frames, hears, sees, tones, until } from "./senses";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

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

const button = (one: Person, name: string | RegExp) => one.page.getByRole("button", { name, exact: true });
const tile = (one: Person, name: string) => one.page.getByRole("article", { name, exact: true });

interface AxeResult {
  violations: { id: string; help: string; nodes: { html: string }[] }[];
}

/** WCAG 2.2 AA and good practice, as far as a program can tell. */
async function accessible(page: Page, state: string): Promise<void> {
  // By the debugger, as the page's policy lets no script in.
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const axe = (globalThis as unknown as { axe: { run(): Promise<AxeResult> } }).axe;
    return (await axe.run()).violations.map(({ id, help, nodes }) =>
      ({ id, help, where: nodes.map((node) => node.html.slice(0, 200)) }));
  });
  expect(found, state).toEqual([]);
}

test("a start page and a look into the mirror, for everybody", async () => {
  await anna.page.goto(`${brokers[0].origin}/`);
  await accessible(anna.page, "start");
  await anna.page.getByLabel("Name of the meeting").fill("Our Weekly!");
  await button(anna, "Continue").click();
  await anna.page.waitForURL("**/m/meet/Our-Weekly");
  await anna.page.locator("[data-outcome=good]").nth(2).waitFor();
  await accessible(anna.page, "prejoin");
});

test("people wait in the lobby until somebody lets them in", async () => {
  await enter(anna, `${brokers[0].origin}/m/meet/weekly`);
  await tile(anna, "Anna (you)").waitFor();
  await button(anna, /^People/).click();
  await anna.page.getByText("Let people in one by one").click();
  await enter(bert, `${brokers[1].origin}/m/meet/weekly`);
  await bert.page.getByText("Please wait, somebody will let you in").waitFor();
  await accessible(bert.page, "lobby");
  await button(anna, "Let Bert in").waitFor();
  await accessible(anna.page, "people");
  await picture(anna, "lobby");
  await button(anna, "Let Bert in").click();
  await Promise.all([sees(anna.page, "Bert"), sees(bert.page, "Anna")]);
});

test("what is written is read, by everybody or by one", async () => {
  await button(bert, "Chat").click();
  await bert.page.getByLabel("Your message").fill("Hello\nمرحبا");
  await button(bert, "Send").click();
  await until("the badge", () => button(anna, /^Chat/).innerText(), (text) => text.trim() === "1");
  await button(anna, /^Chat/).click();
  await anna.page.getByRole("log").getByText("Hello").waitFor();
  await anna.page.getByLabel("Your message").fill("Good morning, Bert");
  await anna.page.keyboard.press("Enter");
  await bert.page.getByRole("log").getByText("Good morning, Bert").waitFor();
  await accessible(anna.page, "chat");
  await picture(anna, "chat");
  await button(bert, "Close").click();
});

test("hands and reactions are seen", async () => {
  await bert.page.keyboard.press("h");
  await tile(anna, "Bert").getByRole("img", { name: "Hand raised" }).waitFor();
  await button(bert, "React").click();
  await button(bert, "React with 🎉").click();
  await anna.page.getByText("🎉").waitFor();
  await button(anna, /^People/).click();
  await button(anna, "Lower Bert's hand").click();
  await button(bert, "Raise your hand").waitFor();
});

test("whoever is muted by the chair is silent, whatever its page does", async () => {
  await hears(anna.page, bert.tone);
  await button(anna, "More for Bert").click();
  await anna.page.getByRole("menuitem", { name: "Mute", exact: true }).click();
  await tile(anna, "Bert").getByRole("img", { name: "Microphone off" }).waitFor();
  const silent = (heard: number[]) => heard.every((one) => Math.abs(one - bert.tone) > 15);
  await until("silence", () => tones(anna.page), silent);
  await bert.page.keyboard.press("m");
  await bert.page.getByText("The chair has muted you.").waitFor();
  await button(anna, "More for Bert").click();
  await anna.page.getByRole("menuitem", { name: "Let speak again" }).click();
  await button(bert, "Close").click();
  await bert.page.keyboard.press("m");
  await hears(anna.page, bert.tone);
});

test("the word is asked for, given, and taken in turn", async () => {
  await bert.page.keyboard.press("m");
  await anna.page.getByText("Speaking on request").click();
  await bert.page.keyboard.press("m");
  await button(bert, /Waiting to speak, number 1/).waitFor();
  await picture(bert, "waiting");
  await button(anna, "Let Bert speak").click();
  await button(bert, "Mute").waitFor();
  await hears(anna.page, bert.tone);
  await anna.page.getByText("Speaking on request").click();
  await button(anna, "Silence everybody").click();
  await bert.page.getByText("Your turn is over.").waitFor();
  await button(bert, "Unmute").click();
  await button(bert, "Mute").waitFor();
});

test("a screen is shared, shown large, and gone again", async () => {
  await button(bert, "Share your screen").click();
  await sees(anna.page, "Bert", 20_000, "screen");
  await accessible(anna.page, "screen");
  await picture(anna, "screen");
  await button(bert, "Stop sharing").click();
  await tile(anna, "Bert's screen").waitFor({ state: "detached" });
});

test("layouts change and somebody may be pinned", async () => {
  await anna.page.keyboard.press("l");
  const width = async () => (await tile(anna, "Bert").boundingBox())?.width ?? 0;
  await until("a large picture", width, (now) => now > 600);
  await accessible(anna.page, "speaker");
  await picture(anna, "speaker");
  await anna.page.keyboard.press("l");
  await tile(anna, "Anna (you)").hover();
  await button(anna, "Pin Anna (you)").click();
  await until("a small picture", width, (now) => now < 400);
  await button(anna, "Unpin Anna (you)").click();
});

test("whoever dictates switches the keys off", async () => {
  const toggle = () => bert.page.getByText("Single letters work as keys").click();
  await button(bert, "Settings").click();
  await toggle();
  await bert.page.keyboard.press("c");
  await bert.page.getByRole("heading", { name: "Settings" }).waitFor();
  await toggle();
  await bert.page.keyboard.press("c");
  await bert.page.getByRole("log").waitFor();
  await button(bert, "Close").click();
});

test("settings open with other languages", async () => {
  await button(anna, "Settings").click();
  await accessible(anna.page, "settings");
  for (const [language, word] of [["Deutsch", "Einstellungen"], ["Français", "Réglages"], ["हिन्दी", "सेटिंग"]]) {
    await anna.page.getByRole("button", { name: /(English|Deutsch|Français)\s/ }).click();
    await anna.page.getByRole("option", { name: language ?? "" }).click();
    await anna.page.getByRole("heading", { name: word ?? "" }).waitFor();
  }
  await accessible(anna.page, "hindi");
  await picture(anna, "hindi");
  await anna.page.getByRole("button", { name: /हिन्दी\s/ }).click();
  await anna.page.getByRole("option", { name: "English" }).click();
  await button(anna, "Close").click();
});

test("a phone has everything too", async () => {
  await bert.page.setViewportSize({ width: 390, height: 844 });
  await accessible(bert.page, "phone");
  await picture(bert, "phone");
  await button(bert, "Chat").click();
  await accessible(bert.page, "phone chat");
  await picture(bert, "phone-chat");
  await button(bert, "Close").click();
  expect(await frames(bert.page, "Anna")).toBeGreaterThan(0);
});

test("whoever is removed is out and cannot come back", async () => {
  await button(anna, /^People/).click();
  await button(anna, "More for Bert").click();
  expect(await devices(bert.page), "on, before").toBe(2);
  await anna.page.getByRole("menuitem", { name: "Remove from the meeting" }).click();
  await bert.page.getByText("You were removed from the meeting").waitFor();
  expect(await devices(bert.page), "off, after").toBe(0);
  await accessible(bert.page, "removed");
  await tile(anna, "Bert").waitFor({ state: "detached" });
  await enter(bert, `${brokers[1].origin}/m/meet/weekly`);
  await bert.page.getByText("You were removed from this meeting and cannot come back.").waitFor();
  await picture(bert, "barred");
  expect([...anna.faults, ...bert.faults]).toEqual([]);
});
