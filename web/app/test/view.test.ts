import type { View } from "@sangam/sdk";
import { expect, test } from "vitest";
import { floor, member, session } from "../../sdk/test/session";
import { grid, hands, initials, lobby, place, stage, together } from "../src/meeting/view";

function view(more: Partial<View>): View {
  return {
    phase: "in", me: "m1", line: true, media: true, own: { audio: "off", video: "off", screen: "off" },
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
  expect(grid(0, 0, 0)).toEqual({ across: 1, tall: 0 });
});

test("initials are of any script", () => {
  expect(initials("Anna Maria Berg")).toBe("AB");
  expect(initials("  小明 ")).toBe("小");
  expect(initials("😀 x")).toBe("😀X");
  expect(initials("")).toBe("");
});
