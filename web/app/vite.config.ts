import { fileURLToPath } from "node:url";
import tailwind from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { excalidraw } from "./excalidraw.ts";

export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  plugins: [excalidraw(), react(), tailwind()],
  resolve: { conditions: ["sangam-source", "module", "browser", "development|production"] },
  build: {
    target: "es2022",
    // Everything is a file of its own: the page's policy takes no inline scripts, styles or pictures.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1_500,
    modulePreload: { polyfill: false },
  },
});
