/** The documents of docs/spec/xgsp.md, as they arrive. */

/** What a floor is for. */
export type Medium = "audio" | "video" | "screen" | "board";
/** What a member is there for. */
export type Role = "chair" | "presenter" | "participant" | "observer";
/** Where a session stands. */
export type SessionState = "created" | "canceled" | "activated" | "deactivated" | "finished";
/** A member's number, such as `m17`. */
export type MemberId = string;

export const MEDIA: readonly Medium[] = ["audio", "video", "screen", "board"];

export interface Rights {
  publish: Medium[];
  subscribe: boolean;
  chat: boolean;
  admin: boolean;
}

export interface Member {
  id: MemberId;
  identity: string;
  name: string;
  role: Role;
  capabilities: string[];
  rights: Rights;
  /** None while it waits in the lobby. */
  room?: string;
  /** Media that a chair has taken from it. */
  muted: Medium[];
  /** Since when its hand is up. */
  hand_ms?: number;
  joined_ms: number;
  /** Since when its connection is gone. */
  away_ms?: number;
}

export interface FloorRules {
  mode: "free" | "moderated";
  limit: number;
  time_limit_s?: number;
}

export interface Floor extends FloorRules {
  medium: Medium;
  holders: { member: MemberId; until_ms?: number }[];
  queue: MemberId[];
}

export interface Room {
  name: string;
  title: string;
  floors: Floor[];
}

export interface ChatLine {
  seq: number;
  at_ms: number;
  from: MemberId;
  to?: MemberId;
  room?: string;
  text: string;
}

/** Another way in than a page: a telephone, a room system, a player. */
export interface Way {
  label: string;
  /** `tel:`, `sip:`, `sips:`, `h323:`, `rtsp:`, `rtsps:` or `https:`. */
  uri: string;
}

/** What whoever may join a session is told before. */
export interface Invitation {
  tenant: string;
  name: string;
  title: string;
  state: SessionState;
  start_ms?: number;
  end_ms?: number;
  /** Where people join with a browser. */
  link: string;
  ways?: Way[];
}

/** A recording that everybody in a room watches together. */
export interface Replay {
  recording: string;
  room: string;
  /** Who began it. */
  member?: MemberId;
  /** Since when; with `order` it names a turn of a replay. */
  since_ms: number;
  order: number;
  playing: boolean;
  /** Where it was at `at_ms`, of the server's clock. */
  position_ms: number;
  at_ms: number;
  /** None before it is found. */
  length_ms?: number;
  people?: { source: MemberId; member: MemberId }[];
}

/** What somebody said of a place in a recording while watching it. */
export interface Annotation {
  recording: string;
  position_ms: number;
  said_ms: number;
  /** With `said_ms` it tells it from all others. */
  number: number;
  name: string;
  text: string;
}

/** A recording of a session. */
export interface Recording {
  id: string;
  begin_ms: number;
  length_ms: number;
  /** Whether it was ended in order. */
  over: boolean;
  /** How much was said of it by those who watched it. */
  annotations?: number;
}

/** A session as one member sees it; who waits in the lobby sees neither rooms nor members. */
export interface Session {
  tenant: string;
  name: string;
  title: string;
  state: SessionState;
  lobby: boolean;
  locked: boolean;
  seq: number;
  members_total: number;
  waiting_total: number;
  start_ms?: number;
  end_ms?: number;
  /** What it needs, such as a recorder, and whether that is there. */
  services?: { name: string; ready: boolean }[];
  ways?: Way[];
  rooms?: Room[];
  chat?: ChatLine[];
  members?: Member[];
  /** The recording that is wanted of it; whether it is made says the service `recorder`. */
  recording?: { member?: MemberId; since_ms: number };
  replay?: Replay;
  /** What was said of what is replayed, by place. */
  annotations?: Annotation[];
}

interface Plan {
  title: string;
  start_ms?: number;
  end_ms?: number;
  lobby?: boolean;
  ways?: Way[];
}

