/**
 * The WebSocket of one member: joins, comes back after the line was lost, asks and is answered.
 */

import { pathOf } from "./api.ts";
import type { Command, Frame, MemberId, Problem, Recording } from "./protocol.ts";
import { Servers } from "./servers.ts";

/** Waits between attempts: short first, as most cuts are. */
const WAITS_MS = [0, 250, 500, 1_000, 2_000] as const;
/**
 * Before a server is asked again that knows the session and waits for it to be taken over, and how
 * often: servers wait for a while themselves.
 */
const STAY_MS = 300;
const STAYS_MAX = 10;
/** How long a server may take to open the socket and to let this member in. */
const WELCOME_MS = 3_000;
/** After so long without a word of the server, it is asked for one: pages do not see its pings. */
const QUIET_MS = 5_000;
/** When the server, which answers each command, has not done so for so long, the line is lost. */
const ANSWER_MS = 5_000;

/** Refusals that do not last. */
const LATER = ["busy", "unavailable", "rate"];

/** Whom to ask after a refusal: the same server, the one it named, or another. */
type Plan = "stay" | "sent" | "next";
const SENT = { now: "sent", later: "stay", never: "next" } as const;

export interface SignallingOptions {
  /** Origins of session servers, the nearest first. */
  servers: readonly string[];
  /** Origins that servers may speak of; any if not given. */
  allowed?: readonly string[];
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

type Answer = Extract<Frame, { type: "done" }>;

interface Waiting {
  resolve(answer: Answer): void;
  reject(problem: Problem): void;
  timer: ReturnType<typeof setTimeout>;
}

export class Signalling {
  #options: SignallingOptions;
  #events: SignallingEvents;
  #socket: WebSocket | undefined;
  /** Whether the server let this member in by this socket. */
  #up = false;
  #ticket: { member: MemberId; key: string } | undefined;
  #servers: Servers;
  #plan: Plan | undefined;
  #stays = 0;
  #attempt = 0;
  #unknown = 0;
  #next = 1;
  #waiting = new Map<number, Waiting>();
  #retry: ReturnType<typeof setTimeout> | undefined;
  /** Until the server has to speak, or has to be asked. */
  #patience: ReturnType<typeof setTimeout> | undefined;
  #over = false;
  #wake = () => this.#doubt();

  constructor(options: SignallingOptions, events: SignallingEvents) {
    this.#options = options;
    this.#events = events;
    this.#servers = new Servers(options.servers, options.allowed);
    globalThis.addEventListener?.("online", this.#wake);
    this.#connect();
  }

  /** Asks something; rejects with a `Problem`. */
  async ask(command: Command): Promise<void> {
    await this.#say(command);
  }

  /** The recordings of the session; rejects with a `Problem`. */
  async recordings(): Promise<Recording[]> {
    return (await this.#say({ ask: "recordings" })).recordings ?? [];
  }

  #say(question: Command | { ask: "recordings" }): Promise<Answer> {
    const socket = this.#socket;
    if (!socket || socket.readyState !== WebSocket.OPEN) {
      return Promise.reject<Answer>({ code: "line", error: "not connected" } satisfies Problem);
    }
    const id = this.#next++;
    socket.send(JSON.stringify({ id, ...question }));
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#lost(), ANSWER_MS);
      this.#waiting.set(id, { resolve, reject, timer });
    });
  }

