/** `make bench-web EXPERIMENT=application`. */

import { expect, test } from "vitest";
import { application, ROUNDS } from "./application";
import { command, FOLDER, seconds } from "./options";
import { markdown, write } from "./report";

test("application", async () => {
  const report = await application({
    rounds: ROUNDS, seconds: seconds(), settleSeconds: 3, command: command("application"),
  });
  write(FOLDER, report);
  console.log(markdown(report));
  expect(report.verdict.passed, report.verdict.text).toBe(true);
});
