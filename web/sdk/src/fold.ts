/** A session is the fold of its events: the state that came first, changed by what follows. */

import type { Annotation, Floor, Member, MemberId, Medium, Replay, Session, SessionEvent } from "./protocol.ts";

/** Lines of chat that are kept, as many as the server keeps. */
const CHAT_KEPT = 200;
/** Annotations of one recording. */
const ANNOTATIONS_MAX = 200;

/** The session after an event. Events that it has seen already change nothing. */
export function fold(session: Session, event: SessionEvent): Session {
  if (event.seq <= session.seq) return session;
  return { ...apply(session, event), seq: event.seq };
}

function apply(session: Session, event: SessionEvent): Session {
  switch (event.event) {
    case "planned":
      return {
        ...session, title: event.plan.title, lobby: event.plan.lobby ?? false,
        ways: event.plan.ways ?? [],
      };
    case "state":
      return { ...session, state: event.state };
    case "service":
      return { ...session, services: services(session, event) };
    case "locked":
      return { ...session, locked: event.locked };
    case "opened":
    case "closed":
      return rooms(session, event);
    case "floor":
    case "requested":
    case "granted":
    case "withdrawn":
    case "released":
      return floors(session, event);
    case "chat":
      return chat(session, event);
    case "reacted":
      return session;
    case "recording":
    case "replay":
      return archived(session, event);
    case "annotated":
      return annotated(session, [event.annotation]);
    case "recalled":
      return annotated(session, event.annotations);
    case "kept":
      return session;
    default:
      return members(session, event);
  }
}

function services(session: Session, { name, ready }: { name: string; ready: boolean }) {
  const known = session.services ?? [];
  // One that is not needed may come all the same: a recorder that somebody wants.
  if (!known.some((one) => one.name === name)) return [...known, { name, ready }];
  return known.map((one) => (one.name === name ? { name, ready } : one));
}

type ArchiveEvent = Extract<SessionEvent, { event: "recording" | "replay" }>;

function archived(session: Session, event: ArchiveEvent): Session {
  if (event.event === "replay") {
    const { replay: before, annotations = [], ...rest } = session;
    const same = before?.since_ms === event.replay?.since_ms
      && before?.recording === event.replay?.recording;
    return event.replay
      ? { ...rest, replay: event.replay, annotations: same ? annotations : [] }
      : rest;
  }
  const { recording: _before, ...rest } = session;
  if (!event.on) return rest;
  const by = event.member === undefined ? {} : { member: event.member };
  return { ...rest, recording: { ...by, since_ms: event.at_ms } };
}

/** What was said of what is replayed, each once, by place. */
function annotated(session: Session, said: Annotation[]): Session {
  const known = session.annotations ?? [];
  const news = said.filter((one) =>
    one.recording === session.replay?.recording
    && !known.some((other) => other.number === one.number && other.said_ms === one.said_ms));
  const order = (one: Annotation, other: Annotation) =>
    one.position_ms - other.position_ms || one.said_ms - other.said_ms || one.number - other.number;
  const annotations = [...known, ...news].slice(0, ANNOTATIONS_MAX).sort(order);
  return { ...session, annotations };
}

/** Where a replay is, in milliseconds since its beginning; `now` is of the server's clock. */
export function positionOf(replay: Replay, now: number): number {
  const { playing, position_ms, at_ms, length_ms } = replay;
  const passed = playing && length_ms !== undefined ? Math.max(0, now - at_ms) : 0;
  return Math.min(position_ms + passed, length_ms ?? Infinity);
}

type MemberEvent = Extract<
  SessionEvent,
  { event: "joined" | "away" | "back" | "left" | "named" | "role" | "moved" | "hand" | "muted" }
>;

