/** What this member sends: asks for floors, publishes while it holds them, and stops when not. */

import { floorOf, holds } from "./fold.ts";
import type { Door } from "./peer.ts";
import { Publisher } from "./publisher.ts";
import type { Command, MemberId, Medium, Problem, Session } from "./protocol.ts";

export type Sent = Exclude<Medium, "board">;
export const SENT: readonly Sent[] = ["audio", "video", "screen"];

/** `waiting`: for the floor. `muted`: a chair has taken it. */
export type OwnState = "off" | "waiting" | "on" | "muted";

/** How long before a connection that failed is tried again. */
const AGAIN_MS = 700;

interface One {
  tracks: readonly MediaStreamTrack[];
  asked: boolean;
  /** In which room the floor was held when this was looked at last. */
  held: string | undefined;
  publisher: Publisher | undefined;
  /** Runs after a connection failed, until it is tried again. */
  again: ReturnType<typeof setTimeout> | undefined;
}

export interface OwnEvents {
  ask(command: Command): Promise<void>;
  /** Something changed here. */
  changed(): void;
  /** A floor was refused, or something else a person should know. */
  refused(medium: Sent, problem: Problem): void;
  /** A connection was lost; somebody should look which broker to go on with. */
  lost(): void;
}

export class Own {
  #events: OwnEvents;
  #simulcast: boolean;
  #all: Record<Sent, One>;
  #session: Session | undefined;
  #me: MemberId | undefined;
  #door: Door | undefined;
  #closed = false;

  constructor(events: OwnEvents, simulcast: boolean) {
    this.#events = events;
    this.#simulcast = simulcast;
    const none = (): One => ({
      tracks: [], asked: false, held: undefined, publisher: undefined, again: undefined,
    });
    this.#all = { audio: none(), video: none(), screen: none() };
  }

