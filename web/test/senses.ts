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
  const more = (now: number) => now >= before + 5;
  // A connection that was made anew counts from nothing.
  const ask = () => frames(page, name, kind);
  await until(`${name}'s frames after ${before}`, ask, (now) => more(now) || (now > 5 && now < before), patienceMs);
}

/** Waits until all of these tones are heard. */
export async function hears(page: Page, wanted: number | number[], patienceMs?: number): Promise<void> {
  const near = (heard: number[]) =>
    [wanted].flat().every((tone) => heard.some((one) => Math.abs(one - tone) < 15));
  await until(`tones of ${String(wanted)} Hz`, () => tones(page), near, patienceMs);
}
