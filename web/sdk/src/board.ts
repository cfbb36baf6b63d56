/**
 * The whiteboard of a room as a line of events, by docs/spec/board.md: each comes once, behind the
 * earlier ones of its sender, to those who are there and to those who come later. What is in an
 * event is the page's affair.
 */

import type { Door } from "./peer.ts";
import { path } from "./publisher.ts";
import type { Problem } from "./protocol.ts";

/** Bytes of one event at most. */
export const BOARD_EVENT_MAX = 65_536;
/** Waits between attempts. */
const WAITS_MS = [0, 250, 500, 1_000, 2_000] as const;
/** How long a broker may take to open a board. */
const OPEN_MS = 4_000;
/** A line that was up for this long is tried again at once; others later and later. */
const STEADY_MS = 5_000;
/** Bytes that may wait for the network; past that events wait where they are made. */
const BUFFERED_MAX = 1_048_576;

/** A turn of what is replayed, whose board is looked at. */
export interface Turn {
  since_ms: number;
  order: number;
}

export interface BoardEvents {
  event(bytes: Uint8Array): void;
  /** What was kept has come; from now on events are new. Again after each reconnection. */
  live(): void;
  /** The line is there, or is not. */
  line(up: boolean): void;
  /** Something that was sent was not taken, such as without the floor. */
  refused(problem: Problem): void;
}

export class Board {
  #events: BoardEvents;
  /** Room and member, such as `acme/weekly/main/m17`. */
  #at: string | undefined;
  #door: Door | undefined;
  #socket: WebSocket | undefined;
  #up = false;
  /** When the line came up, of `performance.now()`. */
  #since = 0;
  #shown: string | null = null;
  #attempt = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #patience: ReturnType<typeof setTimeout> | undefined;
  #closed: () => void;
  #over = false;
  /** Of a recording's board, which cannot be drawn on. */
  readonly turn: Turn | undefined;

  /** `closed` is called once it is over. */
  constructor(events: BoardEvents, closed: () => void, turn?: Turn) {
    this.#events = events;
    this.#closed = closed;
    this.turn = turn;
  }

  /** The room or the way to the broker changed. */
  follow(at: string | undefined, door: Door | undefined): void {
    const same = at === this.#at && door?.origin === this.#door?.origin;
    [this.#at, this.#door] = [at, door];
    if (this.#over) return;
    if (!same) {
      this.#let();
      this.#attempt = 0;
      this.#connect();
    } else if (this.#up && door && door.token !== this.#shown) {
      this.#show();
    }
  }

  /** Sends an event; false if it has to be sent again once the board is live. */
  send(event: Uint8Array<ArrayBuffer>): boolean {
    const socket = this.#socket;
    if (!this.#up || !socket || socket.bufferedAmount > BUFFERED_MAX) return false;
    socket.send(event);
    return true;
  }

  /** Tells the broker's operator that something did not fit. */
  full(): void {
    if (this.#up) this.#socket?.send(JSON.stringify({ type: "full" }));
  }

  close(): void {
    if (this.#over) return;
    this.#over = true;
    this.#let();
    this.#closed();
  }

  #connect(): void {
    if (this.#over || this.#at === undefined || !this.#door) return;
    const origin = this.#door.origin.replace(/^http/, "ws");
    const turn = this.turn ? `/${this.turn.since_ms}/${this.turn.order}` : "";
    const socket = new WebSocket(`${origin}/v1/boards/${path(this.#at)}${turn}`);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    this.#patience = setTimeout(() => this.#lost(), OPEN_MS);
    socket.onopen = () => this.#show();
    socket.onmessage = (message: MessageEvent<string | ArrayBuffer>) => {
      if (this.#socket === socket) this.#take(message.data);
    };
    socket.onclose = () => {
      if (this.#socket === socket) this.#lost();
    };
  }

  #show(): void {
    this.#shown = this.#door?.token ?? null;
    this.#socket?.send(JSON.stringify({ type: "open", token: this.#shown }));
  }

  #take(data: string | ArrayBuffer): void {
    if (typeof data !== "string") {
      this.#events.event(new Uint8Array(data));
      return;
    }
    const word = JSON.parse(data) as { type: string };
    if (word.type === "open") {
      clearTimeout(this.#patience);
      [this.#up, this.#since] = [true, performance.now()];
      this.#events.line(true);
    }
    if (word.type === "live") this.#events.live();
    if (word.type === "refused") this.#events.refused(word as unknown as Problem);
  }

  #let(): void {
    clearTimeout(this.#retry);
    clearTimeout(this.#patience);
    const socket = this.#socket;
    const up = this.#up;
    [this.#socket, this.#up] = [undefined, false];
    socket?.close();
    if (up && !this.#over) this.#events.line(false);
  }

  #lost(): void {
    if (this.#up && performance.now() - this.#since >= STEADY_MS) this.#attempt = 0;
    this.#let();
    const wait = WAITS_MS[Math.min(this.#attempt, WAITS_MS.length - 1)] ?? 0;
    this.#attempt += 1;
    this.#retry = setTimeout(() => this.#connect(), wait);
  }
}
