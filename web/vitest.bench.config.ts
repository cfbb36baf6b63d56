import { defineConfig } from "vitest/config";
import browser from "./vitest.browser.config";

const EXPERIMENT = process.env["BENCH"] || "*";

/** Measurements, one after the other: `make bench-web`. */
export default defineConfig({
  test: { ...browser.test, include: [`bench/${EXPERIMENT}.run.ts`], testTimeout: 7_200_000, bail: 0 },
});