  /** The broker is another: comes back by a new socket, now instead of later. */
  hurry(): void {
    if (this.#over) return;
    this.#let();
    this.#connect();
  }

  /** Ends it; the member stays for a while unless it has left. */
  close(): void {
    this.#over = true;
    globalThis.removeEventListener?.("online", this.#wake);
    this.#let();
  }

  #connect(): void {
    const { tenant, session } = this.#options;
    const origin = this.#servers.current.replace(/^http/, "ws");
    const url = `${origin}${pathOf({ tenant, session })}/signal`;
    const socket = new WebSocket(url);
    [this.#socket, this.#plan] = [socket, undefined];
    this.#patience = setTimeout(() => this.#lost(), WELCOME_MS);
    socket.onopen = () => socket.send(JSON.stringify(this.#greeting()));
    socket.onmessage = (message: MessageEvent<string>) => {
      if (this.#socket !== socket) return;
      const frame = JSON.parse(message.data) as Frame;
      if (frame.type === "welcome" || this.#up) this.#heard(socket);
      this.#take(frame);
    };
    socket.onclose = () => {
      if (this.#socket === socket) this.#lost();
    };
  }

  /** The server lives; when it is quiet for long, it is asked whether it still does. */
  #heard(socket: WebSocket): void {
    this.#up = true;
    clearTimeout(this.#patience);
    this.#patience = setTimeout(() => this.#probe(socket), QUIET_MS);
  }

  #probe(socket: WebSocket): void {
    clearTimeout(this.#patience);
    // A number without a command: refused in any state, and nothing changes.
    socket.send(JSON.stringify({ id: this.#next++ }));
    this.#patience = setTimeout(() => this.#lost(), ANSWER_MS);
  }

  /** The network came back: perhaps the line is whole, and if there was none, it can be made now. */
  #doubt(): void {
    if (this.#socket === undefined) this.hurry();
    else if (this.#up) this.#probe(this.#socket);
  }

  #greeting(): object {
    const unreached = this.#servers.unreached;
    const waits = unreached.length > 0 ? { unreached } : {};
    if (this.#ticket) return { type: "resume", ...this.#ticket, ...waits };
    const { token, name, capabilities } = this.#options;
    return { type: "join", token, name, capabilities, ...waits };
  }

  #take(frame: Frame): void {
    if (frame.type === "done" || (frame.type === "refused" && typeof frame.id === "number")) {
      this.#answered(frame);
      return;
    }
    if (frame.type === "welcome") {
      this.#ticket = { member: frame.member, key: frame.key };
      [this.#attempt, this.#stays, this.#unknown] = [0, 0, 0];
      this.#servers.reached();
      this.#servers.tell(frame.servers ?? []);
      this.#events.line(true);
    }
    if (frame.type === "servers") this.#servers.tell(frame.servers);
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
    if (frame.type === "done") waiting.resolve(frame);
    else waiting.reject(frame);
  }

  /** The greeting was not taken. */
  #refused(problem: Problem): void {
    this.#plan = this.#planned(problem);
    if (this.#plan !== undefined) return;
    this.#over = true;
    this.#events.failed(problem);
  }

  #planned({ code, at }: Problem): Plan | undefined {
    switch (code) {
      case "wrong_key":
        // It took too long to come back, so that the place is gone.
        this.#ticket = undefined;
        return "stay";
      case "moving":
        return "stay";
      case "elsewhere":
        // One that was not reached is gone, and this server will know it soon.
        return SENT[this.#servers.send(at)];
      case "no_session":
        return ++this.#unknown < this.#servers.all.length ? "next" : undefined;
      default:
        return LATER.includes(code) ? "next" : undefined;
    }
  }

  /** Lets the socket go without waiting for its end: of a cut line, none is told for minutes. */
  #let(): void {
    clearTimeout(this.#retry);
    clearTimeout(this.#patience);
    const socket = this.#socket;
    const up = this.#up;
    [this.#socket, this.#up] = [undefined, false];
    socket?.close();
    for (const { reject, timer } of this.#waiting.values()) {
      clearTimeout(timer);
      reject({ code: "line", error: "the connection was lost" });
    }
    this.#waiting.clear();
    if (up && !this.#over) this.#events.line(false);
  }

  #lost(): void {
    this.#let();
    if (this.#over) return;
    const plan = this.#plan;
    if (plan === "stay" && this.#stays < STAYS_MAX) {
      this.#stays += 1;
      // Not all members at the same moment.
      this.#retry = setTimeout(() => this.#connect(), STAY_MS * (0.5 + Math.random()));
      return;
    }
    // The place is at the server that gave it: it is asked once more before others are.
    const missed = plan === undefined && this.#attempt > 0;
    if (missed || plan === "stay" || plan === "next") this.#servers.next(missed);
    const wait = WAITS_MS[Math.min(this.#attempt, WAITS_MS.length - 1)] ?? 0;
    this.#attempt += 1;
    this.#retry = setTimeout(() => this.#connect(), wait);
  }
}
