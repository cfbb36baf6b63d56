/** What is measured of each medium, at both ends. */

import type { Page } from "playwright-core";
import type { Person } from "../test/people";
import { inbound, until, type Kind } from "../test/senses";
import { strokes } from "./board";
import {
  bySecond, each, grown, latencies, quantile, second, type Sample,
} from "./figures";
import type { Instruments } from "./instruments";
import type { Row } from "./report";
import type { Burst } from "./sounds";

export const MEDIA = ["audio", "video", "screen", "board"] as const;
export type Medium = (typeof MEDIA)[number];

/** Who sends, and who receives. */
export interface Pair {
  from: Person;
  to: Person;
}

/** Measures for so many seconds. */
type Meter = (us: Pair, seconds: number) => Promise<Row>;

export const METERS: Record<Medium, Meter> = {
  audio: sound,
  video: (us, seconds) => picture(us, seconds, "camera"),
  screen: (us, seconds) => picture(us, seconds, "screen"),
  board: async (us, seconds) => {
    const { samples, begin, end } = await strokes(us, seconds);
    return { seconds: (end - begin) / 1_000, ...latencies(samples, begin, end) };
  },
};

const PATIENCE_MS = 60_000;
/** A burst that is not heard within this is lost; each tone comes again after 2,000. */
const LATE_MS = 1_900;

async function sound(us: Pair, seconds: number): Promise<Row> {
  const mouth = await us.from.page.evaluateHandle(() => {
    const { listens, speaks } = (globalThis as unknown as { instruments: Instruments }).instruments;
    return listens(speaks());
  });
  const ear = await us.to.page.evaluateHandle(() => {
    const player = document.querySelector<HTMLAudioElement>("audio[data-member]");
    const [track] = (player?.srcObject as MediaStream | null)?.getAudioTracks() ?? [];
    if (!track) throw new Error("nobody is heard");
    const { listens } = (globalThis as unknown as { instruments: Instruments }).instruments;
    return listens(track);
  });
  const arrived = async () => {
    const [said = [], heard = []] =
      await Promise.all([mouth, ear].map((one) => one.evaluate(({ heard }) => heard)));
    return said.flatMap((burst) => match(burst, heard) ?? []);
  };
  const counted = await count(us, seconds, { kind: "sound", arrived });
  // The last bursts are on their way.
  await second(LATE_MS / 1_000);
  const said = await mouth.evaluate((one) => one.stop());
  const heard = await ear.evaluate((one) => one.stop());
  const { before, after, begin, end } = counted;
  const sent = said.filter(({ at }) => at >= begin && at < end);
  const samples = sent.flatMap((burst) => match(burst, heard) ?? []);
  const made = grown(before, after, "concealedSamples");
  return {
    ...base(counted), sent: sent.length, ...latencies(samples, begin, end), ...network(counted),
    concealed_percent: (100 * made) / Math.max(1, grown(before, after, "totalSamplesReceived")),
  };
}

/** When a burst was heard: the first of its tone after it was said. */
export function match(said: Burst, heard: readonly Burst[]): Sample | undefined {
  // Both ears are right to within a few milliseconds.
  const found = heard.find(({ at, tone }) =>
    tone === said.tone && at > said.at - 10 && at < said.at + LATE_MS);
  return found && { at: found.at, ms: Math.max(0, found.at - said.at) };
}

async function picture(us: Pair, seconds: number, kind: "camera" | "screen"): Promise<Row> {
  const { from, to } = us;
  const video = to.page.locator(`[data-kind=${kind}][aria-label^="${from.name}"] video`);
  const eye = await video.evaluateHandle((video: HTMLVideoElement) =>
    (globalThis as unknown as { instruments: Instruments }).instruments.watches(video));
  const arrived = () => eye.evaluate((one) => one.sights);
  const counted = await count(us, seconds, { kind, arrived });
  const { sights, unread, perS } = await eye.evaluate((one) => one.stop());
  const { before, after, begin, end } = counted;
  const span = (end - begin) / 1_000;
  const sent = await drawn(from.page, kind, [begin, end]);
  const samples = sights.filter(({ at }) => at >= begin && at < end);
  const worst = Math.min(...bySecond(samples, begin, Math.floor(span)).map((one) => one.length));
  return {
    ...base(counted),
    width: after.frameWidth ?? 0, height: after.frameHeight ?? 0, sent_per_s: sent / span,
    decoded_per_s: grown(before, after, "framesDecoded") / span, shown_per_s: perS,
    ...(Number.isFinite(worst) && { shown_worst_second: worst }),
    dropped: grown(before, after, "framesDropped"), freezes: grown(before, after, "freezeCount"),
    unread, ...latencies(samples, begin, end), ...network(counted),
  };
}

/** How many frames were drawn within a time. */
function drawn(page: Page, kind: "camera" | "screen", span: [number, number]): Promise<number> {
  return page.evaluate(([kind, begin, end]) => {
    const { drawn } = (globalThis as unknown as { instruments: Instruments }).instruments;
    return (drawn[kind] ?? []).filter((at) => at >= begin && at < end).length;
  }, [kind, ...span] as const);
}

/** What the receiving browser counted, and when. */
interface Counted {
  before: RTCInboundRtpStreamStats;
  after: RTCInboundRtpStreamStats;
  /** Seconds, one look a second. */
  jitters: number[];
  /** Milliseconds since 1970. */
  begin: number;
  end: number;
}

interface Watched {
  kind: Kind;
  /** Everything that has arrived until now. */
  arrived: () => Promise<Sample[]>;
}

/** Counts for so many seconds from when something arrives, and longer until something has. */
async function count({ from, to }: Pair, seconds: number, watched: Watched): Promise<Counted> {
  const { kind, arrived } = watched;
  const since = async (begin: number) =>
    (await arrived()).filter(({ at, ms }) => at - ms >= begin).length;
  const some = (begin: number) =>
    until(`${from.name}'s ${kind}`, () => since(begin), (samples) => samples > 0, PATIENCE_MS);
  const look = async () => {
    const stats = await inbound(to.page, from.name, kind);
    if (!stats) throw new Error(`${from.name}'s ${kind} is not received any more`);
    return stats;
  };
  await some(0);
  const [begin, before] = [Date.now(), await look()];
  const looks = await each(seconds, look);
  await some(begin);
  const [after, end] = [await look(), Date.now()];
  return { before, after, jitters: looks.map((one) => one.jitter ?? 0), begin, end };
}

function base({ begin, end }: Counted): Row {
  return { seconds: (end - begin) / 1_000 };
}

function network({ before, after, jitters }: Counted): Row {
  const [lost, received] = [grown(before, after, "packetsLost"), grown(before, after, "packetsReceived")];
  const waited = grown(before, after, "jitterBufferDelay");
  return {
    jitter_ms: 1_000 * quantile(jitters, 0.5),
    loss_percent: lost + received > 0 ? (100 * Math.max(0, lost)) / (lost + received) : 100,
    playout_delay_ms: (1_000 * waited) / Math.max(1, grown(before, after, "jitterBufferEmittedCount")),
  };
}
