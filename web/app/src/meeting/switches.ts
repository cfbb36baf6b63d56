/** Switches devices on and off, where opening one takes its time and wishes change meanwhile. */

import type { Meeting, Sent } from "@sangam/sdk";

export type Open = () => Promise<MediaStreamTrack[]>;

export class Switches {
  #meeting: Pick<Meeting, "send" | "sends">;
  /** What is being opened; a newer wish takes the place of an older one. */
  #wishes = new Map<Sent, symbol>();

  constructor(meeting: Pick<Meeting, "send" | "sends">) {
    this.#meeting = meeting;
  }

  /** On, or off; off as well while it is still being opened. */
  async turn(medium: Sent, open: Open): Promise<void> {
    const opening = this.#wishes.delete(medium);
    if (this.#sends(medium)) this.#meeting.send(medium, []);
    else if (!opening) await this.#open(medium, open);
  }

  /** Another device or quality for what is on, or about to be. */
  async replace(medium: Sent, open: Open): Promise<void> {
    if (this.#sends(medium) || this.#wishes.has(medium)) await this.#open(medium, open);
  }

  /** What was sent has ended by itself, as by the browser's own button. */
  ended(medium: Sent, track: MediaStreamTrack): void {
    if (this.#meeting.sends(medium).includes(track)) this.#meeting.send(medium, []);
  }

  #sends(medium: Sent): boolean {
    return this.#meeting.sends(medium).length > 0;
  }

  async #open(medium: Sent, open: Open): Promise<void> {
    const wish = Symbol();
    const before = this.#sends(medium);
    this.#wishes.set(medium, wish);
    try {
      const tracks = await open();
      // A chair may have taken the floor meanwhile: nobody is heard by surprise.
      const wanted = this.#wishes.get(medium) === wish && this.#sends(medium) === before;
      if (wanted) this.#meeting.send(medium, tracks);
      else for (const track of tracks) track.stop();
    } finally {
      if (this.#wishes.get(medium) === wish) this.#wishes.delete(medium);
    }
  }
}
