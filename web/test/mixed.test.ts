/** Two people in browsers and two GStreamer peers in one meeting, at two brokers. */

import { afterAll, expect, test } from "vitest";
import { accessible, couple, tile } from "./couple";
import { member, type Member } from "./gstreamer";
import { enter, picture } from "./people";
import { hears, sees } from "./senses";

const us = couple();
const others: Member[] = [];

afterAll(() => others.forEach((one) => one.leave()));

test("browsers and GStreamer see and hear each other", async () => {
  const [first, second] = us.brokers;
  await enter(us.anna, `${first.origin}/m/meet/weekly`);
  await tile(us.anna, "Anna (you)").waitFor();
  await enter(us.bert, `${second.origin}/m/meet/weekly`);
  others.push(
    await member("Gitta", 880, { server: first, broker: first }),
    await member("Georg", 2_100, { server: first, broker: second }),
  );
  const [gitta, georg] = others as [Member, Member];
  for (const one of [us.anna, us.bert]) {
    await Promise.all([sees(one.page, "Gitta"), sees(one.page, "Georg")]);
    await hears(one.page, [gitta.tone, georg.tone]);
  }
  const id = async (name: string) =>
    (await tile(us.anna, name).getAttribute("data-member")) ?? "";
  const [anna, bert] = [await id("Anna (you)"), await id("Bert")];
  // Two at a time: there are few processors.
  await Promise.all([gitta, georg].map((one) => one.meets(anna, us.anna.tone)));
  await Promise.all([gitta, georg].map((one) => one.meets(bert, us.bert.tone)));
  await Promise.all([gitta.meets(georg.id, georg.tone), georg.meets(gitta.id, gitta.tone)]);
  await picture(us.anna, "mixed");
  georg.leave();
  await tile(us.anna, "Georg").getByText("Connection lost…").waitFor();
  await accessible(us.anna.page, "somebody's connection is lost");
  expect([...us.anna.faults, ...us.bert.faults]).toEqual([]);
});
