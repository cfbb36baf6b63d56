import { defineConfig } from "vitest/config";

/** Tests with real brokers and real browsers, one after the other: there are few processors. */
export default defineConfig({
  test: {
    include: ["test/*.test.ts"],
    environment: "node",
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    bail: 1,
  },
});
