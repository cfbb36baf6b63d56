/** Everything that people do with each other in a meeting, in two browsers at two brokers. */

import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { accessible, button, couple, tile } from "./couple";
import { enter, picture } from "./people";
import { devices, frames, hears, sees, tones, until } from "./senses";

// Nobody records here: what is wanted waits.
process.env["SANGAM_SESSIONS_ARCHIVE"] = "";

const us = couple();

test("a start page and a look into the mirror, for everybody", async () => {
  await us.anna.page.goto(`${us.brokers[0].origin}/`);
  await accessible(us.anna.page, "start");
  await us.anna.page.getByLabel("Name of the meeting").fill("Our Weekly!");
  await button(us.anna, "Continue").click();
  await us.anna.page.waitForURL("**/m/meet/Our-Weekly");
  await us.anna.page.locator("[data-outcome=good]").nth(2).waitFor();
  await accessible(us.anna.page, "prejoin");
});

test("people wait in the lobby until somebody lets them in", async () => {
  await enter(us.anna, `${us.brokers[0].origin}/m/meet/weekly`);
  await tile(us.anna, "Anna (you)").waitFor();
  await button(us.anna, /^People/).click();
  await us.anna.page.getByText("Let people in one by one").click();
  await enter(us.bert, `${us.brokers[1].origin}/m/meet/weekly`);
  await us.bert.page.getByText("Please wait, somebody will let you in").waitFor();
  await accessible(us.bert.page, "lobby");
  await button(us.anna, "Let Bert in").waitFor();
  await accessible(us.anna.page, "people");
  await picture(us.anna, "lobby");
  await button(us.anna, "Let Bert in").click();
  await Promise.all([sees(us.anna.page, "Bert"), sees(us.bert.page, "Anna")]);
});

test("what is written is read, by everybody or by one", async () => {
  await button(us.bert, "Chat").click();
  await us.bert.page.getByLabel("Your message").fill("Hello\nمرحبا");
  await button(us.bert, "Send").click();
  await until("the badge", () => button(us.anna, /^Chat/).innerText(), (text) => text.trim() === "1");
  await button(us.anna, /^Chat/).click();
  await us.anna.page.getByRole("log").getByText("Hello").waitFor();
  await us.anna.page.getByLabel("Your message").fill("Good morning, Bert");
  await us.anna.page.keyboard.press("Enter");
  await us.bert.page.getByRole("log").getByText("Good morning, Bert").waitFor();
  await accessible(us.anna.page, "chat");
  await picture(us.anna, "chat");
  await button(us.bert, "Close").click();
});

test("hands and reactions are seen", async () => {
  await us.bert.page.keyboard.press("h");
  await tile(us.anna, "Bert").getByRole("img", { name: "Hand raised" }).waitFor();
  await button(us.bert, "React").click();
  await button(us.bert, "React with 🎉").waitFor();
  await accessible(us.bert.page, "an open menu");
  await button(us.bert, "React with 🎉").click();
  await us.anna.page.getByText("🎉").waitFor();
  await accessible(us.anna.page, "a reaction");
  await button(us.anna, /^People/).click();
  await button(us.anna, "Lower Bert's hand").click();
  await button(us.bert, "Raise your hand").waitFor();
});

test("whoever is muted by the chair is silent, whatever its page does", async () => {
  await hears(us.anna.page, us.bert.tone);
  await button(us.anna, "More for Bert").click();
  await us.anna.page.getByRole("menuitem", { name: "Mute", exact: true }).waitFor();
  await accessible(us.anna.page, "what may be done to somebody");
  await us.anna.page.getByRole("menuitem", { name: "Mute", exact: true }).click();
  await tile(us.anna, "Bert").getByRole("img", { name: "Microphone off" }).waitFor();
  const silent = (heard: number[]) => heard.every((one) => Math.abs(one - us.bert.tone) > 15);
  await until("silence", () => tones(us.anna.page), silent);
  await us.bert.page.keyboard.press("m");
  await us.bert.page.getByText("The chair has muted you.").waitFor();
  await accessible(us.bert.page, "muted by the chair");
  await button(us.anna, "More for Bert").click();
  await us.anna.page.getByRole("menuitem", { name: "Let speak again" }).click();
  await button(us.bert, "Close").click();
  await us.bert.page.keyboard.press("m");
  await hears(us.anna.page, us.bert.tone);
});

