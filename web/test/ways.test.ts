/** Other ways in than the page: seen before the meeting and in it, dialled, copied, and changed. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { one, type Broker } from "./brokers";
import { accessible, button } from "./couple";
import { enter, person, picture, type Person } from "./people";

const TITLES = {
  de: "Weitere Zugänge", fr: "Autres accès", hi: "जुड़ने के दूसरे तरीके", en: "Other ways in",
};
const WAYS = [
  { label: "Berlin, freephone", uri: "tel:+49-30-1234,,4711%23" },
  { label: "Room system", uri: "sip:weekly@sip.example.org" },
  { label: "To look on", uri: "https://stream.example.org/weekly.m3u8" },
  { label: "H.323 <b>room</b>", uri: "h323:weekly@gk.example.org" },
];

let broker: Broker;
let anna: Person;

async function asks(path: string, body: object): Promise<number> {
  const headers = { "Content-Type": "application/json" };
  const init = { method: "POST", headers, body: JSON.stringify(body) };
  return (await fetch(`${broker.origin}/v1/sessions${path}`, init)).status;
}

beforeAll(async () => {
  broker = await one();
  anna = await person("Anna", 520, [broker.origin]);
  await anna.context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: broker.origin });
});

afterAll(async () => {
  await anna?.leave();
  await broker?.kill();
});

const section = () => anna.page.getByRole("region", { name: TITLES.en });
const link = (name: string) => section().getByRole("link", { name });

test("whoever comes sees where to dial instead, in every language", async () => {
  expect(await asks("", { tenant: "meet", name: "weekly", title: "Weekly", ways: WAYS })).toBe(201);
  const bad = [{ label: "Click", uri: "javascript:alert(1)" }];
  expect(await asks("", { tenant: "meet", name: "bad", title: "Bad", ways: bad })).toBe(422);
  await anna.page.goto(`${broker.origin}/m/meet/weekly`);
  for (const [language, title] of Object.entries(TITLES)) {
    await anna.page.evaluate((language) => {
      const kept = JSON.parse(localStorage.getItem("sangam.settings") ?? "{}") as object;
      localStorage.setItem("sangam.settings", JSON.stringify({ ...kept, language }));
    }, language);
    await anna.page.reload();
    await anna.page.getByRole("region", { name: title }).waitFor();
  }
  expect(await link("+49-30-1234").getAttribute("href")).toBe("tel:+49-30-1234,,4711%23");
  expect(await link("sip:weekly").getAttribute("href")).toBe("sip:weekly@sip.example.org");
  expect(await link("https:").getAttribute("target")).toBe("_blank");
  expect(await section().getByText("H.323 <b>room</b>").count(), "text, not markup").toBe(1);
  expect(await section().getByRole("link").count(), "browsers know no H.323").toBe(3);
  await anna.page.locator("[data-outcome=good]").nth(2).waitFor();
  await accessible(anna.page, "prejoin with ways");
  await picture(anna, "ways-prejoin");
});

test("a number is copied with the keyboard alone", async () => {
  await link("+49-30-1234").focus();
  await anna.page.keyboard.press("Tab");
  const copy = button(anna, "Copy: Berlin, freephone");
  expect(await copy.evaluate((one) => one === document.activeElement)).toBe(true);
  await anna.page.keyboard.press("Enter");
  await section().getByRole("status").getByText("Copied").waitFor();
  expect(await anna.page.evaluate(() => navigator.clipboard.readText())).toBe("+49-30-1234,,4711%23");
  await accessible(anna.page, "prejoin, copied");
});

test("in the meeting they stand with the people, on a phone as well, and change for all", async () => {
  await enter(anna, `${broker.origin}/m/meet/weekly`);
  await anna.page.getByRole("article", { name: "Anna (you)" }).waitFor();
  await anna.page.keyboard.press("p");
  await section().waitFor();
  await accessible(anna.page, "people with ways");
  await picture(anna, "ways-meeting");
  await anna.page.setViewportSize({ width: 390, height: 780 });
  await link("+49-30-1234").scrollIntoViewIfNeeded();
  await accessible(anna.page, "people with ways, on a phone");
  await picture(anna, "ways-phone");
  const paris = [{ label: "Paris", uri: "tel:+33-1-2345" }];
  expect(await asks("/meet/weekly/commands", { do: "ways", ways: paris })).toBe(200);
  await link("+33-1-2345").waitFor();
  expect(await section().getByRole("listitem").count()).toBe(1);
  expect(await asks("/meet/weekly/commands", { do: "ways" })).toBe(200);
  await section().waitFor({ state: "detached" });
  expect(anna.faults).toEqual([]);
});
