import { beforeEach, expect, test } from "vitest";
import * as Y from "yjs";
import { keep, newer, read, type Kept } from "../src/board/element";
import { BYTES_MAX, ELEMENTS_MAX, Shared } from "../src/board/shared";

/** A room's topic: everybody hears everything, in order, and late comers what is kept. */
class Topic {
  kept: Uint8Array<ArrayBuffer>[] = [];
  cut = false;
  refused = 0;
  readers = new Set<Shared>();

  join(one: Shared): Shared {
    one.attach({
      send: (event) => {
        if (this.cut) return false;
        this.kept.push(event);
        for (const reader of this.readers) reader.receive(event);
        return true;
      },
      full: () => (this.refused += 1),
    });
    for (const event of this.kept) one.receive(event);
    this.readers.add(one);
    one.live();
    return one;
  }
}

let topic: Topic;
let now = 0;
let full = 0;

beforeEach(() => {
  topic = new Topic();
  [now, full] = [0, 0];
});

const shared = () => topic.join(new Shared({ changed: () => undefined, full: () => (full += 1) }, () => now));

function shape(id: string, version = 1, more: Kept = {}): Kept {
  return {
    id, type: "rectangle", x: 1, y: 2, width: 30, height: 40, angle: 0, strokeColor: "#1e1e1e", seed: 7,
    version, versionNonce: 100 - version, index: "a1", isDeleted: false, groupIds: [], link: null, ...more,
  };
}

const ids = (one: Shared) => one.shapes().map(({ id }) => id).sort();

test("what one draws the others see, and what one deletes is gone", () => {
  const [anna, bert] = [shared(), shared()];
  anna.put([shape("a"), shape("b")]);
  bert.put([shape("c")]);
  expect(ids(anna)).toEqual(["a", "b", "c"]);
  expect(ids(bert)).toEqual(["a", "b", "c"]);
  bert.put([shape("a", 2, { isDeleted: true })]);
  expect(ids(anna)).toEqual(["b", "c"]);
  expect([anna.knew("a"), anna.knew("b")]).toEqual([true, false]);
});

test("of two states the newer one stays, whoever comes last", () => {
  const [anna, bert] = [shared(), shared()];
  anna.put([shape("a", 5, { x: 50 })]);
  bert.put([shape("a", 4, { x: 40 })]);
  expect(anna.shapes()[0]?.["x"]).toBe(50);
  expect(bert.shapes()[0]?.["x"]).toBe(50);
  expect(newer({ version: 2, versionNonce: 1 }, { version: 2, versionNonce: 3 })).toBe(true);
});

test("whoever comes late has everything, though the topic has forgotten the beginning", () => {
  const anna = shared();
  for (let n = 0; n < 400; n++) {
    anna.put([shape(`s${n % 50}`, n + 1)]);
    anna.tend(0);
  }
  // As many records as a topic keeps, or fewer.
  topic.kept = topic.kept.slice(-300);
  expect(ids(shared())).toEqual(ids(anna));
});

test("the state is told by one, and by the next where that one is silent", () => {
  const [anna, bert] = [shared(), shared()];
  for (let n = 0; n < 260; n++) anna.put([shape("a", n + 1)]);
  const before = topic.kept.length;
  bert.tend(1);
  expect(topic.kept.length).toBe(before);
  anna.tend(0);
  expect(topic.kept.length).toBe(before + 1);
  now += 15 * 60_000 + 1;
  bert.tend(1);
  expect(topic.kept.length, "in time before it is forgotten").toBe(before + 1);
  anna.tend(0);
  expect(topic.kept.length).toBe(before + 2);
});

test("what was drawn while the line was cut is told when it is back", () => {
  const [anna, bert] = [shared(), shared()];
  topic.cut = true;
  anna.cut();
  anna.put([shape("a")]);
  expect(ids(bert)).toEqual([]);
  topic.cut = false;
  anna.live();
  expect(ids(bert)).toEqual(["a"]);
});

test("what the network had no room for is told soon, without a cut", () => {
  const [anna, bert] = [shared(), shared()];
  topic.cut = true;
  anna.put([shape("a")]);
  anna.tend(3);
  topic.cut = false;
  anna.tend(3);
  expect(ids(bert), "a moment later").toEqual([]);
  now += 1_000;
  anna.tend(3);
  expect(ids(bert)).toEqual(["a"]);
  const before = topic.kept.length;
  now += 60_000;
  anna.tend(3);
  expect(topic.kept.length, "once").toBe(before);
});

/** An event of a stranger, in one piece. */
function strange(kind: number, bytes: Uint8Array): Uint8Array {
  const event = new Uint8Array(14 + bytes.length);
  event.set([1, kind, 9, 9, 9, 9, 0, 0, 0, 1, 0, 0, 0, 1]);
  event.set(bytes, 14);
  return event;
}

test("a gap that nobody closes keeps the state from being told for a minute", () => {
  const anna = shared();
  const changes: Uint8Array[] = [];
  const doc = new Y.Doc();
  doc.on("update", (bytes: Uint8Array) => changes.push(bytes));
  for (let n = 0; n < 2; n++) doc.getMap("elements").set("g", n);
  anna.receive(strange(1, changes[1] ?? new Uint8Array()));
  for (let n = 0; n < 260; n++) anna.put([shape("a", n + 1)]);
  const told = () => topic.kept.filter((event) => event[1] === 2).length;
  for (const [ms, states] of [[0, 0], [59_000, 0], [2_000, 1], [1_000, 1]] as const) {
    now += ms;
    anna.tend(0);
    expect(told()).toBe(states);
  }
  expect(ids(shared())).toEqual(["a"]);
});

