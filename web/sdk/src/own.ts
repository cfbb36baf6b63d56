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
  failed: boolean;
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

  constructor(events: OwnEvents, simulcast: boolean) {
    this.#events = events;
    this.#simulcast = simulcast;
    const none = (): One => ({
      tracks: [], asked: false, held: undefined, publisher: undefined, failed: false,
    });
    this.#all = { audio: none(), video: none(), screen: none() };
  }

  /** What is to be sent of a medium; nothing gives the floor back. */
  set(medium: Sent, tracks: readonly MediaStreamTrack[]): void {
    const one = this.#all[medium];
    one.tracks = tracks;
    one.asked = false;
    this.settle();
  }

  tracks(medium: Sent): readonly MediaStreamTrack[] {
    return this.#all[medium].tracks;
  }

  publishers(): Publisher[] {
    return SENT.flatMap((medium) => this.#all[medium].publisher ?? []);
  }

  state(medium: Sent): OwnState {
    if (this.#me === undefined || this.#is("muted", medium)) return "muted";
    if (this.#all[medium].tracks.length === 0) return "off";
    return holds(this.#session, this.#me, medium) ? "on" : "waiting";
  }

  /** The session or the way to the broker changed. */
  follow(session: Session | undefined, me: MemberId | undefined, door: Door | undefined): void {
    // A new place in the session has other topics.
    if (me !== this.#me) this.drop();
    [this.#session, this.#me, this.#door] = [session, me, door];
    for (const publisher of this.publishers()) {
      if (door && publisher.door.origin === door.origin) {
        void publisher.renew(door.token).catch(() => undefined);
      }
    }
    this.settle();
  }

  /** Lets all connections go; those that are wanted are made anew. */
  drop(): void {
    for (const medium of SENT) this.#end(this.#all[medium]);
  }

  /** Does what follows from what is wanted and what is held. */
  settle(): void {
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
    const room = this.#session?.members?.find((member) => member.id === me)?.room;
    if (me === undefined || room === undefined || this.#session?.state !== "activated") {
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
      one.asked = true;
      void this.#events.ask({ do: "release", medium }).catch(() => undefined);
    }
    if (held && wanted) this.#publish(medium, one, room);
    else if (medium === "screen" && !wanted) this.#end(one);
    else this.#quiet(one);
  }

  #request(medium: Sent, one: One): void {
    one.asked = true;
    this.#events.ask({ do: "request", medium }).catch((problem: Problem) => {
      if (problem.code === "line") {
        one.asked = false;
        return;
      }
      this.#stop(one);
      this.#events.refused(medium, problem);
      this.#events.changed();
    });
  }

  #stop(one: One): void {
    for (const track of one.tracks) track.stop();
    one.tracks = [];
  }

  #quiet(one: One): void {
    void one.publisher?.send([]).catch(() => undefined);
  }

  #publish(medium: Sent, one: One, room: string): void {
    const door = this.#door;
    if (!door || one.failed) return;
    if (one.publisher && one.publisher.state === "lost") this.#end(one);
    if (!one.publisher) {
      const topic = `${this.#session?.tenant}/${this.#session?.name}/${room}/${medium}/${this.#me}`;
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
      publisher.publish(topic).catch(() => this.#failed(one, publisher));
    }
    void one.publisher.send(one.tracks).catch(() => undefined);
  }

  #failed(one: One, publisher: Publisher): void {
    if (one.publisher !== publisher) return;
    this.#end(one);
    one.failed = true;
    this.#events.lost();
    setTimeout(() => {
      one.failed = false;
      this.settle();
    }, AGAIN_MS);
  }

  #end(one: One): void {
    one.publisher?.close();
    one.publisher = undefined;
  }
}