function members(session: Session, event: MemberEvent): Session {
  const known = session.members ?? [];
  if (event.event === "joined") {
    const others = known.filter((one) => one.id !== event.person.id);
    return counted(session, [...others, event.person], 1);
  }
  if (event.event === "left") {
    const left = known.filter((one) => one.id !== event.member);
    return counted(session, left, -1);
  }
  const changed = known.map((one) => (one.id === event.member ? change(one, event) : one));
  return counted(session, changed, 0);
}

function counted(session: Session, list: Member[], more: number): Session {
  const waiting = list.filter((one) => one.room === undefined).length;
  const total = session.members_total + more;
  return { ...session, members: list, members_total: total, waiting_total: waiting };
}

function change(one: Member, event: MemberEvent): Member {
  switch (event.event) {
    case "away":
      return { ...one, away_ms: event.at_ms };
    case "back":
      return without(one, "away_ms");
    case "named":
      return { ...one, name: event.name };
    case "role":
      return { ...one, role: event.role };
    case "moved":
      return { ...one, room: event.room };
    case "hand":
      return event.raised ? { ...one, hand_ms: event.at_ms } : without(one, "hand_ms");
    case "muted": {
      const others = one.muted.filter((medium) => medium !== event.medium);
      return { ...one, muted: event.muted ? [...others, event.medium] : others };
    }
    default:
      return one;
  }
}

function without(one: Member, key: "away_ms" | "hand_ms"): Member {
  const { [key]: _gone, ...rest } = one;
  return rest;
}

type RoomEvent = Extract<SessionEvent, { event: "opened" | "closed" }>;

function rooms(session: Session, event: RoomEvent): Session {
  const others = (session.rooms ?? []).filter((room) => room.name !== event.room);
  if (event.event === "closed") return { ...session, rooms: others };
  const free = (medium: Medium): Floor => ({
    medium, mode: "free", limit: medium === "screen" ? 1 : 250, holders: [], queue: [],
  });
  const floors = (["audio", "video", "screen", "board"] as const).map(free);
  return { ...session, rooms: [...others, { name: event.room, title: event.title, floors }] };
}

type FloorEvent = Extract<
  SessionEvent,
  { event: "floor" | "requested" | "granted" | "withdrawn" | "released" }
>;

function floors(session: Session, event: FloorEvent): Session {
  const list = (session.rooms ?? []).map((room) => {
    if (room.name !== event.room) return room;
    const floors = room.floors.map((one) => (one.medium === event.medium ? floor(one, event) : one));
    return { ...room, floors };
  });
  return { ...session, rooms: list };
}

function floor(one: Floor, event: FloorEvent): Floor {
  if (event.event === "floor") {
    const { medium, holders, queue } = one;
    return { ...event.rules, medium, holders, queue };
  }
  const queue = one.queue.filter((member) => member !== event.member);
  const holders = one.holders.filter((holder) => holder.member !== event.member);
  if (event.event === "requested") queue.push(event.member);
  if (event.event === "granted") {
    const until = event.until_ms === undefined ? {} : { until_ms: event.until_ms };
    holders.push({ member: event.member, ...until });
  }
  return { ...one, queue, holders };
}

type ChatEvent = Extract<SessionEvent, { event: "chat" }>;

function chat(session: Session, event: ChatEvent): Session {
  const { event: _kind, ...line } = event;
  return { ...session, chat: [...(session.chat ?? []), line].slice(-CHAT_KEPT) };
}

/** One floor of a room. */
export function floorOf(session: Session | undefined, room: string | undefined, medium: Medium) {
  const found = session?.rooms?.find((one) => one.name === room);
  return found?.floors.find((one) => one.medium === medium);
}

/** Whether a member holds a floor of its room. */
export function holds(session: Session | undefined, member: MemberId, medium: Medium): boolean {
  const room = session?.members?.find((one) => one.id === member)?.room;
  const floor = floorOf(session, room, medium);
  return floor?.holders.some((holder) => holder.member === member) ?? false;
}

/** Whether a member may do what chairs do. */
export function leads(member: Member | undefined): boolean {
  return member !== undefined && (member.role === "chair" || member.rights.admin);
}
