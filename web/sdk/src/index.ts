/** Sangam in a page: join a session, send and receive, go on when the network or a broker does not. */

export { enter, facts, invitation, type Named, type PageFacts } from "./api.ts";
export { Board, BOARD_EVENT_MAX, type BoardEvents, type Turn } from "./board.ts";
export { answers, Brokers } from "./brokers.ts";
export { floorOf, fold, holds, leads, positionOf } from "./fold.ts";
export { relays } from "./ice.ts";
export { Meeting, type JoinOptions, type Reaction, type View } from "./meeting.ts";
export type { OwnState, Sent } from "./own.ts";
export { Peer, PeerError, type Door, type PeerState } from "./peer.ts";
export { Player, type Received } from "./player.ts";
export { probe, type Outcome, type Report } from "./probe.ts";
export * from "./protocol.ts";
export { Publisher, type PublishOptions } from "./publisher.ts";
export { between, count, judge, THRESHOLDS, type Measures, type Quality } from "./quality.ts";
export { Servers } from "./servers.ts";
export { Signalling, type SignallingEvents, type SignallingOptions } from "./signalling.ts";
export { Speakers } from "./speakers.ts";
