/** One whiteboard for two people in two browsers at two brokers. */

import { expect, test } from "vitest";
import { accessible, button, couple, tile } from "./couple";
import { board, draws, is, opens, shows } from "./drawing";
import { enter, picture } from "./people";
import { until } from "./senses";

const us = couple();

/** What a broker counted of refusals, by reason. */
async function refused(at: number, reason: string): Promise<number> {
  const text = await (await fetch(`${us.brokers[at]?.origin}/metrics`)).text();
  const line = text.split("\n").find((one) => one.startsWith(`sangam_board_refused_total{reason="${reason}"}`));
  return Number(line?.split(" ")[1] ?? -1);
}

test("two people draw on one board", async () => {
  await enter(us.anna, `${us.brokers[0].origin}/m/meet/weekly`);
  await tile(us.anna, "Anna (you)").waitFor();
  await enter(us.bert, `${us.brokers[1].origin}/m/meet/weekly`);
  await tile(us.anna, "Bert").waitFor();
  await opens(us.anna, "draws");
  await draws(us.anna, "Rectangle", [0.2, 0.2]);
  await shows(us.anna, 1);
  await opens(us.bert, "draws");
  await shows(us.bert, 1);
  await draws(us.bert, "Ellipse", [0.5, 0.3]);
  await draws(us.bert, "Draw", [0.3, 0.6]);
  await Promise.all([shows(us.anna, 3), shows(us.bert, 3)]);
  await picture(us.anna, "board");
  await Promise.all([accessible(us.anna.page, "board"), accessible(us.bert.page, "board")]);
});

test("tools are reached and chosen by keyboard, and letters there are no keys of the meeting", async () => {
  await board(us.anna).getByRole("button", { name: "Select" }).focus();
  await us.anna.page.keyboard.press("ArrowRight");
  await us.anna.page.keyboard.press("ArrowRight");
  await us.anna.page.keyboard.press("Enter");
  await board(us.anna).getByRole("button", { name: "Draw", pressed: true }).waitFor();
  await us.anna.page.keyboard.press("h");
  await us.anna.page.locator(".excalidraw-container").focus();
  await us.anna.page.keyboard.press("?");
  expect(await us.anna.page.getByRole("dialog").count(), "help for what is hidden").toBe(0);
  expect(await button(us.anna, "Raise your hand").count()).toBe(1);
});

test("what one clears away is gone for all, and whoever comes late sees what is left", async () => {
  await board(us.anna).getByRole("button", { name: "Clear the board" }).click();
  await us.bert.page.locator('[data-shapes="0"]').waitFor();
  await draws(us.anna, "Rectangle", [0.2, 0.2]);
  await draws(us.anna, "Arrow", [0.5, 0.5]);
  await shows(us.bert, 2);
  await enter(us.bert, `${us.brokers[1].origin}/m/meet/weekly`);
  await opens(us.bert, "draws");
  await shows(us.bert, 2);
});

test("whoever may not draw looks on, whatever its page does", async () => {
  await button(us.anna, /^People/).click();
  await button(us.anna, "More for Bert").click();
  await us.anna.page.getByRole("menuitem", { name: "Take the whiteboard away" }).click();
  await is(us.bert, "looks");
  await us.bert.page.getByText("You may look at the board, but not draw.").waitFor();
  await accessible(us.bert.page, "board without the floor");
  await draws(us.anna, "Line", [0.6, 0.2]);
  await shows(us.bert, 3);
  const before = await refused(1, "floor");
  const member = await tile(us.bert, "Bert (you)").getAttribute("data-member");
  const answer = await us.bert.page.evaluate((member) => new Promise<string>((resolve) => {
    const socket = new WebSocket(`${location.origin.replace("http", "ws")}/v1/boards/meet/weekly/main/${member}`);
    socket.onopen = () => {
      socket.send(JSON.stringify({ type: "open" }));
      socket.send(new Uint8Array(200));
    };
    socket.onmessage = ({ data }) => {
      const code = typeof data === "string" ? (JSON.parse(data) as { code?: string }).code : undefined;
      if (code) resolve(code);
    };
  }), member);
  expect(answer).toBe("floor");
  expect(await refused(1, "floor")).toBe(before + 1);
  await button(us.anna, "More for Bert").click();
  await us.anna.page.getByRole("menuitem", { name: "Let draw again" }).click();
  await is(us.bert, "draws");
  await button(us.anna, "Close").click();
});

test("a board of 100,000 shapes is refused in words, and nobody else is harmed", async () => {
  const box = await us.anna.page.locator("canvas.interactive").boundingBox();
  await us.anna.page.mouse.move((box?.x ?? 0) + 40, (box?.y ?? 0) + 40);
  await us.anna.page.locator(".excalidraw-container").focus();
  await us.anna.page.evaluate(() => {
    const elements = Array.from({ length: 100_000 }, (_, n) =>
      ({ id: `p${n}`, type: "rectangle", x: n, y: n, width: 9, height: 9, version: 1, versionNonce: n }));
    const data = new DataTransfer();
    data.setData("text/plain", JSON.stringify({ type: "excalidraw/clipboard", elements, files: {} }));
    document.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
  });
  await us.anna.page.getByText("This does not fit onto the board").waitFor();
  await accessible(us.anna.page, "a full board");
  await picture(us.anna, "board-full");
  await until("a count", () => refused(0, "full"), (count) => count > 0);
  await board(us.anna).getByRole("button", { name: "Close" }).click();
  await draws(us.bert, "Rectangle", [0.1, 0.6]);
  await Promise.all([shows(us.anna, 4), shows(us.bert, 4)]);
});

test("a phone has the board too, and nobody was asked elsewhere", async () => {
  await us.bert.page.setViewportSize({ width: 390, height: 844 });
  await accessible(us.bert.page, "phone board");
  await picture(us.bert, "phone-board");
  expect(await us.bert.page.locator(".sangam-board button:visible").count(), "tools of its own").toBe(0);
  await button(us.bert, /^Whiteboard/).click();
  await board(us.bert).waitFor({ state: "detached" });
  expect([...us.anna.faults, ...us.bert.faults]).toEqual([]);
});
