/** What somebody sees and hears in a page: measured there, not taken from what the page says. */

import type { Page } from "playwright-core";

/** What is received of a member: its microphone, its camera, or its screen. */
export type Kind = "sound" | "camera" | "screen";

/** What the browser counts of it; nothing before it is played. */
export function inbound(
  page: Page, name: string, kind: Kind,
): Promise<RTCInboundRtpStreamStats | undefined> {
  return page.evaluate(async ([name, kind]) => {
    const of = kind === "sound" ? "camera" : kind;
    const tiles = [...document.querySelectorAll<HTMLElement>(`[data-kind=${of}]`)];
    const tile = tiles.find((one) => one.getAttribute("aria-label")?.startsWith(name));
    const sound = `audio[data-member="${tile?.dataset["member"]}"]`;
    const player = kind === "sound"
      ? document.querySelector<HTMLAudioElement>(sound) : tile?.querySelector("video");
    const track = (player?.srcObject as MediaStream | null)?.getTracks()[0];
    const { connections } = globalThis as unknown as { connections: Set<RTCPeerConnection> };
    const receivers = [...connections].flatMap((one) => one.getReceivers());
    const receiver = receivers.find((one) => one.track === track);
    const dark = player instanceof HTMLVideoElement && player.videoWidth === 0;
    if (!receiver || dark) return undefined;
    for (const stat of (await receiver.getStats()).values()) {
      if (stat.type === "inbound-rtp") return { ...stat } as RTCInboundRtpStreamStats;
    }
    return undefined;
  }, [name, kind] as const);
}

/** How many frames of a member's camera or screen were decoded and are being shown. */
export async function frames(page: Page, name: string, kind: Kind = "camera"): Promise<number> {
  return (await inbound(page, name, kind))?.framesDecoded ?? 0;
}

/** How many cameras and microphones the page has open. */
export function devices(page: Page): Promise<number> {
  return page.evaluate(() => {
    const { tracks } = globalThis as unknown as { tracks: MediaStreamTrack[] };
    return tracks.filter((one) => one.readyState === "live").length;
  });
}

/** The loudest frequency, in hertz, of each sound that the page plays; 0 for silence. */
export function tones(page: Page): Promise<number[]> {
  return page.evaluate(() => {
    const tone = async (element: HTMLAudioElement): Promise<number[]> => {
      const stream = element.srcObject as MediaStream | null;
      if (!stream) return [];
      const context = new AudioContext({ sampleRate: 48_000 });
      const analyser = context.createAnalyser();
      analyser.fftSize = 8_192;
      context.createMediaStreamSource(stream).connect(analyser);
      await context.resume();
      const until = performance.now() + 600;
      while (performance.now() < until) await new Promise(requestAnimationFrame);
      const bins = new Float32Array(analyser.frequencyBinCount);
      analyser.getFloatFrequencyData(bins);
      const loudest = bins.reduce((best, level, n) => (level > (bins[best] ?? -999) ? n : best), 0);
      const level = bins[loudest] ?? -999;
      await context.close();
      return [level > -60 ? (loudest * 48_000) / 8_192 : 0];
    };
    // All at once: each takes its time.
    return Promise.all([...document.querySelectorAll("audio")].map(tone)).then((all) => all.flat());
  });
}

/** For how long at most nothing came of a kind, in milliseconds, and how many connections were made. */
export interface Gaps {
  audio: number;
  video: number;
  made: number;
}

/** Begins to watch what comes to a page; what it gives ends that and tells. */
export async function watch(page: Page): Promise<() => Promise<Gaps>> {
  await page.evaluate(() => {
    const { connections } = globalThis as unknown as { connections: Set<RTCPeerConnection> };
    const before = connections.size;
    const began = performance.now();
    const seen = {
      audio: { count: 0, at: began, longest: 0 }, video: { count: 0, at: began, longest: 0 },
    };
    const look = async () => {
      const counts = { audio: 0, video: 0 };
      for (const connection of connections) {
        if (connection.connectionState === "closed") continue;
        for (const stat of (await connection.getStats()).values()) {
          if (stat.type !== "inbound-rtp") continue;
          // Whether a busy machine decodes what came in time is another question.
          counts[stat.kind as "audio" | "video"] += Number(stat.packetsReceived);
        }
      }
      const now = performance.now();
      for (const kind of ["audio", "video"] as const) {
        const one = seen[kind];
        if (counts[kind] !== one.count) [one.count, one.at] = [counts[kind], now];
        one.longest = Math.max(one.longest, now - one.at);
      }
    };
    const timer = setInterval(() => void look(), 50);
    const watched = async () => {
      clearInterval(timer);
      await look();
      const { audio, video } = seen;
      return { audio: audio.longest, video: video.longest, made: connections.size - before };
    };
    Object.assign(globalThis, { watched });
  });
  return () => page.evaluate(() => {
    const { watched } = globalThis as unknown as { watched(): Promise<Gaps> };
    return watched();
  });
}

/** Between two questions: the processors are for who is asked. */
const PAUSE_MS = 50;

/** Asks again until the answer fits; fails with the last one. */
export async function until<T>(
  what: string, ask: () => Promise<T>, fits: (answer: T) => boolean, patienceMs = 15_000,
): Promise<T> {
  const end = performance.now() + patienceMs;
  for (;;) {
    const answer = await ask();
    if (fits(answer)) return answer;
    if (performance.now() > end) throw new Error(`${what}: ${JSON.stringify(answer)}`);
    await new Promise((again) => setTimeout(again, PAUSE_MS));
  }
}

/** Waits until a member's frames go on coming. */
export async function sees(page: Page, name: string, patienceMs?: number, kind?: Kind): Promise<void> {
  const before = await frames(page, name, kind);
  const goes = (stats?: RTCInboundRtpStreamStats) => {
    const now = stats?.framesDecoded ?? 0;
    // A connection that was made anew counts from nothing.
    return now >= before + 5 || (now > 5 && now < before);
  };
  // Everything that is counted, as whoever finds none wants to know how far they came.
  await until(`${name}'s frames after ${before}`, () => inbound(page, name, kind ?? "camera"), goes, patienceMs);
}

/** Waits until all of these tones are heard. */
export async function hears(page: Page, wanted: number | number[], patienceMs?: number): Promise<void> {
  const near = (heard: number[]) =>
    [wanted].flat().every((tone) => heard.some((one) => Math.abs(one - tone) < 15));
  await until(`tones of ${String(wanted)} Hz`, () => tones(page), near, patienceMs);
}
