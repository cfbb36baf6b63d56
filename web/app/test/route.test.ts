import { afterEach, expect, test, vi } from "vitest";
import { here, isOver, level, login, read } from "../src/route";

afterEach(() => vi.unstubAllGlobals());

const at = (path: string) => read(new URL(path, "https://meet.example"));

test("a link names its session, and may hold a token", () => {
  expect(at("/m/acme/weekly")).toEqual({ tenant: "acme", session: "weekly" });
  expect(at("/m/acme/weekly#token=a.b.c")).toEqual({ tenant: "acme", session: "weekly", token: "a.b.c" });
});

test("a token that proxies would see is not taken", () => {
  expect(at("/m/acme/weekly?token=a.b.c")).toEqual({ tenant: "acme", session: "weekly" });
});

test.each(["/", "/m", "/m/acme", "/m/acme/weekly/more", "/m/a%2Fb/c", "/m/%E0/x", "/m/acme/x+y", `/m/acme/${"x".repeat(49)}`])(
  "%s is no link to a meeting", (path) => expect(at(path)).toBeUndefined(),
);

test("a login that came to nothing says why, in words that the page has", () => {
  const link = { tenant: "acme", session: "weekly" };
  expect(at("/m/acme/weekly#login=refused")).toEqual({ ...link, fault: "refused" });
  expect(at("/m/acme/weekly#login=<script>")).toEqual(link);
  expect(login(link)).toBe("/v1/login?to=%2Fm%2Facme%2Fweekly");
});

test("a token that was good once is told from others", () => {
  const token = (claims: object) => `e30.${btoa(JSON.stringify(claims)).replace(/=+$/, "")}.x`;
  expect(isOver(token({ exp: 1_000 }), 1_000_001)).toBe(true);
  expect(isOver(token({ exp: 1_000 }), 999_999)).toBe(false);
  expect(isOver(token({}))).toBe(false);
  expect(isOver("rubbish")).toBe(false);
});

test("what people type becomes one level of a topic", () => {
  expect(level("  Ärzte & Pflege  ")).toBe("Arzte-Pflege");
  expect(level("///")).toBe("");
  expect(level("x".repeat(100))).toHaveLength(48);
});

test("the token leaves the address, and is still there after a reload", () => {
  let address = "https://meet.example/m/acme/weekly#token=a.b.c";
  const store = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => store.get(key) ?? null,
    setItem: (key: string, value: string) => store.set(key, value),
  });
  vi.stubGlobal("history", {
    replaceState: (_state: unknown, _title: string, path: string) => (address = new URL(path, address).href),
  });
  vi.stubGlobal("location", new URL(address));
  const link = { tenant: "acme", session: "weekly", token: "a.b.c" };
  expect(here()).toEqual(link);
  expect(address).toBe("https://meet.example/m/acme/weekly");
  vi.stubGlobal("location", new URL(address));
  expect(here()).toEqual(link);
  vi.stubGlobal("location", new URL("https://meet.example/m/acme/other"));
  expect(here(), "another meeting").toEqual({ tenant: "acme", session: "other" });
});