test("the word is asked for, given, and taken in turn", async () => {
  await us.bert.page.keyboard.press("m");
  await us.anna.page.getByText("Speaking on request").click();
  await us.bert.page.keyboard.press("m");
  await button(us.bert, /Waiting to speak, number 1/).waitFor();
  await button(us.anna, "Let Bert speak").waitFor();
  await Promise.all([
    accessible(us.bert.page, "waiting to speak"), accessible(us.anna.page, "somebody waits to speak"),
  ]);
  await picture(us.bert, "waiting");
  await button(us.anna, "Let Bert speak").click();
  await button(us.bert, "Mute").waitFor();
  await hears(us.anna.page, us.bert.tone);
  await us.anna.page.getByText("Speaking on request").click();
  await button(us.anna, "Silence everybody").click();
  await us.bert.page.getByText("Your turn is over.").waitFor();
  await accessible(us.bert.page, "a turn is over");
  await button(us.bert, "Unmute").click();
  await button(us.bert, "Mute").waitFor();
});

test("a screen is shared with its sound, shown large, and gone again", async () => {
  // Browsers of tests have one sound for everything: with the microphone off, it is the screen's.
  await button(us.bert, "Mute").click();
  const silent = (heard: number[]) => heard.every((one) => Math.abs(one - us.bert.tone) > 15);
  await until("silence", () => tones(us.anna.page), silent);
  await button(us.bert, "Share your screen").click();
  await sees(us.anna.page, "Bert", 20_000, "screen");
  await hears(us.anna.page, us.bert.tone);
  await tile(us.anna, "Bert").getByRole("img", { name: "Microphone off" }).waitFor();
  await Promise.all([accessible(us.anna.page, "screen"), accessible(us.bert.page, "sharing a screen")]);
  await picture(us.anna, "screen");
  await button(us.bert, "Stop sharing").click();
  await tile(us.anna, "Bert's screen").waitFor({ state: "detached" });
  await until("silence", () => tones(us.anna.page), silent);
  await button(us.bert, "Unmute").click();
  await button(us.bert, "Mute").waitFor();
});

test("layouts change and somebody may be pinned", async () => {
  await us.anna.page.keyboard.press("l");
  const width = async () => (await tile(us.anna, "Bert").boundingBox())?.width ?? 0;
  await until("a large picture", width, (now) => now > 600);
  await accessible(us.anna.page, "speaker");
  await picture(us.anna, "speaker");
  await us.anna.page.keyboard.press("l");
  await tile(us.anna, "Anna (you)").hover();
  await button(us.anna, "Pin Anna (you)").click();
  await until("a small picture", width, (now) => now < 400);
  await accessible(us.anna.page, "pinned");
  await button(us.anna, "Unpin Anna (you)").click();
});

test("a recording that is wanted where nobody records is said to wait", async () => {
  await button(us.anna, "Recordings").click();
  await us.anna.page.getByText("Record this meeting").click();
  await us.anna.page.getByText("Waiting for a recorder.").waitFor();
  await accessible(us.anna.page, "waiting for a recorder");
  await us.anna.page.getByText("Record this meeting").click();
  await us.anna.page.getByText("Waiting for a recorder.").waitFor({ state: "detached" });
  await button(us.anna, "Close").click();
});

test("whoever dictates switches the keys off", async () => {
  const toggle = () => us.bert.page.getByText("Single letters work as keys").click();
  await button(us.bert, "Settings").click();
  await toggle();
  await us.bert.page.keyboard.press("c");
  await us.bert.page.getByRole("heading", { name: "Settings" }).waitFor();
  await toggle();
  await us.bert.page.keyboard.press("c");
  await us.bert.page.getByRole("log").waitFor();
  await button(us.bert, "Close").click();
});

test("the others are heard by the loudspeaker that was chosen", async () => {
  await button(us.anna, "Settings").click();
  await us.anna.page.getByRole("button", { name: /Loudspeaker$/ }).click();
  await us.anna.page.getByRole("option").last().waitFor();
  await accessible(us.anna.page, "an open list");
  await us.anna.page.getByRole("option").last().click();
  const sinks = () => us.anna.page.evaluate(() =>
    [...document.querySelectorAll("audio")].map((one) => one.sinkId));
  const chosen = () => us.anna.page.evaluate(() =>
    (JSON.parse(localStorage.getItem("sangam.settings") ?? "{}") as { speakerId?: string }).speakerId);
  await expect.poll(async () => (await sinks()).length > 0
    && (await sinks()).every(Boolean)).toBe(true);
  expect(new Set(await sinks())).toEqual(new Set([await chosen()]));
  await button(us.anna, "Close").click();
});

