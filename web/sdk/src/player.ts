/** Receives everything that one member sends: sound, picture, screen and its sound. */

import { classOf, Heights, HIGHEST, type Height } from "./heights.ts";
import { Peer, PeerError, redundant, type Door } from "./peer.ts";
import type { Medium } from "./protocol.ts";
import { path } from "./publisher.ts";

/** What is received of a member. */
export interface Received {
  audio?: MediaStreamTrack;
  video?: MediaStreamTrack;
  screen?: MediaStreamTrack;
  screenAudio?: MediaStreamTrack;
}

/** Between two looks at what plays where, and how many there are. */
const LOOK_MS = 300;
const LOOKS = 40;
/** After a change of what is shown how, until the broker is told; and until it is tried again. */
const TELL_MS = 300;
const TELL_AGAIN_MS = 2_000;

/** What has a picture. */
export type Shown = "video" | "screen";

export class Player extends Peer {
  received: Received = {};
  /** Where it plays, once it does. */
  room: string | undefined;
  #wanted: ReadonlySet<Medium> = new Set();
  /** A new one ends the looks of those before. */
  #round = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Packets that came in each place, and at which look there were more than before. */
  #places = new Map<string, { packets: number; grew: number }>();
  #noticed = 0;
  #shown = new Map<Shown, number>();
  #heights = new Heights();
  #telling: ReturnType<typeof setTimeout> | undefined;

  constructor(door: Door) {
    super(door);
    // A microphone and a screen's sound, a camera and a screen.
    for (const kind of ["audio", "audio", "video", "video"] as const) {
      const transceiver = this.pc.addTransceiver(kind, { direction: "recvonly" });
      if (kind === "audio") redundant(transceiver);
    }
  }

  /** Plays whatever is published by `member` in a room, such as `acme/weekly/main`. */
  async play(room: string, member: string): Promise<void> {
    this.room = room;
    await this.offer(`/v1/whep/${path(`${room}/+/${member}`)}`);
    this.look();
  }

  /** A picture is shown so high, in pixels; 0 if it is not. */
  show(medium: Shown, height: number): void {
    this.#shown.set(medium, classOf(height));
    this.#tellIn(TELL_MS);
  }

  /** Which media are to be found; the broker is asked until they are, or it takes too long. */
  expect(media: ReadonlySet<Medium>): void {
    const same = media.size === this.#wanted.size && [...media].every((one) => this.#wanted.has(one));
    this.#wanted = media;
    if (same) return;
    this.look();
    this.#tellIn(TELL_MS);
  }

  /**
   * A member that came back by another broker plays in another place, while the broker still
   * believes in the old one: packets where none were expected tell.
   */
  override notice(report: RTCStatsReport): void {
    this.#noticed += 1;
    const known = this.#known();
    let strange = false;
    for (const stat of report.values()) {
      if (stat.type !== "inbound-rtp" || typeof stat.mid !== "string") continue;
      const packets = Number(stat.packetsReceived);
      const before = this.#places.get(stat.mid);
      const grew = packets > (before?.packets ?? 0) ? this.#noticed : (before?.grew ?? 0);
      this.#places.set(stat.mid, { packets, grew });
      const track = this.#track(stat.mid);
      if (grew === this.#noticed && track && !known.has(track)) strange = true;
    }
    if (strange) this.look();
  }

  /** What plays where it should: the place of a screen that has ended is free for anything. */
  #known(): ReadonlySet<MediaStreamTrack | undefined> {
    const { audio, video, screen, screenAudio } = this.received;
    const of = { audio: [audio], video: [video], screen: [screen, screenAudio], board: [] };
    return new Set([...this.#wanted].flatMap((medium) => of[medium]));
  }

  /** Looks again what plays where. */
  look(): void {
    clearTimeout(this.#timer);
    this.#round += 1;
    this.#look(this.#round, 1);
  }

  override close(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#telling);
    super.close();
  }

  #look(round: number, look: number): void {
    if (this.closed) return;
    this.describe()
      .then(({ plays }) => this.#found(plays))
      .catch(() => undefined)
      .finally(() => {
        const missing = [...this.#wanted].some((one) => one !== "board" && !this.received[one]);
        if (missing && look < LOOKS && round === this.#round && !this.closed) {
          this.#timer = setTimeout(() => this.#look(round, look + 1), LOOK_MS);
        }
      });
  }

  #tellIn(ms: number): void {
    clearTimeout(this.#telling);
    if (!this.closed) this.#telling = setTimeout(() => void this.#tell(), ms);
  }

  async #tell(): Promise<void> {
    const shown = [...this.#shown].filter(([medium]) => this.#wanted.has(medium));
    const now = shown.map(([medium, height]) => ({ mid: this.#mid(medium), height }));
    const known = now.filter((one): one is Height => one.mid !== null);
    const news = this.#heights.news([...known, ...this.#free(known)]);
    if (news.length === 0) return;
    try {
      await this.tell(news);
      this.#heights.told(news);
    } catch (error) {
      // What the broker refused, it would refuse again.
      const refused = error instanceof PeerError && error.status >= 400 && error.status < 429;
      if (!refused) this.#tellIn(TELL_AGAIN_MS);
    }
  }

  /**
   * Places that were hidden and in which nothing is wanted any more, such as that of a screen that has
   * ended: whatever plays there next has to come, as it is found by its packets.
   */
  #free(known: readonly Height[]): Height[] {
    const mids = this.pc.getTransceivers().flatMap(({ mid }) => mid ?? []);
    const hidden = mids.filter((mid) =>
      this.#heights.isHidden(mid) && !known.some((one) => one.mid === mid));
    return hidden.map((mid) => ({ mid, height: HIGHEST }));
  }

  #mid(medium: Shown): string | null {
    const track = this.received[medium];
    const place = track && this.pc.getTransceivers().find((one) => one.receiver.track === track);
    return place?.mid ?? null;
  }

  #track(mid: string): MediaStreamTrack | undefined {
    return this.pc.getTransceivers().find((one) => one.mid === mid)?.receiver.track;
  }

  #found(plays: { mid: string; topic: string | null }[]): void {
    const found: Received = {};
    const grew = (mid: string) => this.#places.get(mid)?.grew ?? 0;
    // Of two places with the same topic, the one in which something moves comes last, and stays.
    for (const { mid, topic } of plays.sort((a, b) => grew(a.mid) - grew(b.mid))) {
      const medium = topic?.split("/")[3];
      const track = this.#track(mid);
      if (!track) continue;
      if (medium === "audio" || medium === "video") found[medium] = track;
      if (medium === "screen") found[track.kind === "video" ? "screen" : "screenAudio"] = track;
    }
    const keys = ["audio", "video", "screen", "screenAudio"] as const;
    if (keys.every((key) => found[key] === this.received[key])) return;
    this.received = found;
    this.#tellIn(TELL_MS);
    this.onstate?.();
  }
}
