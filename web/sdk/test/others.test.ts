import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Others } from "../src/others.ts";
import type { Session } from "../src/protocol.ts";
import { floor, member, session } from "./session.ts";
import { web } from "./web.ts";

const DOOR = { origin: "https://a.example", token: null };
const EVENTS = { changed: () => undefined, lost: () => undefined };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** Two members in a room; `m2` sends. */
function together(room: string): Session {
  const one = session([member("m1", { room }), member("m2", { room })], [floor("audio", ["m2"])]);
  const [first] = one.rooms ?? [];
  return { ...one, rooms: first ? [{ ...first, name: room }] : [] };
}

test("two who are moved together are received in the other room", async () => {
  const asked = web();
  const others = new Others(EVENTS);
  others.follow(together("main"), "m1", DOOR);
  others.follow(together("side"), "m1", DOOR);
  await vi.advanceTimersByTimeAsync(0);
  expect([...others.players().values()].map((one) => one.room)).toEqual(["acme/weekly/side"]);
  expect(asked).toContain("POST /v1/whep/acme/weekly/side/%2B/m2");
  others.close();
});

test("nobody is tried again once it is over", async () => {
  const asked = web((what) => what.startsWith("POST"));
  const others = new Others(EVENTS);
  others.follow(together("main"), "m1", DOOR);
  await vi.advanceTimersByTimeAsync(0);
  others.close();
  others.follow(together("main"), "m1", DOOR);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(asked.filter((what) => what.startsWith("POST"))).toHaveLength(1);
});
