/** Two people in two browsers at two brokers. */

import { expect, test } from "vitest";
import { accessible, couple, tile } from "./couple";
import { enter, picture } from "./people";
import { frames, hears, sees, until } from "./senses";

const us = couple();

test("the connection is tried before joining", async () => {
  // Anna sends layers, Bert one small picture.
  await us.anna.page.goto(`${us.brokers[0].origin}/`);
  await us.anna.page.evaluate(() => {
    const kept = JSON.parse(localStorage.getItem("sangam.settings") ?? "{}") as object;
    localStorage.setItem("sangam.settings", JSON.stringify({ ...kept, saveData: false }));
  });
  await us.anna.page.goto(`${us.brokers[0].origin}/m/meet/weekly`);
  const works = us.anna.page.locator("[data-outcome=good]");
  await works.nth(2).waitFor();
  // Browsers let a page work with sound once somebody has touched it.
  await us.anna.page.getByRole("heading", { name: "Join weekly" }).click();
  const meter = us.anna.page.getByRole("img", { name: "How loud your microphone is" }).locator("div");
  const loud = () => meter.evaluate((one) => one.getBoundingClientRect().width / one.clientWidth);
  await until("a voice", loud, (part) => part > 0.3);
  await picture(us.anna, "prejoin");
});

test("a connection that does not work is told", async () => {
  await us.bert.page.route(/\/v1\/wh[ie]p\//, (route) => route.abort());
  await us.bert.page.goto(`${us.brokers[1].origin}/m/meet/weekly`);
  await us.bert.page.locator("[data-outcome=bad]").first().waitFor();
  await accessible(us.bert.page, "a failed connection test");
  await us.bert.page.unroute(/\/v1\/wh[ie]p\//);
});

test("two people at two brokers see and hear each other", async () => {
  await enter(us.anna, `${us.brokers[0].origin}/m/meet/weekly`);
  await us.anna.page.getByRole("article", { name: "Anna (you)" }).waitFor();
  await enter(us.bert, `${us.brokers[1].origin}/m/meet/weekly`);
  await Promise.all([sees(us.anna.page, "Bert"), sees(us.bert.page, "Anna")]);
  const streams = await (await fetch(`${us.brokers[0].origin}/v1/streams`)).text();
  expect(streams, "layers").toContain('meet/weekly/main/video/m1/video/1');
  await Promise.all([hears(us.anna.page, us.bert.tone), hears(us.bert.page, us.anna.tone)]);
  await accessible(us.anna.page, "everybody");
  // As it stands in the README: nothing is pointed at, and the networks are judged.
  await us.anna.page.mouse.move(640, 24);
  for (const name of ["Anna (you)", "Bert"]) {
    await tile(us.anna, name).getByRole("img", { name: / connection$/ }).waitFor();
  }
  await picture(us.anna, "meeting");
});

test("a picture that is out of sight is not sent", async () => {
  const anna = tile(us.bert, "Anna");
  await anna.evaluate((one) => (one.style.translate = "0 -300vh"));
  let before = -1;
  await expect.poll(async () => {
    const now = await frames(us.bert.page, "Anna");
    const still = now === before;
    before = now;
    return still;
  }, { interval: 1_500, timeout: 20_000 }).toBe(true);
  await anna.evaluate((one) => (one.style.translate = ""));
  await sees(us.bert.page, "Anna");
  const metrics = await (await fetch(`${us.brokers[1].origin}/metrics`)).text();
  const told = Number(/^sangam_webrtc_shown_total (\d+)$/m.exec(metrics)?.[1]);
  expect(told, "where it was, away and back").toBeGreaterThanOrEqual(3);
});

test("a page says that its meeting is recorded, and that it is no more", async () => {
  const api = `${us.brokers[0].origin}/v1/sessions`;
  const call = (method: string, path: string, body?: object) =>
    fetch(api + path, {
      method, headers: { "Content-Type": "application/json" },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
  await call("POST", "", { tenant: "meet", name: "kept", title: "Kept", needs: ["recorder"] });
  expect((await call("PUT", "/meet/kept/services/recorder")).ok).toBe(true);
  await enter(us.anna, `${us.brokers[0].origin}/m/meet/kept`);
  await us.anna.page.getByText("This meeting is being recorded").waitFor();
  await picture(us.anna, "recorded");
  await accessible(us.anna.page, "recorded");
  await call("DELETE", "/meet/kept/services/recorder");
  await us.anna.page.getByText("This meeting is being recorded").waitFor({ state: "detached" });
  expect([...us.anna.faults, ...us.bert.faults]).toEqual([]);
});
