import type { View } from "@sangam/sdk";
import { expect, test } from "vitest";
import { floor, member, session } from "../../sdk/test/session";
import { clock, grid, hands, initials, isReplayed, lobby, place, stage, together, watched } from "../src/meeting/view";

function view(more: Partial<View>): View {
  return {
    phase: "in", me: "m1", ahead: 0, line: true, media: true, own: { audio: "off", video: "off", screen: "off" },
    received: new Map(), quality: new Map(), speaking: new Set(), reactions: [], ...more,
  };
}

const three = [member("m3"), member("m1"), member("m2")];

test("oneself comes first, then who came first; the lobby is elsewhere", () => {
  const { room: _none, ...waiting } = member("m4");
  const all = view({ session: session([...three, waiting]) });
  expect(together(all).map((one) => one.id)).toEqual(["m1", "m2", "m3"]);
  expect(lobby(all).map((one) => one.id)).toEqual(["m4"]);
});

test("hands and the queue for the word keep their order", () => {
  const raised = [member("m1"), member("m2", { hand_ms: 9 }), member("m3", { hand_ms: 5 })];
  const all = view({ session: session(raised, [floor("audio", [], ["m3", "m2"])]) });
  expect(hands(all).map((one) => one.id)).toEqual(["m3", "m2"]);
  expect([place(all, "m3"), place(all, "m2"), place(all, "m1")]).toEqual([1, 2, undefined]);
});

test("a shared screen is large, unless somebody else was pinned", () => {
  const all = view({ session: session(three, [floor("screen", ["m2"])]) });
  expect(stage(all, "grid", undefined).large?.key).toBe("m2-screen");
  expect(stage(all, "grid", "m3").large?.key).toBe("m3");
  expect(stage(all, "grid", undefined).tiles.map((tile) => tile.key)).toEqual(["m1", "m2", "m3"]);
  const own = view({ session: session(three, [floor("screen", ["m1"])]) });
  expect(stage(own, "grid", undefined).large).toBeUndefined();
});

test("the speaker's layout shows who speaks, or somebody else than oneself", () => {
  const all = view({ session: session(three) });
  expect(stage(all, "speaker", undefined).large?.key).toBe("m2");
  expect(stage({ ...all, speaker: "m3" }, "speaker", undefined).large?.key).toBe("m3");
  expect(stage(all, "grid", undefined).large).toBeUndefined();
});

test("pictures are as large as the window lets them be", () => {
  expect(grid(1, 1_600, 900).across).toBe(1);
  expect(grid(2, 1_600, 900).across).toBe(2);
  expect(grid(2, 400, 900).across).toBe(1);
  expect(grid(9, 1_600, 900).across).toBe(3);
  expect(grid(0, 0, 0)).toEqual({ across: 1, wide: 0, tall: 0 });
});

test("pictures lose little of their sides, and nobody's head", () => {
  for (const [width, height] of [[1_600, 900], [920, 660], [390, 640], [1_920, 300]] as const) {
    for (const count of [1, 2, 3, 5, 9]) {
      const { across, wide, tall } = grid(count, width, height);
      expect(wide / tall).toBeLessThan(1.8);
      expect(wide / tall).toBeGreaterThan(1.3);
      expect(across * wide).toBeLessThanOrEqual(width);
      expect(Math.ceil(count / across) * tall).toBeLessThanOrEqual(height);
    }
  }
});

test("times are read as on any player", () => {
  expect([0, 59_999, 61_000, 3_661_000].map(clock)).toEqual(["0:00", "0:59", "1:01", "1:01:01"]);
});

test("what is watched elsewhere is not shown here", () => {
  const replay = {
    recording: "00ff", room: "main", since_ms: 0, order: 1, playing: true, position_ms: 0, at_ms: 0,
    people: [{ source: "m9", member: "m3" }],
  };
  const all = view({ session: { ...session(three), replay } });
  expect(watched(all)).toEqual(replay);
  expect([isReplayed(all, "m3"), isReplayed(all, "m2")]).toEqual([true, false]);
  const other = { ...replay, room: "b1" };
  expect(watched(view({ session: { ...session(three), replay: other } }))).toBeUndefined();
});

test("initials are of any script", () => {
  expect(initials("Anna Maria Berg")).toBe("AB");
  expect(initials("  小明 ")).toBe("小");
  expect(initials("😀 x")).toBe("😀X");
  expect(initials("")).toBe("");
});
