/** A meeting as one member has it: everything a page shows, and everything it may ask. */

import { Board, type BoardEvents, type Turn } from "./board.ts";
import { Brokers } from "./brokers.ts";
import { fold } from "./fold.ts";
import { Others } from "./others.ts";
import { Own, type OwnState, type Sent } from "./own.ts";
import type { Door, Peer } from "./peer.ts";
import type { Received, Shown } from "./player.ts";
import type { Bye, Command, Frame, MediaPass, MemberId, Problem, Recording, Session } from "./protocol.ts";
import { worst, type Quality } from "./quality.ts";
import { Signalling } from "./signalling.ts";
import { Speakers } from "./speakers.ts";
import { Watch } from "./watch.ts";

/** How often loudness is read. */
const LISTEN_MS = 200;
/** After so long without sound nobody is heard, whatever the browser still says of what came last. */
const SILENT_MS = 500;
/** For how long a reaction is shown, and how many at once. */
const REACTION_MS = 5_000;
const REACTIONS_MAX = 30;
/** For how long it is told that a floor was refused. */
const REFUSED_MS = 8_000;

export interface JoinOptions {
  /** Origins of the brokers, where the page came from first. */
  brokers: string[];
  /**
   * Origins of session servers that this page may ask beside those, such as its policy allows; any
   * of which a server speaks, if not given.
   */
  allowed?: readonly string[];
  tenant: string;
  session: string;
  token: string;
  name: string;
  /** Sends cameras in layers. */
  simulcast: boolean;
}

export interface Reaction {
  seq: number;
  from: MemberId;
  text: string;
}

/** What a page shows. A new object with every change. */
export interface View {
  phase: "joining" | "lobby" | "in" | "over";
  /** Why it is over. */
  bye?: Bye;
  /** Why there was no way in. */
  problem?: Problem;
  me?: MemberId;
  /** What the server's clock is ahead of this one, in milliseconds. */
  ahead: number;
  session?: Session;
  /** Whether the session server is there, and the media of the broker. */
  line: boolean;
  media: boolean;
  own: Record<Sent, OwnState>;
  received: ReadonlyMap<MemberId, Received>;
  quality: ReadonlyMap<MemberId, Quality>;
  speaking: ReadonlySet<MemberId>;
  speaker?: MemberId;
  reactions: readonly Reaction[];
  /** The floor that was refused last, and why. */
  refused?: { medium: Sent; problem: Problem };
}

export class Meeting {
  #view: View;
  #listeners = new Set<() => void>();
  #brokers: Brokers;
  #signalling: Signalling;
  #own: Own;
  #others: Others;
  #watch: Watch;
  #speakers = new Speakers();
  /** When the sound of each came last: the browser's time of it, and ours when that was new. */
  #sounds = new WeakMap<Peer, { stamp: number; at: number }>();
  /** How good each connection was when it was judged last. */
  #judged = new WeakMap<Peer, Quality>();
  #boards = new Set<Board>();
  #pass: MediaPass | undefined;
  #timer: ReturnType<typeof setInterval>;

