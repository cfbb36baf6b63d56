/**
 * The WebSocket of one member: joins, comes back after the line was lost, asks and is answered.
 */

import type { Command, Frame, MemberId, Problem } from "./protocol.ts";

/** Waits between attempts: short first, as most cuts are. */
const WAITS_MS = [0, 250, 500, 1_000, 2_000] as const;
/** How long a server may take to let the socket open. */
const OPEN_MS = 3_000;
/** After so long without a word of the server, which answers each command, the line is lost. */
const ANSWER_MS = 5_000;

export interface SignallingOptions {
  /** Origins of session servers, the nearest first. */
  servers: readonly string[];
  tenant: string;
  session: string;
  token: string;
  name: string;
  capabilities: string[];
}

export interface SignallingEvents {
  frame(frame: Frame): void;
  /** The line is there, or is not. */
  line(up: boolean): void;
  /** It will not come back. */
  failed(problem: Problem): void;
}

interface Waiting {
  resolve(): void;
  reject(problem: Problem): void;
  timer: ReturnType<typeof setTimeout>;
}

export class Signalling {
  #options: SignallingOptions;
  #events: SignallingEvents;
  #socket: WebSocket | undefined;
  #ticket: { member: MemberId; key: string } | undefined;
  #server = 0;
  #attempt = 0;
  #unknown = 0;
  #next = 1;
  #waiting = new Map<number, Waiting>();
  #retry: ReturnType<typeof setTimeout> | undefined;
  #over = false;
  #wake = () => this.hurry();

  constructor(options: SignallingOptions, events: SignallingEvents) {
    this.#options = options;
    this.#events = events;
    globalThis.addEventListener?.("online", this.#wake);
    this.#connect();
  }

  /** Asks something; rejects with a `Problem`. */
  ask(command: Command): Promise<void> {
    const socket = this.#socket;
    if (!socket || socket.readyState !== WebSocket.OPEN) {
      return Promise.reject<void>({ code: "line", error: "not connected" } satisfies Problem);
    }
    const id = this.#next++;
    socket.send(JSON.stringify({ id, ...command }));
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => socket.close(), ANSWER_MS);
      this.#waiting.set(id, { resolve, reject, timer });
    });
  }

  /** Tries again now instead of later. */
  hurry(): void {
    if (this.#over || this.#socket) return;
    clearTimeout(this.#retry);
    this.#connect();
  }

  /** Ends it; the member stays for a while unless it has left. */
  close(): void {
    this.#over = true;
    globalThis.removeEventListener?.("online", this.#wake);
    clearTimeout(this.#retry);
    this.#socket?.close();
  }

  #connect(): void {
    const { servers, tenant, session } = this.#options;
    const origin = servers[this.#server % servers.length] ?? "";
    const path = `/v1/sessions/${encodeURIComponent(tenant)}/${encodeURIComponent(session)}/signal`;
    const socket = new WebSocket(origin.replace(/^http/, "ws") + path);
    this.#socket = socket;
    const late = setTimeout(() => socket.close(), OPEN_MS);
    socket.onopen = () => {
      clearTimeout(late);
      socket.send(JSON.stringify(this.#greeting()));
    };
    socket.onmessage = (message: MessageEvent<string>) => {
      this.#take(JSON.parse(message.data) as Frame);
    };
    socket.onclose = () => {
      clearTimeout(late);
      if (this.#socket === socket) this.#lost();
    };
  }

  #greeting(): object {
    if (this.#ticket) return { type: "resume", ...this.#ticket };
    const { token, name, capabilities } = this.#options;
    return { type: "join", token, name, capabilities };
  }

  #take(frame: Frame): void {
    if (frame.type === "done" || (frame.type === "refused" && typeof frame.id === "number")) {
      this.#answered(frame);
      return;
    }
    if (frame.type === "welcome") {
      this.#ticket = { member: frame.member, key: frame.key };
      this.#attempt = 0;
      this.#unknown = 0;
      this.#events.line(true);
    }
    if (frame.type === "refused") {
      this.#refused(frame);
      return;
    }
    if (frame.type === "bye" && frame.why !== "lost") this.#over = true;
    this.#events.frame(frame);
  }

  #answered(frame: Extract<Frame, { type: "done" | "refused" }>): void {
    const waiting = this.#waiting.get(frame.id ?? -1);
    if (!waiting) return;
    this.#waiting.delete(frame.id ?? -1);
    clearTimeout(waiting.timer);
    if (frame.type === "done") waiting.resolve();
    else waiting.reject(frame);
  }

  /** The greeting was not taken. */
  #refused(problem: Problem): void {
    if (problem.code === "wrong_key") {
      // It took too long to come back, so that the place is gone.
      this.#ticket = undefined;
      return;
    }
    if (problem.code === "no_session" && ++this.#unknown < this.#options.servers.length) {
      this.#server += 1;
      return;
    }
    if (problem.code === "busy" || problem.code === "unavailable" || problem.code === "rate") return;
    this.#over = true;
    this.#events.failed(problem);
  }

  #lost(): void {
    this.#socket = undefined;
    for (const { reject, timer } of this.#waiting.values()) {
      clearTimeout(timer);
      reject({ code: "line", error: "the connection was lost" });
    }
    this.#waiting.clear();
    if (this.#over) return;
    this.#events.line(false);
    // The place is at the server that gave it; others are asked as well, as it may have moved.
    if (this.#attempt > 0) this.#server += 1;
    const wait = WAITS_MS[Math.min(this.#attempt, WAITS_MS.length - 1)] ?? 0;
    this.#attempt += 1;
    this.#retry = setTimeout(() => this.#connect(), wait);
  }
}
