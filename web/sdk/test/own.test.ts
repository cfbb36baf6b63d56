import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Own, type OwnEvents } from "../src/own.ts";
import type { Command, Session } from "../src/protocol.ts";
import { floor, member, session } from "./session.ts";
import { track, web } from "./web.ts";

const DOOR = { origin: "https://a.example", token: null };
let asked: string[];
let commands: Command[];
let answer: () => Promise<void>;
let own: Own;

beforeEach(() => {
  vi.useFakeTimers();
  asked = web();
  commands = [];
  answer = async () => undefined;
  const events: OwnEvents = {
    ask: (command) => {
      commands.push(command);
      return answer();
    },
    changed: () => undefined, refused: () => undefined, lost: () => undefined,
  };
  own = new Own(events, false);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** The microphone's floor is held by `m1`, in a room. */
function speaking(room = "main"): Session {
  const one = session([member("m1", { room })], [floor("audio", ["m1"])]);
  const [first] = one.rooms ?? [];
  return { ...one, rooms: first ? [{ ...first, name: room }] : [] };
}

const settled = () => vi.advanceTimersByTimeAsync(0);

test("devices are off once it is over, and those that open later too", () => {
  const [microphone, late] = [track("audio"), track("video")];
  own.set("audio", [microphone]);
  own.follow(speaking(), "m1", DOOR);
  own.close();
  own.set("video", [late]);
  expect([microphone.readyState, late.readyState]).toEqual(["ended", "ended"]);
  expect(own.tracks("audio")).toEqual([]);
});

test("what takes the place of a track stops it", () => {
  const [before, after] = [track("video"), track("video")];
  own.set("video", [before]);
  own.set("video", [after]);
  expect([before.readyState, after.readyState]).toEqual(["ended", "live"]);
});

test("no connection is made once it is over, not even one that failed before", async () => {
  asked = web((what) => what.startsWith("POST"));
  own.set("audio", [track("audio")]);
  own.follow(speaking(), "m1", DOOR);
  await settled();
  expect(asked).toEqual(["POST /v1/whip/acme/weekly/main/audio/m1"]);
  own.close();
  own.follow(speaking(), "m1", DOOR);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(asked).toHaveLength(1);
});

test("whoever is moved publishes in the other room, and nothing more in the first", async () => {
  own.set("audio", [track("audio")]);
  own.follow(speaking(), "m1", DOOR);
  await settled();
  own.follow(speaking("side"), "m1", DOOR);
  await settled();
  expect(asked).toEqual([
    "POST /v1/whip/acme/weekly/main/audio/m1", "DELETE /at/audio-m1",
    "POST /v1/whip/acme/weekly/side/audio/m1",
  ]);
});

test.each(["deactivated", "activated"] as const)("nothing is sent from a lobby, or while it is %s", async (state) => {
  own.set("audio", [track("audio")]);
  own.follow(speaking(), "m1", DOOR);
  await settled();
  const now = { ...speaking(), state };
  // Who waits in the lobby is told of no members.
  if (state === "activated") delete now.members;
  own.follow(now, "m1", DOOR);
  expect(own.publishers()).toEqual([]);
});

test("a floor whose release got lost is given back when the line is there again", async () => {
  own.set("audio", [track("audio")]);
  own.follow(speaking(), "m1", DOOR);
  answer = () => Promise.reject({ code: "line", error: "not connected" });
  own.set("audio", []);
  await settled();
  answer = async () => undefined;
  own.settle();
  await settled();
  own.settle();
  expect(commands).toEqual([{ do: "release", medium: "audio" }, { do: "release", medium: "audio" }]);
});
