/**
 * The board that all share: a Yjs map of shapes by id, whose changes travel as events of the
 * room's reliable topic. Topics forget what is old, so that one of those who draw writes down the
 * whole state from time to time.
 */

import * as Y from "yjs";
import { ELEMENT_MAX, keep, newer, read, type Kept, type Shape } from "./element";
import { BOARD_EVENT_MAX } from "@sangam/sdk";

/** Shapes of a board, and bytes of them all: the whole state has to fit into what a topic keeps. */
export const ELEMENTS_MAX = 2_000;
export const BYTES_MAX = 400_000;
/** Bytes of a state that is told; of one that is taken from others, be it ever so odd. */
const STATE_MAX = 700_000;
const TAKEN_MAX = 4_000_000;
/** Larger events of others are not taken while there is too much. */
const SMALL = 1_024;

/** Shapes whose end is remembered. */
const GONE_MAX = 20_000;

/** Version, kind, sender, number, and which piece of how many. */
const HEADER = 14;
const VERSION = 1;
const CHANGE = 1;
const STATE = 2;
const PIECE_MAX = BOARD_EVENT_MAX - HEADER;
const PIECES_MAX = 16;
/** Senders whose pieces are put together at once. */
const SENDERS_MAX = 64;
/** A topic keeps 1,000 records of 800 bytes: before half of them are changes, the state is told. */
const RECORD = 800;
const RECORDS_MAX = 250;
/** How much longer each further member waits for those before it to do so. */
const RECORDS_MORE = 60;
/** And again before an hour has passed, for which topics keep anything at all. */
const STALE_MS = 15 * 60_000;
const STALE_MORE_MS = 60_000;
/** What hangs on something that never came is forgotten after this. */
const GAP_MS = 60_000;
/** Waits between attempts to tell what could not be sent, each twice the one before. */
const OWES_MS = 1_000;
const OWES_MAX_MS = 32_000;
/** Bytes of an update without anything in it. */
const EMPTY = 2;

/** What this needs of a line to the broker. */
export interface Line {
  send(event: Uint8Array<ArrayBuffer>): boolean;
  full(): void;
}

export interface SharedEvents {
  /** Others have changed something. */
  changed(): void;
  /** Something did not fit; here, or of others. */
  full(): void;
}

export class Shared {
  #doc = new Y.Doc();
  #map = this.#doc.getMap<unknown>("elements");
  #events: SharedEvents;
  #line: Line | undefined;
  #sender = crypto.getRandomValues(new Uint32Array(1))[0] ?? 1;
  #number = 0;
  /** Numbers of what was sent and has not come back. */
  #sent = new Set<number>();
  #owes = false;
  /** When what is owed is told again, and how long that is after the last attempt. */
  #again = 0;
  #wait = 0;
  /** Since when something hangs on what has not come. */
  #gap: number | undefined;
  #live = false;
  #pieces = new Map<number, Uint8Array[]>();
  /** Bytes of each shape, and of all. */
  #sizes = new Map<string, number>();
  #bytes = 0;
  #read = new Map<string, { kept: unknown; shape: Shape | undefined }>();
  /** Shapes that were shared once, and are no more. */
  #gone = new Set<string>();
  /** Bytes taken from others since the state was weighed. */
  #taken = 0;
  /** Records since the state was told, and when that was. */
  #records = 0;
  #told: number;
  #now: () => number;

