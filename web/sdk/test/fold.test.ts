import { expect, test } from "vitest";
import { floorOf, fold, holds, leads, positionOf } from "../src/fold.ts";
import type { SessionEvent } from "../src/protocol.ts";
import { floor, member, session } from "./session.ts";

/** Events from 11 on, one after the other. */
function after(start: ReturnType<typeof session>, ...events: object[]) {
  const numbered = events.map((event, n) => ({ seq: 11 + n, at_ms: 1_000 + n, ...event }));
  return (numbered as SessionEvent[]).reduce(fold, start);
}

test("members come, change and go", () => {
  const start = session([member("m1")]);
  const now = after(start,
    { event: "joined", person: member("m2", { room: undefined as never }) },
    { event: "moved", member: "m2", room: "main" },
    { event: "named", member: "m2", name: "Bert" },
    { event: "role", member: "m2", role: "presenter" },
    { event: "hand", member: "m2", raised: true },
    { event: "muted", member: "m2", medium: "audio", muted: true },
    { event: "away", member: "m1" },
  );
  expect(now.members_total).toBe(2);
  expect(now.members?.[1]).toMatchObject({ name: "Bert", role: "presenter", hand_ms: 1_004, muted: ["audio"] });
  expect(now.members?.[0]?.away_ms).toBe(1_006);
  const back = fold(now, { seq: 30, at_ms: 0, event: "back", member: "m1" });
  expect(back.members?.[0]).not.toHaveProperty("away_ms");
  const left = fold(back, { seq: 31, at_ms: 0, event: "left", member: "m2", why: "itself" });
  expect([left.members?.length, left.members_total]).toEqual([1, 1]);
});

test("a floor is asked for, given and taken in turn", () => {
  const start = session([member("m1"), member("m2")], [floor("audio", ["m1"])]);
  const of = { room: "main", medium: "audio" };
  const waits = after(start, { event: "requested", ...of, member: "m2" });
  expect(floorOf(waits, "main", "audio")?.queue).toEqual(["m2"]);
  const given = after(start,
    { event: "requested", ...of, member: "m2" },
    { event: "released", ...of, member: "m1", why: "taken" },
    { event: "granted", ...of, member: "m2", until_ms: 5_000 },
  );
  expect([holds(given, "m1", "audio"), holds(given, "m2", "audio")]).toEqual([false, true]);
  expect(floorOf(given, "main", "audio")?.queue).toEqual([]);
});

test("other plans are all of the plans", () => {
  const plan = { title: "Later", ways: [{ label: "Berlin", uri: "tel:+49-30-1" }] };
  const now = after(session([member("m1")]), { event: "planned", plan });
  expect(now).toMatchObject(plan);
  const none = fold(now, { seq: 20, at_ms: 0, event: "planned", plan: { title: "Later" } });
  expect(none.ways).toEqual([]);
});

test("it is recorded and replayed, and no more", () => {
  const replay = {
    recording: "00ff", room: "main", since_ms: 0, order: 12, playing: true, position_ms: 4_000, at_ms: 50_000,
    length_ms: 9_000,
  };
  const now = after(session([member("m1")]),
    { event: "recording", on: true, member: "m1" },
    { event: "service", name: "recorder", ready: true },
    { event: "replay", replay },
  );
  expect(now.recording).toEqual({ member: "m1", since_ms: 1_000 });
  expect(now.services).toEqual([{ name: "recorder", ready: true }]);
  expect(now.replay).toEqual(replay);
  expect([49_000, 52_500, 70_000].map((at) => positionOf(replay, at))).toEqual([4_000, 6_500, 9_000]);
  expect(positionOf({ ...replay, playing: false }, 60_000)).toBe(4_000);
  const ends = [{ event: "recording", on: false }, { event: "replay", why: "taken" }];
  const over = ends.map((end, n) => ({ seq: 20 + n, at_ms: 0, ...end }) as SessionEvent).reduce(fold, now);
  expect([over.recording, over.replay]).toEqual([replay, replay].map(() => undefined));
});

test("an event that was seen changes nothing, and the state that came first stays as it was", () => {
  const start = session([member("m1")]);
  const frozen = structuredClone(start);
  const locked = after(start, { event: "locked", locked: true });
  expect(fold(locked, { seq: 11, at_ms: 0, event: "locked", locked: false }).locked).toBe(true);
  expect(start).toEqual(frozen);
});

test("chat keeps the last lines", () => {
  const lines = Array.from({ length: 250 }, (_, n) => ({ event: "chat", from: "m1", text: `${n}` }));
  const now = after(session([member("m1")]), ...lines);
  expect(now.chat).toHaveLength(200);
  expect(now.chat?.at(-1)).toMatchObject({ text: "249", from: "m1", seq: 260 });
});

test("chairs lead, and whoever has the right", () => {
  expect(leads(member("m1", { role: "chair" }))).toBe(true);
  expect(leads(member("m1"))).toBe(false);
  const rights = { ...member("m1").rights, admin: true };
  expect(leads(member("m1", { rights }))).toBe(true);
});

test("a service comes and goes", () => {
  const start = { ...session([member("m1")]), services: [{ name: "recorder", ready: false }] };
  const now = after(start, { event: "service", name: "recorder", ready: true });
  expect(now.services).toEqual([{ name: "recorder", ready: true }]);
  expect(fold(now, { seq: 40, at_ms: 0, event: "service", name: "recorder", ready: false }).services?.[0]?.ready)
    .toBe(false);
});

test("what was said of a recording comes once, by place, and goes with it", () => {
  const said = (number: number, position_ms: number, recording = "00ff") =>
    ({ recording, position_ms, said_ms: 7, number, name: "Anna", text: `number ${number}` });
  const replay = {
    recording: "00ff", room: "main", since_ms: 3, order: 12, playing: true, position_ms: 0, at_ms: 0,
  };
  let now = after(session([member("m1")]), { event: "replay", replay });
  const happens = (event: object) => {
    now = fold(now, { seq: now.seq + 1, at_ms: 0, ...event } as SessionEvent);
    return now.annotations?.map((one) => one.number);
  };
  expect(happens({ event: "annotated", from: "m1", annotation: said(2, 900) })).toEqual([2]);
  const annotations = [said(1, 3_000), said(2, 900), said(3, 500), said(4, 1, "beef")];
  expect(happens({ event: "recalled", annotations })).toEqual([3, 2, 1]);
  expect(happens({ event: "kept", number: 2 })).toEqual([3, 2, 1]);
  expect(happens({ event: "replay", replay: { ...replay, order: 20 } }), "a pause").toEqual([3, 2, 1]);
  expect(happens({ event: "replay", replay: { ...replay, since_ms: 9 } }), "anew").toEqual([]);
  expect(happens({ event: "replay" })).toBeUndefined();
});
