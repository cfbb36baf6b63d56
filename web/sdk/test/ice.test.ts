import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { relays } from "../src/ice.ts";

const RELAY = { urls: ["turn:turn.example.org"], username: "1:a", credential: "b" };

let asked: string[];
let answer: () => Response;

beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
    asked.push(`${url} ${(init.headers as Record<string, string>)["Authorization"] ?? ""}`.trim());
    return answer();
  });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("relays are asked for once, and again when half of their time is over", async () => {
  answer = () => new Response(JSON.stringify({ ice_servers: [RELAY], ttl_s: 100 }));
  const door = { origin: "https://a.example", token: "mine" };
  expect(await Promise.all([relays(door), relays(door)])).toEqual([[RELAY], [RELAY]]);
  expect(asked).toEqual(["https://a.example/v1/ice Bearer mine"]);
  vi.advanceTimersByTime(49_000);
  await relays(door);
  expect(asked).toHaveLength(1);
  vi.advanceTimersByTime(2_000);
  expect(await relays(door)).toEqual([RELAY]);
  expect(asked).toHaveLength(2);
});

test("a broker without relays, or of an earlier release, is not asked again", async () => {
  const none = { origin: "https://b.example", token: null };
  answer = () => new Response(JSON.stringify({ ice_servers: [], ttl_s: null }));
  expect(await relays(none)).toEqual([]);
  const earlier = { origin: "https://c.example", token: null };
  answer = () => new Response("nothing here", { status: 404 });
  expect(await relays(earlier)).toEqual([]);
  await Promise.all([relays(none), relays(earlier)]);
  expect(asked).toEqual(["https://b.example/v1/ice", "https://c.example/v1/ice"]);
});

test("without an answer there are no relays, until there is one", async () => {
  const door = { origin: "https://d.example", token: null };
  answer = () => new Response("", { status: 401 });
  expect(await relays(door)).toEqual([]);
  answer = () => new Response(JSON.stringify({ ice_servers: [RELAY], ttl_s: 100 }));
  expect(await relays(door)).toEqual([RELAY]);
});
