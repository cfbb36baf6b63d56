/** What people do with the whiteboard, and what they see of it. */

import type { Page } from "playwright-core";
import type { Person } from "./people";
import { until } from "./senses";

export const board = (one: Person) => one.page.getByRole("region", { name: "Whiteboard", exact: true });

/** Opens the board, and waits until this one may draw, or may not. */
export async function opens(one: Person, may: string): Promise<void> {
  await one.page.getByRole("button", { name: /^Whiteboard/ }).click();
  await is(one, may);
}

export async function is(one: Person, may: string): Promise<void> {
  await one.page.locator(`[data-live=true][data-may=${may}]`).waitFor();
}

/** Waits until so many shapes are on somebody's board, and some of it is painted. */
export async function shows(one: Person, shapes: number): Promise<void> {
  await one.page.locator(`[data-shapes="${shapes}"]`).waitFor();
  await until(`${one.name}'s paint`, () => painted(one.page), (points) => points > 50);
}

/** Points of the canvas that are not white. */
export function painted(page: Page): Promise<number> {
  return page.evaluate(() => {
    const canvas = document.querySelector<HTMLCanvasElement>("canvas.static");
    const { width = 0, height = 0 } = canvas ?? {};
    const data = canvas?.getContext("2d")?.getImageData(0, 0, width, height).data ?? [];
    let count = 0;
    for (let at = 0; at < data.length; at += 4) {
      if ((data[at] ?? 255) < 200 || (data[at + 1] ?? 255) < 200) count += 1;
    }
    return count;
  });
}

/** Draws with a tool, from one corner to another, in parts of the canvas. */
export async function draws(one: Person, tool: string, [x, y]: [number, number]): Promise<void> {
  await board(one).getByRole("button", { name: tool, exact: true }).click();
  const box = await one.page.locator("canvas.interactive").boundingBox();
  if (!box) throw new Error("no canvas");
  const at = (n: number) => [box.x + box.width * (x + n), box.y + box.height * (y + n)] as const;
  await one.page.mouse.move(...at(0));
  await one.page.mouse.down();
  for (const n of [0.02, 0.06, 0.12]) await one.page.mouse.move(...at(n));
  await one.page.mouse.up();
}
