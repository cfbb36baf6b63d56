import type { Sent } from "@sangam/sdk";
import { expect, test } from "vitest";
import { track } from "../../sdk/test/web";
import { Switches } from "../src/meeting/switches";

/** Switches of a meeting, and a device that opens when a test says so. */
function room() {
  const sent = new Map<Sent, readonly MediaStreamTrack[]>();
  const switches = new Switches({
    send: (medium, tracks) => void sent.set(medium, tracks),
    sends: (medium) => sent.get(medium) ?? [],
  });
  const opened: ((tracks: MediaStreamTrack[]) => void)[] = [];
  const open = () => new Promise<MediaStreamTrack[]>((resolve) => opened.push(resolve));
  return { sent, switches, opened, open };
}

test("a second press while a device opens takes the first back", async () => {
  const { sent, switches, opened, open } = room();
  const microphone = track("audio");
  const first = switches.turn("audio", open);
  await switches.turn("audio", open);
  expect(opened).toHaveLength(1);
  opened[0]?.([microphone]);
  await first;
  expect(microphone.readyState).toBe("ended");
  expect(sent.has("audio")).toBe(false);
});

test("the choice that was made last stays, whichever device opens first", async () => {
  const { sent, switches, opened, open } = room();
  sent.set("video", [track("video")]);
  const [older, newer] = [track("video"), track("video")];
  const both = [switches.replace("video", open), switches.replace("video", open)];
  opened[1]?.([newer]);
  opened[0]?.([older]);
  await Promise.all(both);
  expect(sent.get("video")).toEqual([newer]);
  expect(older.readyState).toBe("ended");
});

test("what is switched off while another device opens stays off", async () => {
  const { sent, switches, opened, open } = room();
  sent.set("video", [track("video")]);
  const camera = track("video");
  const changing = switches.replace("video", open);
  await switches.turn("video", open);
  opened[0]?.([camera]);
  await changing;
  expect(sent.get("video")).toEqual([]);
  expect(camera.readyState).toBe("ended");
});

test("a device that does not open may be tried again", async () => {
  const { sent, switches } = room();
  await expect(switches.turn("audio", () => Promise.reject(new Error("denied")))).rejects.toThrow("denied");
  const microphone = track("audio");
  await switches.turn("audio", async () => [microphone]);
  expect(sent.get("audio")).toEqual([microphone]);
});
