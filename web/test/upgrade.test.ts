/** The broker that a page came from is replaced by a newer one while the page is open. */

import { cpSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { afterAll, expect, test } from "vitest";
import { PAGE } from "./brokers";
import { accessible, button, couple, tile } from "./couple";
import { enter, picture } from "./people";
import { sees } from "./senses";

const us = couple();
const newer = mkdtempSync(`${tmpdir()}/sangam-newer-`);

afterAll(() => rmSync(newer, { recursive: true, force: true }));

/** The page as another version would have it: its scripts have other names, and call each other so. */
function renamed(): void {
  cpSync(PAGE, newer, { recursive: true });
  const assets = `${newer}/assets`;
  const scripts = readdirSync(assets).filter((name) => name.endsWith(".js"));
  const later = (name: string) => name.replace(/\.js$/, "-2.js");
  for (const path of [`${newer}/index.html`, ...scripts.map((name) => `${assets}/${name}`)]) {
    const text = readFileSync(path, "utf8");
    writeFileSync(path, scripts.reduce((all, name) => all.replaceAll(name, later(name)), text));
  }
  for (const name of scripts) renameSync(`${assets}/${name}`, `${assets}/${later(name)}`);
}

async function missing(): Promise<number> {
  const text = await (await fetch(`${us.brokers[1].origin}/metrics`)).text();
  return Number(/^sangam_page_files_missing_total (\d+)$/m.exec(text)?.[1]);
}

test("a page left open over an upgrade says so, and its meeting goes on", async () => {
  await enter(us.anna, `${us.brokers[0].origin}/m/meet/weekly`);
  await enter(us.bert, `${us.brokers[1].origin}/m/meet/weekly`);
  await Promise.all([sees(us.anna.page, "Bert"), sees(us.bert.page, "Anna")]);
  renamed();
  await us.brokers[1].kill();
  us.brokers[1] = await us.brokers[1].again({ SANGAM_PAGE_FOLDER: newer });
  await us.bert.page.getByText("A newer version of this page is here.").waitFor();
  await Promise.all([sees(us.anna.page, "Bert"), sees(us.bert.page, "Anna")]);
  await accessible(us.bert.page, "a newer page is here");
  await picture(us.bert, "upgrade");
  expect(await us.anna.page.getByText("A newer version of this page is here.").count()).toBe(0);
});

test("what an old page cannot load any more is said, and counted", async () => {
  expect(await missing(), "before").toBe(0);
  await us.bert.page.keyboard.press("b");
  await us.bert.page.getByText("Something went wrong on this page.").waitFor();
  await accessible(us.bert.page, "an old page");
  expect(await missing(), "after").toBeGreaterThan(0);
  await us.bert.page.keyboard.press("b");
  await sees(us.bert.page, "Anna");
});

test("the newer page is loaded when that suits", async () => {
  await us.bert.page.getByRole("link", { name: "Load it" }).click();
  await button(us.bert, "Join now").click();
  await sees(us.bert.page, "Anna");
  await us.bert.page.keyboard.press("b");
  await us.bert.page.locator("[data-live=true]").waitFor();
  expect(await us.bert.page.getByText("A newer version of this page is here.").count()).toBe(0);
  await tile(us.anna, "Bert").waitFor();
});