interface OfFloor {
  room: string;
  medium: Medium;
  member: MemberId;
}

/** What happened; kinds that are not listed change nothing that a member sees. */
export type SessionEvent = { seq: number; at_ms: number } & (
  | { event: "planned"; plan: Plan }
  | { event: "state"; state: SessionState }
  | { event: "service"; name: string; ready: boolean }
  | { event: "locked"; locked: boolean }
  | { event: "joined"; person: Member }
  | { event: "away" | "back"; member: MemberId }
  | { event: "left"; member: MemberId; why: string }
  | { event: "named"; member: MemberId; name: string }
  | { event: "role"; member: MemberId; role: Role }
  | { event: "moved"; member: MemberId; room: string }
  | { event: "hand"; member: MemberId; raised: boolean }
  | { event: "muted"; member: MemberId; medium: Medium; muted: boolean }
  | { event: "opened"; room: string; title: string }
  | { event: "closed"; room: string }
  | { event: "floor"; room: string; medium: Medium; rules: FloorRules }
  | ({ event: "requested" } & OfFloor)
  | ({ event: "granted"; until_ms?: number } & OfFloor)
  | ({ event: "withdrawn" | "released"; why: string } & OfFloor)
  | { event: "chat"; from: MemberId; to?: MemberId; room?: string; text: string }
  | { event: "reacted"; from: MemberId; room?: string; text: string }
  | { event: "recording"; on: boolean; member?: MemberId }
  | { event: "replay"; replay?: Replay; why?: string }
  | { event: "annotated"; from: MemberId; annotation: Annotation }
  | { event: "recalled"; annotations: Annotation[] }
  | { event: "kept"; number: number }
);

/** What a member may reach, and what it shows to brokers for that. */
export interface MediaPass {
  /** None where brokers ask for none. */
  token: string | null;
  expires_ms: number;
  publish: string[];
  subscribe: string[];
}

/** Why something was refused: `code` for programs, the rest for people. */
export interface Problem {
  code: string;
  error: string;
  hint?: string;
  /** The server that has the session. */
  at?: string;
}

/** Why it is over. */
export type Bye = "left" | "removed" | "replaced" | "lost" | "ended";

export type Frame =
  | { type: "welcome"; member: MemberId; key: string; now_ms: number; servers?: string[] }
  | { type: "servers"; servers: string[] }
  | ({ type: "media" } & MediaPass)
  | { type: "lobby" }
  | { type: "state"; session: Session }
  | { type: "events"; seq: number; events: SessionEvent[] }
  | { type: "done"; id: number; recordings?: Recording[] }
  | ({ type: "refused"; id?: number } & Problem)
  | { type: "bye"; why: Bye };

/** What a member asks; see "Commands" in docs/spec/xgsp.md. */
export type Command =
  | { do: "activate" | "deactivate" | "finish" | "cancel" | "leave" }
  | { do: "plan"; title?: string; lobby?: boolean }
  | { do: "ways"; ways: Way[] }
  | { do: "lock"; locked: boolean }
  | { do: "admit" | "remove"; member: MemberId }
  | { do: "role"; member: MemberId; role: Role }
  | { do: "mute"; member: MemberId; medium: Medium; muted: boolean }
  | { do: "request" | "release"; medium: Medium }
  | { do: "grant" | "revoke"; medium: Medium; member: MemberId }
  | { do: "floor"; room: string; medium: Medium; mode: "free" | "moderated"; limit: number }
  | { do: "open"; room: string; title: string }
  | { do: "close"; room: string }
  | { do: "move"; member: MemberId; room: string }
  | { do: "hand"; raised: boolean; member?: MemberId }
  | { do: "name"; name: string }
  | { do: "chat"; text: string; to?: MemberId }
  | { do: "react"; text: string }
  | { do: "record"; on: boolean }
  | { do: "replay"; recording: string }
  | { do: "play"; playing: boolean; position_ms?: number }
  | { do: "annotate"; text: string; position_ms?: number }
  | { do: "stop" };
