import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Signalling } from "../src/signalling.ts";

/** A socket whose other end speaks when a test does, and of whose end nobody is told. */
class Line {
  static OPEN = 1;
  static all: Line[] = [];
  readyState = 1;
  sent: Record<string, unknown>[] = [];
  onopen: (() => void) | undefined;
  onmessage: ((message: { data: string }) => void) | undefined;
  onclose: (() => void) | undefined;

  constructor(readonly url: string) {
    Line.all.push(this);
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text) as Record<string, unknown>);
  }

  says(frame: object): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  close(): void {
    this.readyState = 2;
  }
}

const WELCOME = { type: "welcome", member: "m1", key: "k", now_ms: 0 };
let up: boolean[];
let frames: string[];
let signalling: Signalling;
const line = (n: number) => Line.all[n] as Line;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", Line);
  Line.all = [];
  [up, frames] = [[], []];
  signalling = new Signalling(
    {
      servers: ["https://a.example"], tenant: "acme", session: "weekly", token: "t", name: "Anna",
      capabilities: [],
    },
    {
      frame: (frame) => frames.push(frame.type), line: (now) => up.push(now),
      failed: (problem) => expect.fail(problem.error),
    },
  );
  line(0).onopen?.();
});
afterEach(() => {
  signalling.close();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("a server that goes silent is left, and the member comes back", async () => {
  line(0).says(WELCOME);
  await vi.advanceTimersByTimeAsync(10_100);
  expect(line(0).sent.at(-1), "asked for a word").toEqual({ id: 1 });
  expect(up).toEqual([true, false]);
  line(1).onopen?.();
  expect(line(1).sent).toEqual([{ type: "resume", member: "m1", key: "k" }]);
  line(1).says(WELCOME);
  expect(up).toEqual([true, false, true]);
});

test("a server that answers is stayed with, however little happens", async () => {
  line(0).says(WELCOME);
  for (let n = 1; n <= 20; n++) {
    await vi.advanceTimersByTimeAsync(5_000);
    line(0).says({ type: "refused", id: n, code: "malformed", error: "no command" });
  }
  expect(line(0).sent).toHaveLength(21);
  expect(up).toEqual([true]);
});

test("a server that opens the socket and says nothing is left", async () => {
  await vi.advanceTimersByTimeAsync(3_100);
  expect(Line.all).toHaveLength(2);
});

test("another broker replaces the socket, whatever the old one still says", () => {
  line(0).says(WELCOME);
  signalling.hurry();
  expect(Line.all).toHaveLength(2);
  line(0).says({ type: "bye", why: "replaced" });
  line(0).onclose?.();
  expect(Line.all).toHaveLength(2);
  expect(frames).toEqual(["welcome"]);
});

test("a session is followed to its server, and waited for while it moves", async () => {
  const ends = async (n: number, frame: object) => {
    line(n).onopen?.();
    line(n).says({ type: "refused", error: "", ...frame });
    line(n).onclose?.();
    await vi.advanceTimersByTimeAsync(2_000);
  };
  await ends(0, { code: "elsewhere", at: "https://b.example" });
  expect(line(1).url).toBe("wss://b.example/v1/sessions/acme/weekly/signal");
  await ends(1, { code: "moving" });
  expect(line(2).url).toBe("wss://b.example/v1/sessions/acme/weekly/signal");
  line(2).onopen?.();
  line(2).says(WELCOME);
  expect(up).toEqual([true]);
});

test("servers that send to each other are not asked all the time", async () => {
  for (let n = 0; n < 6; n++) {
    const other = n % 2 === 0 ? "https://b.example" : "https://a.example";
    line(n).onopen?.();
    line(n).says({ type: "refused", error: "", code: "elsewhere", at: other });
    line(n).onclose?.();
    await vi.advanceTimersByTimeAsync(2_000);
  }
  const asked = Line.all.length;
  line(6).onopen?.();
  line(6).says({ type: "refused", error: "", code: "elsewhere", at: "https://b.example" });
  line(6).onclose?.();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(Line.all.length).toBe(asked);
});

test("a member whose server dies waits at another one for the session", async () => {
  const other = "https://b.example";
  line(0).says({ ...WELCOME, servers: ["https://a.example", other] });
  line(0).onclose?.();
  await vi.advanceTimersByTimeAsync(0);
  // Perhaps the line alone was cut.
  expect(line(1).url).toMatch(/^wss:\/\/a\.example\//);
  line(1).onclose?.();
  await vi.advanceTimersByTimeAsync(250);
  expect(line(2).url).toMatch(/^wss:\/\/b\.example\//);
  line(2).onopen?.();
  const back = { type: "resume", member: "m1", key: "k", unreached: ["https://a.example"] };
  expect(line(2).sent).toEqual([back]);
  // It does not know yet that the other is dead, and then waits itself.
  for (const [n, refusal] of [
    [2, { code: "elsewhere", at: "https://a.example" }], [3, { code: "moving" }],
  ] as const) {
    line(n).says({ type: "refused", error: "", ...refusal });
    line(n).onclose?.();
    await vi.advanceTimersByTimeAsync(450);
    expect(line(n + 1).url).toMatch(/^wss:\/\/b\.example\//);
    line(n + 1).onopen?.();
  }
  line(4).says({ ...WELCOME, servers: [other] });
  expect(up).toEqual([true, false, true]);
});

test("a server that came later is known when the others die", async () => {
  line(0).says({ ...WELCOME, servers: ["https://a.example"] });
  line(0).says({ type: "servers", servers: ["https://a.example", "https://c.example"] });
  line(0).onclose?.();
  await vi.advanceTimersByTimeAsync(0);
  line(1).onclose?.();
  await vi.advanceTimersByTimeAsync(250);
  expect(line(2).url).toMatch(/^wss:\/\/c\.example\//);
});