  constructor(options: JoinOptions) {
    const own = { audio: "off", video: "off", screen: "off" } as const;
    this.#view = {
      phase: "joining", ahead: 0, line: false, media: true, own, received: new Map(), quality: new Map(),
      speaking: new Set(), reactions: [],
    };
    this.#brokers = new Brokers(options.brokers);
    this.#own = new Own({
      ask: (command) => this.ask(command),
      changed: () => this.#refresh(),
      refused: (medium, problem) => this.#refused(medium, problem),
      lost: () => void this.#watch.doubt(),
    }, options.simulcast);
    this.#others = new Others({
      changed: () => this.#refresh(),
      lost: () => void this.#watch.doubt(),
    });
    this.#watch = new Watch(this.#brokers, {
      peers: () => this.#peers(),
      moved: () => this.#move(),
      interrupted: (now) => this.#change({ media: !now }),
      quality: (peer, quality) => this.#judge(peer, quality),
    });
    const { tenant, session, token, name, allowed } = options;
    this.#signalling = new Signalling(
      {
        servers: this.#brokers.all, ...(allowed ? { allowed } : {}), tenant, session, token, name,
        capabilities: ["page"],
      },
      {
        frame: (frame) => this.#take(frame),
        line: (up) => this.#lined(up),
        failed: (problem) => this.#end({ problem }),
      },
    );
    this.#timer = setInterval(() => this.#listen(), LISTEN_MS);
  }

  get view(): View {
    return this.#view;
  }

  /** Calls back on every change, until what it returns is called. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Asks the session server; rejects with a `Problem`. */
  ask(command: Command): Promise<void> {
    return this.#signalling.ask(command);
  }

  /** The recordings of this session, the oldest first; rejects with a `Problem`. */
  recordings(): Promise<Recording[]> {
    return this.#signalling.recordings();
  }

  /**
   * Sends these tracks; none gives the floor back. The meeting stops them when it has no more use for
   * them: when others take their place, a chair takes the floor, or it is over.
   */
  send(medium: Sent, tracks: readonly MediaStreamTrack[]): void {
    this.#own.set(medium, tracks);
  }

  /** What this member sends. */
  sends(medium: Sent): readonly MediaStreamTrack[] {
    return this.#own.tracks(medium);
  }

  /**
   * Opens the whiteboard of this member's room, or of the recording that is watched there; it goes on
   * through another broker, too.
   */
  board(events: BoardEvents, turn?: Turn): Board {
    const board = new Board(events, () => this.#boards.delete(board), turn);
    this.#boards.add(board);
    // Not before whoever asked has it.
    queueMicrotask(() => this.#lead(board));
    return board;
  }

  /**
   * Tells how high a member's picture is shown, in pixels of the screen; 0 while it is not. Nothing is
   * sent that is not shown, and no higher layer than that needs.
   */
  show(member: MemberId, medium: Shown, height: number): void {
    this.#others.show(member, medium, height);
  }

  /** The broker that media go through. */
  get broker(): string {
    return this.#brokers.current;
  }

  /** The connection that brings a member, for its statistics. */
  connection(member: MemberId): RTCPeerConnection | undefined {
    return this.#others.players().get(member)?.pc;
  }

  /** Leaves for good. */
  async leave(): Promise<void> {
    if (this.#view.phase === "over") return;
    // No lamp waits for a server's answer.
    this.#own.close();
    await this.ask({ do: "leave" }).catch(() => undefined);
    this.#end({ bye: "left" });
  }

  #take(frame: Frame): void {
    switch (frame.type) {
      case "welcome":
        this.#change({ me: frame.member, ahead: frame.now_ms - Date.now() });
        break;
      case "media":
        this.#pass = frame;
        this.#change({ phase: "in" });
        this.#follow();
        break;
      case "lobby":
        this.#change({ phase: "lobby" });
        break;
      case "state":
        this.#change({ session: frame.session });
        this.#follow();
        break;
      case "events":
        this.#happened(frame);
        break;
      case "bye":
        this.#end({ bye: frame.why });
        break;
      default:
    }
  }

  #happened(frame: Extract<Frame, { type: "events" }>): void {
    const session = this.#view.session;
    if (!session) return;
    for (const event of frame.events) {
      if (event.event === "reacted" && event.seq > session.seq) {
        const { seq, from, text } = event;
        this.#react({ seq, from, text });
      }
    }
    this.#change({ session: frame.events.reduce(fold, session) });
    this.#follow();
  }

  #refused(medium: Sent, problem: Problem): void {
    const refused = { medium, problem };
    this.#change({ refused });
    setTimeout(() => {
      if (this.#view.refused !== refused) return;
      const { refused: _told, ...rest } = this.#view;
      this.#view = rest;
      this.#change({});
    }, REFUSED_MS);
  }

  #react(reaction: Reaction): void {
    this.#change({ reactions: [...this.#view.reactions, reaction].slice(-REACTIONS_MAX) });
    setTimeout(() => {
      const left = this.#view.reactions.filter((one) => one.seq !== reaction.seq);
      this.#change({ reactions: left });
    }, REACTION_MS);
  }

  #lined(up: boolean): void {
    this.#change({ line: up });
    if (up) this.#own.settle();
  }

  #door(): Door | undefined {
    if (!this.#pass || this.#view.phase !== "in") return undefined;
    return { origin: this.#brokers.current, token: this.#pass.token };
  }

  #follow(): void {
    const { session, me } = this.#view;
    this.#own.follow(session, me, this.#door());
    this.#others.follow(session, me, this.#door());
    for (const board of this.#boards) this.#lead(board);
  }

  #lead(board: Board): void {
    const { session, me } = this.#view;
    const room = session?.members?.find((one) => one.id === me)?.room;
    const here = session?.state === "activated" && room !== undefined;
    board.follow(here ? `${session.tenant}/${session.name}/${room}/${me}` : undefined, this.#door());
  }

  /** Makes every connection anew, with the broker that is in use now. */
  #move(): void {
    this.#own.drop();
    this.#others.drop();
    this.#signalling.hurry();
    this.#follow();
  }

  #peers(): Peer[] {
    return [...this.#own.publishers(), ...this.#others.players().values()];
  }

  #judge(peer: Peer, quality: Quality): void {
    this.#judged.set(peer, quality);
    const all = new Map<MemberId, Quality>();
    const own = worst(this.#own.sending().map((one) => this.#judged.get(one)));
    if (own && this.#view.me !== undefined) all.set(this.#view.me, own);
    for (const [member, player] of this.#others.players()) {
      const judged = this.#judged.get(player);
      if (judged) all.set(member, judged);
    }
    const known = this.#view.quality;
    const same = all.size === known.size && [...all].every(([member, one]) => known.get(member) === one);
    if (!same) this.#change({ quality: all });
  }

  #listen(): void {
    const now = performance.now();
    const levels = new Map<MemberId, number>();
    for (const [member, player] of this.#others.players()) {
      const track = player.received.audio;
      const receiver = player.pc.getReceivers().find((one) => one.track === track);
      const { audioLevel = 0, timestamp: stamp = 0 } = receiver?.getSynchronizationSources()[0] ?? {};
      // Browsers go on telling the level of who was switched off for ten seconds.
      const before = this.#sounds.get(player);
      const at = before?.stamp === stamp ? before.at : now;
      this.#sounds.set(player, { stamp, at });
      levels.set(member, now - at < SILENT_MS ? audioLevel : 0);
    }
    if (!this.#speakers.hear(now, levels)) return;
    const { speaking, main } = this.#speakers;
    this.#change(main === undefined ? { speaking } : { speaking, speaker: main });
  }

  /** Takes over what `Own` and `Others` have, if it is different. */
  #refresh(): void {
    const own = {
      audio: this.#own.state("audio"),
      video: this.#own.state("video"),
      screen: this.#own.state("screen"),
    };
    const players = [...this.#others.players()];
    const received = new Map(players.map(([member, player]) => [member, player.received]));
    const known = this.#view.received;
    const sameOwn = (["audio", "video", "screen"] as const)
      .every((medium) => own[medium] === this.#view.own[medium]);
    const sameOthers = received.size === known.size
      && [...received].every(([member, one]) => known.get(member) === one);
    if (!sameOwn || !sameOthers) this.#change({ own, received });
  }

  #end(why: { bye: Bye } | { problem: Problem }): void {
    if (this.#view.phase === "over") return;
    clearInterval(this.#timer);
    this.#watch.stop();
    this.#own.close();
    this.#others.close();
    for (const board of this.#boards) board.close();
    this.#signalling.close();
    this.#change({ phase: "over", ...why });
  }

  #change(part: Partial<View>): void {
    this.#view = { ...this.#view, ...part };
    for (const listener of this.#listeners) listener();
  }
}
