/**
 * What the build does with Excalidraw: its fonts become files of this page, but for 12 MB of
 * Chinese ones; of its languages one stays, as its tools are hidden; what it exports files with
 * goes; and nobody is asked at another origin.
 */

import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import type { Plugin } from "vite";

const FONTS = ["Cascadia", "ComicShanns", "Excalifont", "Liberation", "Lilita", "Nunito", "Virgil"];
const NONE = "\0none";

export function excalidraw(): Plugin {
  const entry = createRequire(import.meta.url).resolve("@excalidraw/excalidraw");
  return {
    name: "excalidraw",
    apply: "build",
    enforce: "pre",
    config: () => ({ define: { "process.env.IS_PREACT": JSON.stringify("false") } }),
    resolveId(source, importer) {
      const idle = /^\.\/(locales\/(?!en-|percentages-)|subset-)|\/mermaid-to-excalidraw$/;
      return idle.test(source) && importer?.includes("@excalidraw") ? NONE : null;
    },
    load: (id) => (id === NONE ? "export default {};" : null),
    transform(code, id) {
      if (!id.includes("@excalidraw/excalidraw") || !code.includes("https://esm.sh/")) return null;
      return { code: code.replaceAll("`https://esm.sh/", "`${location.origin}/assets/"), map: null };
    },
    generateBundle() {
      for (const font of FONTS) {
        const folder = `${dirname(entry)}/fonts/${font}`;
        for (const file of readdirSync(folder)) {
          const source = readFileSync(`${folder}/${file}`);
          this.emitFile({ type: "asset", fileName: `assets/fonts/${font}/${file}`, source });
        }
      }
    },
  };
}
