/** What the meeting shows, worked out of what the session says: no React, no browser. */

import { floorOf, holds, leads, type Annotation, type Medium, type Member, type MemberId, type Replay, type Room, type View } from "@sangam/sdk";

/** The room that everybody begins in. */
export const MAIN = "main";
/** Rooms of a session, by docs/spec/xgsp.md. */
const ROOMS_MAX = 64;

export type Layout = "grid" | "speaker";

/** One picture on the stage. */
export interface Tile {
  key: string;
  member: Member;
  kind: "camera" | "screen";
  own: boolean;
  speaking: boolean;
  microphone: boolean;
  /** Whether a picture is to be shown, and not the initials. */
  picture: boolean;
}

export interface Stage {
  /** Shown large; none in a grid. */
  large: Tile | undefined;
  tiles: Tile[];
}

/** This member, if it is in. */
export function me(view: View): Member | undefined {
  return view.session?.members?.find((one) => one.id === view.me);
}

/** Those in the same room, oneself first, then by when they came. */
export function together(view: View): Member[] {
  const own = me(view);
  const here = (view.session?.members ?? []).filter((one) => one.room && one.room === own?.room);
  return here.sort((a, b) =>
    Number(b.id === view.me) - Number(a.id === view.me) || a.joined_ms - b.joined_ms);
}

/** Those in a room, by when they came. */
export function inRoom(view: View, room: string): Member[] {
  const here = (view.session?.members ?? []).filter((one) => one.room === room);
  return here.sort((a, b) => a.joined_ms - b.joined_ms);
}

/** The other rooms that somebody is in. */
export function elsewhere(view: View): Room[] {
  const own = me(view)?.room;
  const rooms = view.session?.rooms ?? [];
  return rooms.filter((one) => one.name !== own && inRoom(view, one.name).length > 0);
}

/** A name that no room has; none if there are too many rooms. */
export function freeRoom(rooms: readonly Room[]): string | undefined {
  if (rooms.length >= ROOMS_MAX) return undefined;
  const taken = new Set(rooms.map((one) => one.name));
  for (let n = 1; ; n++) {
    if (!taken.has(`room-${n}`)) return `room-${n}`;
  }
}

/** Those who wait to be let in; only leaders look after them. */
export function lobby(view: View): Member[] {
  return (view.session?.members ?? []).filter((one) => one.room === undefined);
}

/** Raised hands, the first first; whoever leads sees those of other rooms, too. */
export function hands(view: View): Member[] {
  const all = leading(view) ? (view.session?.members ?? []) : together(view);
  const raised = all.filter((one) => one.hand_ms !== undefined);
  return raised.sort((a, b) => (a.hand_ms ?? 0) - (b.hand_ms ?? 0));
}

/** A member's place in the queue for a floor, from 1; none if it does not wait. */
export function place(view: View, member: MemberId, medium: Medium = "audio"): number | undefined {
  const room = view.session?.members?.find((one) => one.id === member)?.room;
  const at = floorOf(view.session, room, medium)?.queue.indexOf(member) ?? -1;
  return at < 0 ? undefined : at + 1;
}

/** Whether nobody has the word until the meeting goes on. */
export function paused(view: View): boolean {
  return view.session?.state === "deactivated" || view.session?.state === "created";
}

/** Whether somebody records: the service of that name says so. */
export function recorded(view: View): boolean {
  return view.session?.services?.some((one) => one.name === "recorder" && one.ready) ?? false;
}

/** Whether it shall be recorded, and nobody does it yet. */
export function awaited(view: View): boolean {
  return view.session?.recording !== undefined && !recorded(view);
}

/** The name of who has it recorded; none if the plan or an operator does. */
export function recorder(view: View): string | undefined {
  const by = view.session?.recording?.member;
  return view.session?.members?.find((one) => one.id === by)?.name;
}

/** Whether this member may show something to all. */
export function presents(view: View): boolean {
  return leading(view) || me(view)?.role === "presenter";
}

/** What is watched in this member's room. */
export function watched(view: View): Replay | undefined {
  const replay = view.session?.replay;
  return replay?.room === me(view)?.room ? replay : undefined;
}

