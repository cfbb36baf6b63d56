import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { conditions: ["sangam-source"] },
  ssr: { resolve: { conditions: ["sangam-source"] } },
  test: { include: ["{sdk,app,bench}/test/**/*.test.ts"], environment: "node" },
});
