import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { answers, Brokers } from "../src/brokers.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** What brokers say, by origin: an answer, a refusal, or nothing ever. */
function network(says: (origin: string, ask: number) => "yes" | "no" | "nothing"): string[] {
  const asked: string[] = [];
  vi.stubGlobal("fetch", (url: string, { signal }: { signal: AbortSignal }) => {
    const { origin } = new URL(url);
    asked.push(origin);
    const said = says(origin, asked.filter((one) => one === origin).length);
    if (said === "yes") return Promise.resolve(new Response("ok"));
    if (said === "no") return Promise.reject(new TypeError("refused"));
    return new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(new DOMException("late", "AbortError")));
    });
  });
  return asked;
}

const A = "https://a.example";
const B = "https://b.example";

test("a broker that answers is gone on with at once, whatever others do", async () => {
  network((origin) => (origin === A ? "yes" : "nothing"));
  const brokers = new Brokers([A, B]);
  expect(await brokers.choose()).toBe(true);
  expect([brokers.current, vi.getTimerCount()]).toEqual([A, 2]);
});

test("another one takes over from a broker that is gone", async () => {
  network((origin) => (origin === A ? "no" : "yes"));
  const brokers = new Brokers([A, B]);
  expect(await brokers.choose()).toBe(true);
  expect(brokers.current).toBe(B);
});

test("what was lost in a cut network is asked again soon, and not for ever", async () => {
  const asked = network((_, ask) => (ask < 3 ? "nothing" : "yes"));
  const came = answers(A);
  await vi.advanceTimersByTimeAsync(600);
  expect(await came).toBe(true);
  expect(asked).toHaveLength(3);
  network(() => "nothing");
  const silent = answers(A);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await silent).toBe(false);
  expect(vi.getTimerCount()).toBe(0);
});