  constructor(events: SharedEvents, now: () => number = () => performance.now()) {
    this.#events = events;
    this.#now = now;
    this.#told = now();
    this.#doc.on("update", (update: Uint8Array, origin: unknown) => {
      if (origin === this) this.#publish(CHANGE, update);
    });
    this.#map.observe((event) => {
      for (const id of event.keysChanged) this.#weigh(id);
      if (event.transaction.origin !== this) this.#events.changed();
    });
  }

  /** Where events go from now on. */
  attach(line: Line): void {
    this.#line = line;
  }

  /** Shapes that are there, at most as many as fit. */
  shapes(): Shape[] {
    const shapes: Shape[] = [];
    for (const [id, kept] of this.#map.entries()) {
      let known = this.#read.get(id);
      if (!known || known.kept !== kept) {
        known = { kept, shape: read(id, kept) };
        this.#read.set(id, known);
      }
      if (known.shape) shapes.push(known.shape);
      if (shapes.length >= ELEMENTS_MAX) break;
    }
    return shapes;
  }

  /** Whether there is more than fits, as others took no notice of what does. */
  get crowded(): boolean {
    return this.#sizes.size > ELEMENTS_MAX || this.#bytes > 2 * BYTES_MAX;
  }

  /** Takes over what is newer here; false if some of it does not fit. */
  put(shapes: readonly Kept[]): boolean {
    let fits = true;
    this.#doc.transact(() => {
      for (const shape of shapes) fits = this.#put(shape) && fits;
    }, this);
    if (!fits) this.#refuse();
    return fits;
  }

  /** Whether a shape was shared and is no more. */
  knew(id: string): boolean {
    return this.#gone.has(id);
  }

  /** Something did not fit before it was even drawn. */
  tooMuch(): void {
    this.#line?.full();
  }

  /** An event came. */
  receive(event: Uint8Array): void {
    if (event.length < HEADER || event[0] !== VERSION) return;
    const view = new DataView(event.buffer, event.byteOffset, event.length);
    const [kind, sender, number] = [view.getUint8(1), view.getUint32(2), view.getUint32(6)];
    const [piece, pieces] = [view.getUint16(10), view.getUint16(12)];
    this.#records += Math.ceil(event.length / RECORD);
    const last = piece + 1 === pieces;
    if (sender === this.#sender) {
      if (last) this.#sent.delete(number);
      return;
    }
    const whole = this.#together(sender, [piece, pieces], event.subarray(HEADER));
    if (!whole) return;
    if (this.#take(whole) && kind === STATE && whole.length > EMPTY) this.#noted();
  }

  /** What was kept has come: what got lost on the way is told again. */
  live(): void {
    this.#live = true;
    if (this.#owes || this.#sent.size > 0) this.#tell();
  }

  /** The line is gone; what was sent and did not come back may be lost. */
  cut(): void {
    this.#live = false;
    this.#pieces.clear();
    this.#owes ||= this.#sent.size > 0;
  }

  /** Tells the whole state if it is time; of those who draw, `rank` are before this one. */
  tend(rank: number): void {
    if (!this.#live) return;
    this.#mend();
    if (this.#owes) return this.#settle();
    if (this.#sizes.size === 0) return;
    const many = this.#records > RECORDS_MAX + rank * RECORDS_MORE;
    const old = this.#now() - this.#told > STALE_MS + rank * STALE_MORE_MS;
    if (many || old) this.#tell();
  }

  close(): void {
    this.#doc.destroy();
  }

  #put(shape: Kept): boolean {
    const id = String(shape["id"]);
    const known = this.#map.get(id) as Kept | undefined;
    if (shape["isDeleted"] === true) {
      if (known && newer(shape, known)) this.#map.delete(id);
      return true;
    }
    if (!newer(shape, known)) return true;
    if (!known && (this.#sizes.size >= ELEMENTS_MAX || this.#bytes >= BYTES_MAX)) return false;
    const kept = keep(shape);
    if (!kept) return false;
    const size = weight(kept);
    const bytes = this.#bytes - (this.#sizes.get(id) ?? 0) + size;
    if (size > ELEMENT_MAX || bytes > BYTES_MAX) return false;
    this.#map.set(id, kept);
    this.#size(id, size);
    return true;
  }

  #weigh(id: string): void {
    const kept = this.#map.get(id);
    if (kept === undefined) {
      this.#read.delete(id);
      this.#gone.add(id);
      if (this.#gone.size > GONE_MAX) this.#gone.delete(this.#gone.values().next().value ?? "");
    } else {
      this.#gone.delete(id);
    }
    this.#size(id, kept === undefined ? 0 : weight(kept));
  }

  #size(id: string, size: number): void {
    this.#bytes += size - (this.#sizes.get(id) ?? 0);
    if (size === 0) this.#sizes.delete(id);
    else this.#sizes.set(id, size);
  }

  #together(sender: number, [piece, pieces]: [number, number], bytes: Uint8Array) {
    if (pieces === 0 || pieces > PIECES_MAX || piece >= pieces) return undefined;
    if (pieces === 1) return bytes;
    const known = piece === 0 ? [] : this.#pieces.get(sender);
    if (!known || known.length !== piece) {
      this.#pieces.delete(sender);
      return undefined;
    }
    known.push(bytes.slice());
    this.#pieces.set(sender, known);
    if (this.#pieces.size > SENDERS_MAX) this.#pieces.delete(this.#pieces.keys().next().value ?? 0);
    if (piece + 1 < pieces) return undefined;
    this.#pieces.delete(sender);
    const whole = new Uint8Array(known.reduce((sum, one) => sum + one.length, 0));
    known.reduce((at, one) => (whole.set(one, at), at + one.length), 0);
    return whole;
  }

  /** Whether all of an update is on the board now. */
  #take(update: Uint8Array): boolean {
    this.#taken += update.length;
    if (this.#taken > TAKEN_MAX) {
      this.#taken = Y.encodeStateAsUpdate(this.#doc).length + update.length;
      if (this.#taken > TAKEN_MAX && update.length > SMALL) {
        this.#refuse();
        return false;
      }
    }
    try {
      Y.applyUpdate(this.#doc, update, "line");
    } catch {
      // Whoever made that has a board of its own.
      this.#line?.full();
      return false;
    }
    return !this.#doc.store.pendingStructs;
  }

  /** Nobody tells while a gap is open, and who made it may never close it. */
  #mend(): void {
    const store = this.#doc.store;
    if (!store.pendingStructs) this.#gap = undefined;
    else if (this.#now() - (this.#gap ??= this.#now()) > GAP_MS) {
      store.pendingStructs = null;
      this.#gap = undefined;
    }
  }

  /** Tells what could not be sent; where no whole state passes, less and less often. */
  #settle(): void {
    if (this.#now() < this.#again) return;
    this.#tell();
    this.#wait = this.#owes ? Math.min(Math.max(2 * this.#wait, OWES_MS), OWES_MAX_MS) : 0;
    this.#again = this.#now() + this.#wait;
  }

  #refuse(): void {
    this.#line?.full();
    this.#events.full();
  }

  #tell(): void {
    const state = Y.encodeStateAsUpdate(this.#doc);
    // Others that have all of it may do so; a part would be worse than nothing.
    if (state.length > STATE_MAX || this.#doc.store.pendingStructs) return;
    this.#sent.clear();
    this.#owes = false;
    this.#noted();
    this.#publish(STATE, state);
  }

  #noted(): void {
    [this.#records, this.#told] = [0, this.#now()];
  }

  #publish(kind: number, bytes: Uint8Array): void {
    const pieces = Math.max(1, Math.ceil(bytes.length / PIECE_MAX));
    this.#number += 1;
    this.#sent.add(this.#number);
    for (let piece = 0; piece < pieces; piece++) {
      const part = bytes.subarray(piece * PIECE_MAX, (piece + 1) * PIECE_MAX);
      const event = new Uint8Array(HEADER + part.length);
      const view = new DataView(event.buffer);
      view.setUint8(0, VERSION);
      view.setUint8(1, kind);
      view.setUint32(2, this.#sender);
      view.setUint32(6, this.#number);
      view.setUint16(10, piece);
      view.setUint16(12, pieces);
      event.set(part, HEADER);
      if (!this.#line?.send(event)) {
        this.#owes = true;
        return;
      }
    }
  }
}

/** Bytes of a value of anybody; what cannot be written is as large as may be. */
function weight(value: unknown): number {
  try {
    return JSON.stringify(value)?.length ?? ELEMENT_MAX;
  } catch {
    return ELEMENT_MAX;
  }
}
