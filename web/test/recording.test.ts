/** A meeting is recorded from the page, and watched there again, together. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { afterAll, expect, test } from "vitest";
import { accessible, button, couple, tile } from "./couple";
import { board, draws, opens } from "./drawing";
import { enter, picture } from "./people";
import { frames, hears, sees, tones, until } from "./senses";

const archive = mkdtempSync(`${tmpdir()}/sangam-archive-`);
process.env["SANGAM_SESSIONS_ARCHIVE"] = archive;
afterAll(() => rmSync(archive, { recursive: true, force: true }));

const us = couple();
const bar = () => us.anna.page.getByRole("region", { name: "Replay", exact: true });
const past = (shapes: number) =>
  us.bert.page.locator(`section[aria-label="Whiteboard of the recording"][data-shapes="${shapes}"]`);
const position = async () => Number(await bar().getAttribute("data-position"));

test("a chair has the meeting recorded, and everybody is told by whom", async () => {
  await enter(us.anna, `${us.brokers[0].origin}/m/meet/weekly`);
  await tile(us.anna, "Anna (you)").waitFor();
  await enter(us.bert, `${us.brokers[1].origin}/m/meet/weekly`);
  await sees(us.anna.page, "Bert");
  expect(await button(us.bert, "Recordings").count(), "Bert may not").toBe(0);
  await button(us.anna, "Recordings").click();
  await us.anna.page.getByText("Nothing was recorded yet.").waitFor();
  await accessible(us.anna.page, "recordings");
  await us.anna.page.getByText("Record this meeting").click();
  await us.bert.page.getByText("This meeting is being recorded").waitFor();
  await us.bert.page.getByText("Anna is having this meeting recorded").waitFor();
  await accessible(us.bert.page, "recorded");
  await picture(us.bert, "recorded");
});

test("what was said is recorded, and its end makes it listed", async () => {
  await hears(us.anna.page, us.bert.tone);
  // So long that there is something to seek in.
  const began = performance.now();
  await button(us.bert, "Chat").click();
  await us.bert.page.getByPlaceholder("Your message").fill("remember this");
  await us.bert.page.keyboard.press("Enter");
  await us.bert.page.getByText("remember this").waitFor();
  await opens(us.anna, "draws");
  await draws(us.anna, "Rectangle", [0.2, 0.2]);
  await us.anna.page.locator('[data-shapes="1"]').waitFor();
  await until("twelve seconds", async () => performance.now() - began, (ms) => ms > 12_000);
  // What is drawn once it is over is nobody's but ours.
  await us.anna.page.getByText("Record this meeting").click();
  await us.bert.page.getByText("This meeting is being recorded").waitFor({ state: "detached" });
  await button(us.anna, /^Replay here/).waitFor();
  await draws(us.anna, "Ellipse", [0.5, 0.5]);
  await us.anna.page.locator('[data-shapes="2"]').waitFor();
  await accessible(us.anna.page, "a list of recordings");
  await picture(us.anna, "recordings");
});

test("those of the recording are seen and heard by everybody", async () => {
  // Who is silent now is heard only as it was.
  await button(us.anna, "Mute").click();
  await button(us.bert, "Mute").click();
  await button(us.bert, "Camera off").click();
  await until("silence", () => tones(us.anna.page), (heard) => heard.every((tone) => tone === 0));
  await button(us.anna, /^Replay here/).click();
  await tile(us.anna, "Bert (recording)").waitFor();
  await tile(us.bert, "Bert (recording)").waitFor();
  await Promise.all([sees(us.anna.page, "Bert (recording)"), sees(us.bert.page, "Anna (recording)")]);
  await hears(us.anna.page, [us.anna.tone, us.bert.tone]);
  await until("a line at its moment", () => us.bert.page.getByText("remember this").count(), (n) => n === 2);
  await past(1).waitFor();
  await accessible(us.anna.page, "replay");
  await picture(us.anna, "replay");
});

test("they pause and seek together", async () => {
  await button(us.anna, "Pause").click();
  await until("silence", () => tones(us.bert.page), (heard) => heard.every((tone) => tone === 0));
  const paused = await position();
  const shown = await frames(us.anna.page, "Bert (recording)");
  expect(await us.bert.page.getByRole("region", { name: "Replay", exact: true }).getAttribute("data-playing")).toBe("false");
  expect(await position(), "it stands").toBe(paused);
  expect(await frames(us.anna.page, "Bert (recording)"), "so does the picture").toBe(shown);
  const slider = us.anna.page.getByRole("slider", { name: "Position" });
  await slider.focus();
  await us.anna.page.keyboard.press("Home");
  await until("the beginning", position, (at) => at < 500);
  await past(0).waitFor();
  await us.anna.page.keyboard.press("End");
  await past(1).waitFor();
  // Ours is as we left it, beside it.
  await button(us.anna, "Show the recording's whiteboard").click();
  await board(us.anna).and(us.anna.page.locator('[data-shapes="2"]')).waitFor();
  await button(us.anna, "Show the recording's whiteboard").click();
  await board(us.anna).waitFor({ state: "detached" });
  await slider.focus();
  await us.anna.page.keyboard.press("Home");
  await until("the beginning", position, (at) => at < 500);
  await button(us.anna, "Play").click();
  await hears(us.bert.page, us.anna.tone);
  await sees(us.anna.page, "Bert (recording)");
  expect(await us.bert.page.getByRole("slider").isDisabled(), "who only takes part looks on").toBe(true);
});

test("what is said of a moment is shown there, to whoever watches it later, too", async () => {
  await button(us.anna, "Pause").click();
  const slider = us.anna.page.getByRole("slider", { name: "Position" });
  await slider.focus();
  await us.anna.page.keyboard.press("End");
  await until("the end", position, (at) => at > 10_000);
  // Whoever plays on from the end begins anew.
  const end = await position();
  await us.anna.page.keyboard.press("PageDown");
  await until("before the end", position, (at) => at < end);
  // Whoever may chat may say something, also who only takes part.
  await us.bert.page.getByPlaceholder("Say something about this moment").fill("well <said>");
  await us.bert.page.keyboard.press("Enter");
  const mark = (one: typeof us.anna) => one.page.getByRole("list", { name: "What was said of it" })
    .getByLabel(/^Bert at 0:\d\d: well <said>$/);
  await Promise.all([mark(us.anna).waitFor(), mark(us.bert).waitFor()]);
  await bar().getByText("well <said>").waitFor();
  await accessible(us.anna.page, "annotated");
  await accessible(us.bert.page, "annotated, without the right to seek");
  await picture(us.anna, "annotated");
  await slider.focus();
  await us.anna.page.keyboard.press("Home");
  await until("the beginning", position, (at) => at < 500);
  await bar().getByText("well <said>").waitFor({ state: "detached" });
  await until("the archive", async () => {
    const answer = await fetch(`${us.brokers[0].origin}/v1/sessions/meet/weekly/recordings`);
    const { recordings } = (await answer.json()) as { recordings: { annotations?: number }[] };
    return recordings.map((one) => one.annotations ?? 0);
  }, (counts) => counts.includes(1));
  await button(us.anna, "End the replay").click();
  await tile(us.bert, "Anna (recording)").waitFor({ state: "detached" });
  await button(us.anna, /^Replay here/).click();
  await mark(us.anna).click();
  await bar().getByText("well <said>").waitFor();
  await button(us.anna, "End the replay").click();
  await tile(us.bert, "Anna (recording)").waitFor({ state: "detached" });
  expect([...us.anna.faults, ...us.bert.faults]).toEqual([]);
});