  /**
   * What is to be sent of a medium; nothing gives the floor back. Tracks are this one's from now on:
   * those that are sent no more are stopped.
   */
  set(medium: Sent, tracks: readonly MediaStreamTrack[]): void {
    const one = this.#all[medium];
    for (const track of one.tracks) if (!tracks.includes(track)) track.stop();
    one.tracks = tracks;
    one.asked = false;
    // A device that opened too late.
    if (this.#closed) this.#stop(one);
    this.settle();
  }

  tracks(medium: Sent): readonly MediaStreamTrack[] {
    return this.#all[medium].tracks;
  }

  publishers(): Publisher[] {
    return SENT.flatMap((medium) => this.#all[medium].publisher ?? []);
  }

  /** Those that have something to send. */
  sending(): Publisher[] {
    return SENT.flatMap((medium) => {
      const { tracks, publisher } = this.#all[medium];
      return tracks.length > 0 && publisher ? publisher : [];
    });
  }

  state(medium: Sent): OwnState {
    if (this.#me === undefined || this.#is("muted", medium)) return "muted";
    if (this.#all[medium].tracks.length === 0) return "off";
    return holds(this.#session, this.#me, medium) ? "on" : "waiting";
  }

  /** The session or the way to the broker changed. */
  follow(session: Session | undefined, me: MemberId | undefined, door: Door | undefined): void {
    [this.#session, this.#me, this.#door] = [session, me, door];
    for (const publisher of this.publishers()) {
      if (door && publisher.door.origin === door.origin) {
        publisher.renew(door.token);
      }
    }
    this.settle();
  }

  /** Lets all connections go; those that are wanted are made anew. */
  drop(): void {
    for (const medium of SENT) this.#end(this.#all[medium]);
  }

  /** It is over: devices are let go, and no connection is made from now on. */
  close(): void {
    this.#closed = true;
    for (const medium of SENT) {
      const one = this.#all[medium];
      clearTimeout(one.again);
      this.#end(one);
      this.#stop(one);
    }
  }

  /** Does what follows from what is wanted and what is held. */
  settle(): void {
    if (this.#closed) return;
    for (const medium of SENT) this.#settle(medium);
    this.#events.changed();
  }

  #is(what: "muted", medium: Sent): boolean {
    const me = this.#session?.members?.find((one) => one.id === this.#me);
    return me?.[what].includes(medium) ?? false;
  }

  #settle(medium: Sent): void {
    const one = this.#all[medium];
    const me = this.#me;
    const active = this.#session?.state === "activated";
    const room = active ? this.#session?.members?.find((member) => member.id === me)?.room : undefined;
    const topic = `${this.#session?.tenant}/${this.#session?.name}/${room}/${medium}/${me}`;
    // Another room has other topics; in the lobby, and while the session rests, there are none.
    if (room === undefined || one.publisher?.topic !== topic) this.#end(one);
    if (me === undefined || room === undefined) {
      // What was sent is asked for again when it goes on.
      [one.held, one.asked] = [undefined, false];
      return;
    }
    const floor = floorOf(this.#session, room, medium);
    const held = holds(this.#session, me, medium);
    const wanted = one.tracks.length > 0;
    if (wanted && this.#is("muted", medium)) {
      // Whoever is given the word again switches on by hand: nobody is heard by surprise.
      this.#stop(one);
      this.#quiet(one);
      return;
    }
    const waits = floor?.queue.includes(me) ?? false;
    const before = one.held;
    one.held = held ? room : undefined;
    if (before !== undefined && before !== room) one.asked = false;
    if (wanted && before === room && !held && !waits) {
      this.#stop(one);
      this.#quiet(one);
      this.#events.refused(medium, { code: "over", error: "the floor was taken" });
      return;
    }
    if (wanted && !held && !waits && !one.asked) this.#request(medium, one);
    if (!wanted && (waits || (held && floor?.mode === "free")) && !one.asked) {
      this.#release(medium, one);
    }
    if (held && wanted) this.#publish(medium, one, topic);
    else if (medium === "screen" && !wanted) this.#end(one);
    else this.#quiet(one);
  }

  #request(medium: Sent, one: One): void {
    one.asked = true;
    const { tracks } = one;
    this.#events.ask({ do: "request", medium }).catch((problem: Problem) => {
      // Something else is wanted by now.
      if (one.tracks !== tracks) return;
      if (problem.code === "line") {
        one.asked = false;
        return;
      }
      this.#stop(one);
      this.#events.refused(medium, problem);
      this.#events.changed();
    });
  }

  #release(medium: Sent, one: One): void {
    one.asked = true;
    const { tracks } = one;
    this.#events.ask({ do: "release", medium }).catch(() => {
      // It is asked for again with the next change, such as a line that is back.
      if (one.tracks === tracks) one.asked = false;
    });
  }

  #stop(one: One): void {
    for (const track of one.tracks) track.stop();
    one.tracks = [];
  }

  #quiet(one: One): void {
    void one.publisher?.send([]).catch(() => undefined);
  }

  #publish(medium: Sent, one: One, topic: string): void {
    const door = this.#door;
    if (!door || one.again !== undefined) return;
    if (one.publisher && one.publisher.state === "lost") this.#end(one);
    if (!one.publisher) {
      const options = {
        topic,
        audio: medium === "audio" || one.tracks.some((track) => track.kind === "audio"),
        video: medium !== "audio",
        simulcast: medium === "video" && this.#simulcast,
      };
      const publisher = new Publisher(door, options);
      one.publisher = publisher;
      publisher.onstate = () => {
        if (publisher.state === "lost") this.#events.lost();
        this.#events.changed();
      };
      publisher.publish().catch(() => this.#failed(one, publisher));
    }
    void one.publisher.send(one.tracks).catch(() => undefined);
  }

  #failed(one: One, publisher: Publisher): void {
    if (one.publisher !== publisher) return;
    this.#end(one);
    one.again = setTimeout(() => {
      one.again = undefined;
      this.settle();
    }, AGAIN_MS);
    this.#events.lost();
  }

  #end(one: One): void {
    one.publisher?.close();
    one.publisher = undefined;
  }
}
