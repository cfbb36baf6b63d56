import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Board } from "../src/board.ts";

/** A socket whose other end speaks when a test does. */
class Socket {
  static all: Socket[] = [];
  bufferedAmount = 0;
  closed = false;
  sent: unknown[] = [];
  onopen: (() => void) | undefined;
  onmessage: ((message: { data: string | ArrayBuffer }) => void) | undefined;
  onclose: (() => void) | undefined;

  constructor(readonly url: string) {
    Socket.all.push(this);
  }

  send(data: string | Uint8Array): void {
    this.sent.push(typeof data === "string" ? JSON.parse(data) : data);
  }

  says(word: object): void {
    this.onmessage?.({ data: JSON.stringify(word) });
  }

  close(): void {
    this.closed = true;
  }
}

const A = { origin: "https://a.example", token: "t1" };
const AT = "acme/weekly/main/m1";
let told: unknown[];
let board: Board;
const socket = (n: number) => Socket.all[n] as Socket;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", Socket);
  Socket.all = [];
  told = [];
  board = new Board({
    event: (bytes) => told.push(bytes.length), live: () => told.push("live"),
    line: (up) => told.push(up), refused: (problem) => told.push(problem.code),
  }, () => told.push("closed"));
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function open(n: number): void {
  socket(n).onopen?.();
  socket(n).says({ type: "open", draws: true });
}

test("a board opens where its member is, and tells what comes", () => {
  board.follow(undefined, A);
  expect(Socket.all).toHaveLength(0);
  board.follow(AT, A);
  expect(socket(0).url).toBe("wss://a.example/v1/boards/acme/weekly/main/m1");
  expect(board.send(new Uint8Array(3)), "not yet").toBe(false);
  open(0);
  expect(socket(0).sent).toEqual([{ type: "open", token: "t1" }]);
  socket(0).onmessage?.({ data: new ArrayBuffer(5) });
  socket(0).says({ type: "live" });
  socket(0).says({ type: "refused", code: "floor", error: "no" });
  expect(told).toEqual([true, 5, "live", "floor"]);
  expect(board.send(new Uint8Array(3))).toBe(true);
  socket(0).bufferedAmount = 2_000_000;
  expect(board.send(new Uint8Array(3)), "the network is slow").toBe(false);
});

test("a newer token is shown, another broker is gone to, and a lost line comes back", () => {
  board.follow(AT, A);
  open(0);
  board.follow(AT, { ...A, token: "t2" });
  board.follow(AT, { ...A, token: "t2" });
  expect(socket(0).sent).toEqual([{ type: "open", token: "t1" }, { type: "open", token: "t2" }]);
  board.follow(AT, { origin: "https://b.example", token: "t2" });
  expect([socket(0).closed, socket(1).url.startsWith("wss://b.example/")]).toEqual([true, true]);
  open(1);
  socket(1).onclose?.();
  vi.advanceTimersByTime(0);
  expect(Socket.all).toHaveLength(3);
  // Nobody answers: it tries again, later and later.
  vi.advanceTimersByTime(60_000);
  expect(Socket.all.length).toBeGreaterThan(8);
  expect(Socket.all.length).toBeLessThan(20);
  expect(told).toEqual([true, false, true, false]);
});

test("a line that is opened and at once lost again is tried later and later", () => {
  board.follow(AT, A);
  for (let ms = 0; ms < 20_000; ms += 10) {
    const last = Socket.all.length - 1;
    if (socket(last).sent.length === 0) {
      open(last);
      socket(last).onclose?.();
    }
    vi.advanceTimersByTime(10);
  }
  expect(Socket.all.length).toBeGreaterThan(8);
  expect(Socket.all.length).toBeLessThan(20);
  vi.advanceTimersByTime(2_000);
  open(Socket.all.length - 1);
  vi.advanceTimersByTime(5_000);
  const before = Socket.all.length;
  socket(before - 1).onclose?.();
  vi.advanceTimersByTime(0);
  expect(Socket.all.length, "that one was steady").toBe(before + 1);
});

test("nothing is opened once it is over", () => {
  board.follow(AT, A);
  board.close();
  board.close();
  board.follow(AT, { origin: "https://b.example", token: null });
  vi.advanceTimersByTime(60_000);
  expect([Socket.all.length, socket(0).closed, told.join()]).toEqual([1, true, "closed"]);
});
