import { defineConfig } from "vitest/config";
import browser from "./vitest.browser.config";

/** Four browsers at once, in a target of its own: two processors take minutes for it. */
export default defineConfig({
  test: {
    ...browser.test, include: ["test/four/*.test.ts"], testTimeout: 300_000, hookTimeout: 120_000,
  },
});