test("settings open with other languages", async () => {
  await button(us.anna, "Settings").click();
  await accessible(us.anna.page, "settings");
  for (const [language, word] of [["Deutsch", "Einstellungen"], ["Français", "Réglages"], ["हिन्दी", "सेटिंग"]]) {
    await us.anna.page.getByRole("button", { name: /(English|Deutsch|Français)\s/ }).click();
    await us.anna.page.getByRole("option", { name: language ?? "" }).click();
    await us.anna.page.getByRole("heading", { name: word ?? "" }).waitFor();
  }
  await accessible(us.anna.page, "hindi");
  await picture(us.anna, "hindi");
  await us.anna.page.getByRole("button", { name: /हिन्दी\s/ }).click();
  await us.anna.page.getByRole("option", { name: "English" }).click();
  await button(us.anna, "Close").click();
});

test("a phone has everything too", async () => {
  await us.bert.page.setViewportSize({ width: 390, height: 844 });
  await accessible(us.bert.page, "phone");
  await picture(us.bert, "phone");
  await button(us.bert, "Chat").click();
  await accessible(us.bert.page, "phone chat");
  await picture(us.bert, "phone-chat");
  await button(us.bert, "Close").click();
  expect(await frames(us.bert.page, "Anna")).toBeGreaterThan(0);
});

test("whoever joins again elsewhere takes its place there", async () => {
  await us.bert.page.setViewportSize({ width: 390, height: 844 });
  await button(us.anna, /^People/).click();
  await us.anna.page.getByText("Let people in one by one").click();
  await button(us.anna, "Close").click();
  // As when a tab is duplicated: without an account, a tab is who one is.
  const elsewhere = await us.bert.context.newPage();
  const kept = await us.bert.page.evaluate(() => ({ ...sessionStorage }));
  await elsewhere.addInitScript((all) => Object.assign(sessionStorage, all), kept);
  await elsewhere.goto(`${us.brokers[1].origin}/m/meet/weekly`);
  await elsewhere.getByRole("button", { name: "Join now" }).click();
  await us.bert.page.getByText("You joined from somewhere else").waitFor();
  await accessible(us.bert.page, "replaced");
  await picture(us.bert, "replaced");
  await elsewhere.close();
  await button(us.bert, "Join again").click();
  // The names of devices are long here, and a telephone is narrow.
  await us.bert.page.locator("[data-outcome=good]").nth(2).waitFor();
  await fits(us.bert.page);
  await accessible(us.bert.page, "prejoin on a phone");
  await picture(us.bert, "phone-prejoin");
  await button(us.bert, "Join now").click();
  await sees(us.bert.page, "Anna");
  await fits(us.bert.page);
  await tile(us.anna, "Bert").waitFor();
});

/** Nothing stands out at the side. */
async function fits(page: Page): Promise<void> {
  const [width, room] = await page.evaluate(() =>
    [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  expect(width).toBeLessThanOrEqual(room ?? 0);
}

test("whoever is removed is out and cannot come back", async () => {
  await button(us.anna, /^People/).click();
  await button(us.anna, "More for Bert").click();
  expect(await devices(us.bert.page), "on, before").toBe(2);
  await us.anna.page.getByRole("menuitem", { name: "Remove from the meeting" }).click();
  await us.bert.page.getByText("You were removed from the meeting").waitFor();
  expect(await devices(us.bert.page), "off, after").toBe(0);
  await accessible(us.bert.page, "removed");
  await tile(us.anna, "Bert").waitFor({ state: "detached" });
  await enter(us.bert, `${us.brokers[1].origin}/m/meet/weekly`);
  await us.bert.page.getByText("You were removed from this meeting and cannot come back.").waitFor();
  await picture(us.bert, "barred");
  await accessible(us.bert.page, "barred");
});

test("a chair ends the meeting, with two presses", async () => {
  await button(us.anna, "End the meeting…").click();
  await accessible(us.anna.page, "about to end");
  await us.anna.page.getByRole("menuitem", { name: "End it for everybody" }).click();
  await us.anna.page.getByText("The meeting is over").waitFor();
  expect(await devices(us.anna.page), "off").toBe(0);
  await accessible(us.anna.page, "over");
  await picture(us.anna, "over");
  expect([...us.anna.faults, ...us.bert.faults]).toEqual([]);
});
