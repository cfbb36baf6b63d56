/** `make bench-web EXPERIMENT=page-render`. */

import { expect, test } from "vitest";
import { command, FOLDER, seconds } from "./options";
import { drawing, pageRender } from "./page-render";
import { markdown, write } from "./report";

test("page-render", async () => {
  const report = await pageRender({
    streams: [0, 1, 2, 3, 4, 5, 6, 7, 8], seconds: seconds(), clipSeconds: 30, settleSeconds: 3,
    command: command("page-render"),
  });
  write(FOLDER, report, drawing(report));
  console.log(markdown(report));
  expect(report.verdict.passed, report.verdict.text).toBe(true);
});