test("a state that is none does not count as told", () => {
  const anna = shared();
  for (let n = 0; n < 260; n++) anna.put([shape("a", n + 1)]);
  const before = topic.kept.length;
  for (const bytes of [[0, 0], [], [7, 7, 7]]) anna.receive(strange(2, Uint8Array.from(bytes)));
  anna.tend(0);
  expect(topic.kept.length).toBe(before + 1);
});

test("large changes travel in pieces", () => {
  const [anna, bert] = [shared(), shared()];
  const text = "x".repeat(5_000);
  const shapes = Array.from({ length: 50 }, (_, n) =>
    shape(`t${n}`, 1, { type: "text", text, originalText: "t" }));
  expect(anna.put(shapes)).toBe(true);
  expect(topic.kept.length).toBeGreaterThan(3);
  expect(topic.kept.every((event) => event.length <= 65_536)).toBe(true);
  expect(ids(bert)).toHaveLength(50);
});

test("a board of 100,000 shapes is refused, told and counted, and nobody else is harmed", () => {
  const [anna, bert] = [shared(), shared()];
  bert.put([shape("b")]);
  const many = Array.from({ length: 100_000 }, (_, n) => shape(`m${n}`));
  expect(anna.put(many)).toBe(false);
  expect(full).toBe(1);
  expect(topic.refused).toBe(1);
  expect(ids(bert)).toContain("b");
  expect(bert.shapes().length).toBeLessThanOrEqual(ELEMENTS_MAX);
  const state = topic.kept.reduce((sum, event) => sum + event.length, 0);
  expect(state).toBeLessThan(2 * BYTES_MAX);
  expect(anna.put([shape("b", 9, { x: 9 })]), "what is there may change").toBe(true);
});

test("nothing that a stranger sends breaks a board", () => {
  const anna = shared();
  anna.put([shape("a")]);
  const random = (length: number) => Uint8Array.from({ length }, (_, n) => (n * 2_654_435_761) >>> 13);
  for (const length of [0, 1, 13, 14, 15, 100, 65_536]) anna.receive(random(length));
  const framed = (bytes: Uint8Array, piece = 0, pieces = 1) => {
    const event = new Uint8Array(14 + bytes.length);
    const view = new DataView(event.buffer);
    event.set([1, 1, 9, 9, 9, 9, 0, 0, 0, 1]);
    view.setUint16(10, piece);
    view.setUint16(12, pieces);
    event.set(bytes, 14);
    return event;
  };
  anna.receive(framed(random(500)));
  for (let piece = 0; piece < 16; piece++) anna.receive(framed(random(60_000), piece, 16));
  anna.receive(framed(random(10), 3, 2));
  anna.receive(framed(random(10), 0, 0));
  const doc = new Y.Doc();
  const map = doc.getMap("elements");
  map.set("big", 10n ** 15n);
  map.set("link", shape("link", 1, { type: "embeddable", link: "javascript:alert(1)" }));
  map.set("far", shape("far", 1, { x: Number.POSITIVE_INFINITY }));
  map.set("deep", new Y.Map([["x", new Y.Text("x")]]));
  map.set("ok", keep(shape("ok")));
  anna.receive(framed(Y.encodeStateAsUpdate(doc)));
  expect(ids(anna)).toEqual(["a", "ok"]);
});

test("too much of others is not taken, and what they delete still is", () => {
  const anna = shared();
  const doc = new Y.Doc();
  const map = doc.getMap("elements");
  doc.on("update", (bytes: Uint8Array) => {
    for (let piece = 0, pieces = Math.ceil(bytes.length / 60_000); piece < pieces; piece++) {
      const part = bytes.subarray(piece * 60_000, (piece + 1) * 60_000);
      const event = new Uint8Array(14 + part.length);
      event.set([1, 1, 9, 9, 9, 9, 0, 0, 0, 1]);
      new DataView(event.buffer).setUint32(10, (piece << 16) | pieces);
      event.set(part, 14);
      anna.receive(event);
    }
  });
  for (let n = 0; n < 100; n++) map.set(`n${n}`, "x".repeat(100_000));
  expect(full).toBeGreaterThan(0);
  expect(anna.crowded).toBe(true);
  anna.put([shape("a")]);
  expect(ids(anna)).toEqual([]);
  expect(ids(shared())).toEqual([]);
});

test("a shape keeps what is known of it, and is refused where that is wrong", () => {
  const kept = keep(shape("a", 3, { customData: { a: 1 }, link: "https://example.org" }));
  expect(kept).not.toHaveProperty("customData");
  expect(kept).not.toHaveProperty("angle");
  expect(read("a", kept)).toMatchObject({ id: "a", angle: 0, link: null, strokeWidth: 2, isDeleted: false });
  expect(read("a", { ...kept, strokeColor: "url(x)" })).toBeUndefined();
  expect(read("a", { ...kept, type: "image" })).toBeUndefined();
  expect(read("a", { ...kept, type: "line" }), "a line has points").toBeUndefined();
  expect(read("a", { ...kept, type: "line", points: [[0, 0], [1, "2"]] })).toBeUndefined();
  const bound = (names: object) => read("a", { ...kept, type: "line", points: [[0, 0]], startBinding: names });
  expect(bound({ elementId: "b", focus: 0, gap: 1 })).toBeDefined();
  expect(bound({ hasOwnProperty: 1 }), "what every object has").toBeUndefined();
  expect(bound({ valueOf: 1 })).toBeUndefined();
  expect(read("x".repeat(65), kept)).toBeUndefined();
  expect(keep(shape("a", 1, { type: "image" }))).toBeUndefined();
});