/** Whether a member stands for somebody of a recording. */
export function isReplayed(view: View, member: MemberId): boolean {
  return view.session?.replay?.people?.some((one) => one.member === member) ?? false;
}

/** Minutes and seconds, with hours where there are any. */
export function clock(ms: number): string {
  const seconds = Math.floor(ms / 1_000);
  const two = (n: number) => String(n).padStart(2, "0");
  const [h, m, s] = [Math.floor(seconds / 3_600), Math.floor(seconds / 60) % 60, seconds % 60];
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** How many others draw on the whiteboard. */
export function drawing(view: View): number {
  const holders = floorOf(view.session, me(view)?.room, "board")?.holders ?? [];
  return holders.filter(({ member }) => member !== view.me).length;
}

export function leading(view: View): boolean {
  return leads(me(view));
}

/** What is on the stage. Whoever shares a screen is large unless somebody was pinned. */
export function stage(view: View, layout: Layout, pinned: string | undefined): Stage {
  const tiles = together(view).flatMap((member) => tilesOf(view, member));
  const screens = tiles.filter((tile) => tile.kind === "screen");
  const others = tiles.filter((tile) => !tile.own);
  const speaking = others.find((tile) => tile.member.id === view.speaker && tile.kind === "camera");
  const chosen = tiles.find((tile) => tile.key === pinned) ?? screens.find((tile) => !tile.own);
  const automatic = layout === "speaker" ? (speaking ?? others[0] ?? tiles[0]) : undefined;
  const large = chosen ?? automatic;
  return { large, tiles: tiles.filter((tile) => tile.key !== large?.key) };
}

function tilesOf(view: View, member: Member): Tile[] {
  const of = (medium: "audio" | "video" | "screen") => holds(view.session, member.id, medium);
  const own = member.id === view.me;
  const common = { member, own, speaking: view.speaking.has(member.id), microphone: of("audio") };
  const camera: Tile = { ...common, key: member.id, kind: "camera", picture: of("video") };
  if (!of("screen")) return [camera];
  const screen: Tile = {
    ...common, key: `${member.id}-screen`, kind: "screen", picture: true, speaking: false,
  };
  return [camera, screen];
}

/** Pixels between pictures, and around all of them. */
export const GAP = 12;

/**
 * How many pictures of 16:9 stand side by side, and their size, so that they are as large as they can
 * be. They may grow up to 4:3 where there is room: that cuts little off their sides. None gets wider, as
 * that would cut off heads.
 */
export function grid(count: number, width: number, height: number) {
  let best = { across: 1, wide: 0, tall: 0, size: 0 };
  for (let across = 1; across <= Math.max(1, count); across++) {
    const rows = Math.ceil(count / across);
    const room = (width - GAP * across) / across;
    const high = (height - GAP * rows) / rows;
    const size = Math.min(room, high * (16 / 9));
    const tall = Math.max(1, Math.floor(Math.min(high, room * (3 / 4))));
    const wide = Math.max(1, Math.floor(Math.min(room, tall * (16 / 9))));
    if (size > best.size) best = { across, wide, tall, size };
  }
  const { across, wide, tall } = best;
  return { across, wide, tall };
}

/** Up to two letters that stand for a name, in any script. */
export function initials(name: string): string {
  const words = name.trim().split(/\s+/).filter((word) => word !== "");
  const letters = [words[0], words.length > 1 ? words[words.length - 1] : undefined];
  return letters.map((word) => [...(word ?? "")][0] ?? "").join("").toLocaleUpperCase();
}

/** One of a few calm colours, the same for everybody who sees this identity. */
export function hue(identity: string): number {
  let sum = 0;
  for (const letter of identity) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 3_600;
  return (sum * 47) % 360;
}

/** For how long what was said of a place in a recording is shown, and how much at once. */
const SHOWN_MS = 6_000;
const SHOWN_MAX = 3;

/** What was said of where a recording is now: the latest of it. */
export function shownAt(annotations: readonly Annotation[], now: number): Annotation[] {
  const here = annotations.filter(({ position_ms: at }) => at <= now && now < at + SHOWN_MS);
  return here.slice(-SHOWN_MAX);
}

/** What somebody wrote, on one line. */
export function heard(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
