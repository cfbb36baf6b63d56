/** What most tests begin with: Anna and Bert, in two browsers at two brokers, and what they do. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { two, type Broker } from "./brokers";
import { person, picture, type Person } from "./people";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export interface Couple {
  brokers: [Broker, Broker];
  anna: Person;
  bert: Person;
}

/** Both, for all tests of a file; what they do not share is set before the first. */
export function couple(): Couple {
  const us = {} as Couple;
  const both = () => [us.anna, us.bert].filter(Boolean);
  beforeAll(async () => {
    us.brokers = await two();
    const origins = us.brokers.map((one) => one.origin);
    [us.anna, us.bert] = await Promise.all([
      person("Anna", 520, origins), person("Bert", 1_340, origins),
    ]);
  });
  afterEach(async ({ task }) => {
    if (task.result?.state !== "fail") return;
    console.error(both().flatMap((one) => one.faults).join("\n"));
    await Promise.all(both().map((one) => picture(one, `failed-${one.name.toLowerCase()}`)));
  });
  afterAll(async () => {
    await Promise.all(both().map((one) => one.leave()));
    await Promise.all((us.brokers ?? []).map((one) => one.kill()));
  });
  return us;
}

export const button = (one: Person, name: string | RegExp) =>
  one.page.getByRole("button", { name, exact: true });
export const tile = (one: Person, name: string) =>
  one.page.getByRole("article", { name, exact: true });

interface AxeResult {
  violations: { id: string; help: string; nodes: { html: string }[] }[];
}

/** WCAG 2.2 AA and good practice, as far as a program can tell. */
export async function accessible(page: Page, state: string): Promise<void> {
  // By the debugger, as the page's policy lets no script in.
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const axe = (globalThis as unknown as { axe: { run(): Promise<AxeResult> } }).axe;
    return (await axe.run()).violations.map(({ id, help, nodes }) =>
      ({ id, help, where: nodes.map((node) => node.html.slice(0, 200)) }));
  });
  expect(found, state).toEqual([]);
}
