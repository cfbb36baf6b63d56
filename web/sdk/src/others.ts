/** What is received of the others: one player for each member that sends something. */

import { holds } from "./fold.ts";
import type { Door } from "./peer.ts";
import { Player, type Received, type Shown } from "./player.ts";
import { MEDIA, type MemberId, type Medium, type Session } from "./protocol.ts";

/** How long before a connection that failed is tried again. */
const AGAIN_MS = 700;
/** Members that are received at once; those who began to send first. */
const PLAYERS_MAX = 48;

export interface OthersEvents {
  changed(): void;
  /** A connection was lost; somebody should look which broker to go on with. */
  lost(): void;
}

export class Others {
  #events: OthersEvents;
  #players = new Map<MemberId, Player>();
  /** Those that failed, until they are tried again. */
  #failed = new Map<MemberId, ReturnType<typeof setTimeout>>();
  /** How high whose pictures are shown, for players that are made anew. */
  #shown = new Map<MemberId, Map<Shown, number>>();
  #closed = false;
  #session: Session | undefined;
  #me: MemberId | undefined;
  #door: Door | undefined;

  constructor(events: OthersEvents) {
    this.#events = events;
  }

  players(): ReadonlyMap<MemberId, Player> {
    return this.#players;
  }

  received(member: MemberId): Received {
    return this.#players.get(member)?.received ?? {};
  }

  /** A member's picture is shown so high, in pixels; 0 if it is not. */
  show(member: MemberId, medium: Shown, height: number): void {
    const player = this.#players.get(member);
    if (!player && height === 0) {
      this.#shown.delete(member);
      return;
    }
    const shown = this.#shown.get(member) ?? new Map<Shown, number>();
    this.#shown.set(member, shown.set(medium, height));
    player?.show(medium, height);
  }

  /** The session or the way to the broker changed. */
  follow(session: Session | undefined, me: MemberId | undefined, door: Door | undefined): void {
    [this.#session, this.#me, this.#door] = [session, me, door];
    for (const player of this.#players.values()) {
      if (door && player.door.origin === door.origin) {
        player.renew(door.token);
      }
    }
    this.settle();
  }

  /** Lets all connections go; those that are wanted are made anew. */
  drop(): void {
    for (const player of this.#players.values()) player.close();
    this.#players.clear();
  }

  /** It is over: no connection is made from now on. */
  close(): void {
    this.#closed = true;
    for (const timer of this.#failed.values()) clearTimeout(timer);
    this.#failed.clear();
    this.drop();
  }

  settle(): void {
    if (this.#closed) return;
    const room = this.#session?.members?.find((one) => one.id === this.#me)?.room;
    const near = (this.#session?.members ?? []).filter(
      (one) => room !== undefined && one.room === room && one.id !== this.#me,
    );
    const here = new Set(near.map((one) => one.id));
    const at = `${this.#session?.tenant}/${this.#session?.name}/${room}`;
    for (const [member, player] of this.#players) {
      if (!here.has(member) || player.room !== at || player.state === "lost") {
        player.close();
        this.#players.delete(member);
      }
    }
    for (const member of this.#shown.keys()) {
      if (!here.has(member)) this.#shown.delete(member);
    }
    for (const { id } of near) {
      const media = new Set(MEDIA.filter((medium) => holds(this.#session, id, medium)));
      media.delete("board");
      this.#receive(at, id, media);
    }
    this.#events.changed();
  }

  #receive(room: string, member: MemberId, media: ReadonlySet<Medium>): void {
    const known = this.#players.get(member);
    if (known) {
      known.expect(media);
      return;
    }
    const door = this.#door;
    if (!door || media.size === 0 || this.#failed.has(member)) return;
    if (this.#players.size >= PLAYERS_MAX) return;
    const player = new Player(door);
    this.#players.set(member, player);
    player.onstate = () => {
      if (player.state === "lost") this.#events.lost();
      this.#events.changed();
    };
    for (const [medium, height] of this.#shown.get(member) ?? []) player.show(medium, height);
    player.expect(media);
    player.play(room, member).catch(() => this.#fail(member, player));
  }

  #fail(member: MemberId, player: Player): void {
    if (this.#players.get(member) !== player) return;
    player.close();
    this.#players.delete(member);
    const again = () => {
      this.#failed.delete(member);
      this.settle();
    };
    this.#failed.set(member, setTimeout(again, AGAIN_MS));
    this.#events.lost();
  }
}
