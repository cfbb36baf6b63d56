import { afterEach, expect, test, vi } from "vitest";
import { forget, here, isOver, level, login, logout, read } from "../src/route";

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

/** A window's store, which is all that outlives a page here. */
function store(): Map<string, string> {
  const kept = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
    removeItem: (key: string) => kept.delete(key),
    key: (n: number) => [...kept.keys()][n] ?? null,
    get length() {
      return kept.size;
    },
  });
  return kept;
}

test("who logs out leaves no token of a login, and those of invitations stay", () => {
  const kept = store();
  vi.stubGlobal("history", { replaceState: () => undefined });
  const go = (path: string) => {
    vi.stubGlobal("location", new URL(path, "https://meet.example"));
    return here();
  };
  expect(go("/m/meet/weekly#token=a.b.c&login=done")).toMatchObject({ token: "a.b.c", account: true });
  expect(go("/m/meet/daily#token=d.e.f&login=done")).toMatchObject({ account: true });
  expect(go("/m/meet/weekly"), "after a reload").toMatchObject({ token: "a.b.c", account: true });
  expect(go("/m/meet/invited#token=g.h.i")).not.toHaveProperty("account");
  forget();
  expect([...kept.values()]).toEqual(["g.h.i"]);
  expect(go("/m/meet/weekly#login=left")).toEqual({ tenant: "meet", session: "weekly", parted: true });
  expect(logout({ tenant: "meet", session: "weekly" })).toBe("/v1/logout?to=%2Fm%2Fmeet%2Fweekly");
});

test("the token leaves the address, and is still there after a reload", () => {
  let address = "https://meet.example/m/acme/weekly#token=a.b.c";
  store();
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
