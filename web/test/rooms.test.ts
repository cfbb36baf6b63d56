/** Private rooms, in two browsers at two brokers. */

import { expect, test } from "vitest";
import { accessible, button, couple, tile } from "./couple";
import { enter, picture } from "./people";
import { hears, sees, tones, until } from "./senses";

const us = couple();

const together = () => Promise.all([
  sees(us.anna.page, "Bert"), sees(us.bert.page, "Anna"),
  hears(us.anna.page, us.bert.tone), hears(us.bert.page, us.anna.tone),
]);

test("whoever is sent to a private room is seen and heard only there", async () => {
  await enter(us.anna, `${us.brokers[0].origin}/m/meet/rooms`);
  await tile(us.anna, "Anna (you)").waitFor();
  await enter(us.bert, `${us.brokers[1].origin}/m/meet/rooms`);
  await together();
  await button(us.anna, /^People/).click();
  await us.anna.page.getByLabel("Name of a new room").fill("Group A");
  await button(us.anna, "Open a room").click();
  await button(us.anna, "Close Group A").waitFor();
  await button(us.anna, "More for Bert").click();
  await us.anna.page.getByRole("menuitem", { name: "Send to Group A" }).click();
  await us.bert.page.getByText("You are in Group A").waitFor();
  await tile(us.anna, "Bert").waitFor({ state: "detached" });
  const silent = (heard: number[]) => heard.every((one) => Math.abs(one - us.bert.tone) > 15);
  await until("silence", () => tones(us.anna.page), silent);
  await us.anna.page.getByText("In Group A: 1").waitFor();
  await accessible(us.anna.page, "rooms");
  await picture(us.anna, "rooms");
});

test("whoever leads sees a hand there, comes, and brings all back", async () => {
  await us.bert.page.keyboard.press("h");
  await button(us.anna, "Lower Bert's hand").click();
  await button(us.bert, "Raise your hand").waitFor();
  await button(us.anna, "Go to Group A").click();
  await us.anna.page.getByText("You are in Group A").waitFor();
  await together();
  await accessible(us.bert.page, "in a private room");
  await picture(us.bert, "private-room");
  await button(us.anna, "Close Group A").click();
  await us.bert.page.getByText("You are in Group A").waitFor({ state: "detached" });
  await together();
  expect([...us.anna.faults, ...us.bert.faults]).toEqual([]);
});

test("drawing is asked for and granted", async () => {
  await us.anna.page.getByText("Drawing on request").click();
  await button(us.bert, "Whiteboard").click();
  await button(us.bert, "Ask to draw").waitFor();
  await accessible(us.bert.page, "a board to ask for");
  await button(us.bert, "Ask to draw").click();
  await us.bert.page.getByText("You are waiting to draw.").waitFor();
  await button(us.anna, "Let Bert draw").waitFor();
  await Promise.all([
    accessible(us.bert.page, "waiting to draw"), accessible(us.anna.page, "somebody waits to draw"),
  ]);
  await button(us.anna, "Let Bert draw").click();
  await us.bert.page.getByText("You are waiting to draw.").waitFor({ state: "detached" });
  expect([...us.anna.faults, ...us.bert.faults]).toEqual([]);
});
