import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const SOURCE = new URL("../src/", import.meta.url).pathname;
const LOCALES = ["en", "de", "fr", "hi"] as const;

type Tree = { [key: string]: string | Tree };

function read(locale: string): Map<string, string> {
  const tree = JSON.parse(readFileSync(`${SOURCE}locales/${locale}.json`, "utf8")) as Tree;
  const flat = new Map<string, string>();
  const walk = (node: Tree, prefix: string) => {
    for (const [key, value] of Object.entries(node)) {
      if (typeof value === "string") flat.set(prefix + key, value);
      else walk(value, `${prefix}${key}.`);
    }
  };
  walk(tree, "");
  return flat;
}

const places = (text: string) => [...text.matchAll(/\{\{(\w+)\}\}/g)].map(([, name]) => name).sort();

test.each(LOCALES)("%s has every text, with the same places in it", (locale) => {
  const english = read("en");
  const other = read(locale);
  expect([...other.keys()].sort()).toEqual([...english.keys()].sort());
  for (const [key, text] of english) {
    expect(other.get(key)?.trim(), key).not.toBe("");
    expect(places(other.get(key) ?? ""), key).toEqual(places(text));
  }
});

test("every text that the source names is there, and every text is used", () => {
  const files = readdirSync(SOURCE, { recursive: true }).map(String);
  const sources = files.filter((file) => /\.tsx?$/.test(file));
  const text = sources.map((file) => readFileSync(SOURCE + file, "utf8")).join("\n");
  const keys = read("en");
  const named = [...text.matchAll(/\bt\(\s*"([a-z_.]+)"/g)].map(([, key]) => key ?? "");
  expect(named.filter((key) => !keys.has(key))).toEqual([]);
  // Keys that are put together name their group: t(`left.${...}`).
  const groups = [...text.matchAll(/`([a-z_]+\.)(?:[a-z_]*)\$\{/g)].map(([, group]) => group ?? "");
  const used = (key: string) =>
    text.includes(`"${key}"`) || groups.some((group) => key.startsWith(group));
  expect([...keys.keys()].filter((key) => !used(key))).toEqual([]);
});
