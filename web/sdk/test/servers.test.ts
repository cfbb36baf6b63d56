import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Servers } from "../src/servers.ts";

const [A, B, C, D] = ["https://a.example", "https://b.example", "https://c.example", "https://d.example"];

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("those that a server speaks of are asked before those that were named", () => {
  const servers = new Servers([A, B]);
  servers.tell([B, `${C}/`]);
  expect(servers.all).toEqual([B, C, A]);
  servers.next(true);
  expect(servers.current).toBe(B);
  servers.next(true);
  servers.next(true);
  expect(servers.current, "the one that was missed first").toBe(A);
});

test("a page goes where it may, whatever servers say", () => {
  const servers = new Servers([A], [B]);
  servers.tell([A, B, C, "javascript:alert(1)", "no url", 7, null]);
  expect(servers.all).toEqual([A, B]);
  expect(servers.send(C)).toBe("never");
  expect(servers.send(B)).toBe("now");
  expect(servers.current).toBe(B);
  servers.tell("nothing");
  expect(servers.all).toEqual([A, B]);
});

test("one that was not reached is left out for a while, in the words of servers", async () => {
  const servers = new Servers([A, B]);
  servers.tell(["https://a.example:443", B]);
  servers.next(true);
  expect(servers.current).toBe(B);
  expect(servers.unreached).toEqual(["https://a.example:443"]);
  expect(servers.send("https://a.example:443")).toBe("later");
  await vi.advanceTimersByTimeAsync(3_000);
  expect(servers.unreached).toEqual([]);
  expect(servers.send("https://a.example:443")).toBe("now");
  servers.next(true);
  servers.send(B);
  servers.reached();
  expect(servers.unreached).toEqual(["https://a.example:443"]);
});

test("a broker of whose sessions no server speaks is not named as unreached", () => {
  const servers = new Servers([C, A]);
  servers.next(true);
  expect(servers.send(B)).toBe("now");
  expect(servers.unreached).toEqual([]);
  servers.next(true);
  expect(servers.unreached).toEqual([B]);
});

test("there is a bound to what servers may say", () => {
  const servers = new Servers([D]);
  servers.tell(Array.from({ length: 1_000 }, (_, n) => `https://${n}.example`));
  expect(servers.all).toHaveLength(33);
});
