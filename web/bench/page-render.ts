/** What showing 1 to 8 pictures costs a browser (Wu et al., Table 3). */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { one, type Broker } from "../test/brokers";
import { enter, person, type Person } from "../test/people";
import { inbound, sees } from "../test/senses";
import { grown, second } from "./figures";
import { clip, CLIP, guest, type Guest } from "./guests";
import { plot } from "./plot";
import { machineCpu, rootOf, tree } from "./processes";
import { load, machine, verdict, type Report, type Row } from "./report";
import { TABLE_3 } from "./table3";

export interface RenderPlan {
  /** How many pictures at once, growing. */
  streams: readonly number[];
  /** Of each measurement. */
  seconds: number;
  /** Of the clip that all show. */
  clipSeconds: number;
  /** How long a page has pictures before it is measured. */
  settleSeconds: number;
  /** As it is typed. */
  command: string;
}

const CLIENT = "Sangam's page";
const PATIENCE_MS = 60_000;

/** Shows more and more pictures and measures at each number of them. */
export async function pageRender(plan: RenderPlan): Promise<Report> {
  const before = load();
  const folder = mkdtempSync(`${tmpdir()}/sangam-render-`);
  const guests: Guest[] = [];
  let broker: Broker | undefined;
  let anna: Person | undefined;
  try {
    const path = `${folder}/clip.mkv`;
    await clip(path, plan.clipSeconds);
    broker = await one();
    anna = await person("Anna", 520, [broker.origin], {
      settings: { camera: false, microphone: false },
    });
    anna.page.setDefaultTimeout(PATIENCE_MS);
    await enter(anna, `${broker.origin}/m/meet/weekly`);
    await anna.page.getByRole("article", { name: "Anna (you)" }).waitFor();
    const root = await rootOf(anna.browser);
    const ours: Row[] = [];
    for (const streams of plan.streams) {
      while (guests.length < streams) {
        guests.push(await guest(broker, `Guest ${guests.length + 1}`, path));
      }
      for (const { name } of guests) await sees(anna.page, name, PATIENCE_MS);
      await second(plan.settleSeconds);
      ours.push(await measure(anna, guests, { root, seconds: plan.seconds, empty: ours[0] }));
    }
    if (anna.faults.length > 0) throw new Error(anna.faults.join("; "));
    const browser = `Chromium ${anna.browser.version()}, headless`;
    return {
      experiment: "page-render",
      title: "CPU of a browser whose page shows CIF pictures of 500 kb/s each",
      ours, paper: [...TABLE_3], notes: NOTES,
      machine: machine(plan.command, browser, before), verdict: verdict([]),
    };
  } finally {
    for (const one of guests) one.leave();
    await anna?.leave();
    await broker?.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** How far one picture has come. */
interface Mark {
  stats: RTCInboundRtpStreamStats;
  /** Frames the browser took to be shown, and the page's clock then, in milliseconds. */
  shown: number;
  at: number;
}

interface Setting {
  /** The browser's first process. */
  root: number;
  seconds: number;
  /** The row without pictures, if there is one. */
  empty: Row | undefined;
}

async function measure(anna: Person, guests: readonly Guest[], setting: Setting): Promise<Row> {
  const { root, seconds, empty } = setting;
  const marks = () => Promise.all(guests.map(({ name }) => mark(anna, name)));
  const first = await marks();
  // Asking takes no part in what is measured.
  const [cpu, all, begin] = [tree(root), machineCpu(), performance.now()];
  await second(seconds);
  const [cpuAfter, allAfter, end] = [tree(root), machineCpu(), performance.now()];
  const last = await marks();
  const percent = (used: number) => (100_000 * used) / (end - begin);
  const kind = (name: string) => percent((cpuAfter.kinds[name] ?? 0) - (cpu.kinds[name] ?? 0));
  const [user, system] = [percent(cpuAfter.user - cpu.user), percent(cpuAfter.system - cpu.system)];
  const row: Row = {
    client: CLIENT, streams: guests.length, seconds: (end - begin) / 1_000,
    browser_cpu_percent: user + system, user_percent: user, system_percent: system,
    renderer_percent: kind("renderer"), gpu_percent: kind("gpu-process"),
    machine_cpu_percent: percent(allAfter - all),
  };
  if (guests.length === 0) return row;
  if (empty) {
    row["stream_cpu_percent"] = (user + system - Number(empty["browser_cpu_percent"])) / guests.length;
  }
  const pairs = first.flatMap((mark, n) => (last[n] ? [[mark, last[n]] as const] : []));
  return { ...row, ...pictures(pairs) };
}

/** Mean and worst of the pictures. */
function pictures(pairs: readonly (readonly [Mark, Mark])[]): Row {
  const mean = (values: readonly number[]) => values.reduce((all, one) => all + one, 0) / values.length;
  const perS = (name: "framesDecoded" | "framesDropped" | "bytesReceived") => pairs.map(([a, b]) =>
    (1_000 * grown(a.stats, b.stats, name)) / (b.stats.timestamp - a.stats.timestamp));
  const decoded = perS("framesDecoded");
  const shown = pairs.map(([a, b]) => (1_000 * (b.shown - a.shown)) / (b.at - a.at));
  return {
    received_kbps: (mean(perS("bytesReceived")) * 8) / 1_000,
    decoded_per_s: mean(decoded), decoded_worst_per_s: Math.min(...decoded),
    shown_per_s: mean(shown), shown_worst_per_s: Math.min(...shown),
    dropped_per_s: mean(perS("framesDropped")),
  };
}

async function mark({ page }: Person, name: string): Promise<Mark> {
  const stats = await inbound(page, name, "camera");
  if (!stats) throw new Error(`${name} is not shown any more`);
  const video = page.locator(`[data-kind=camera][aria-label="${name}"] video`);
  // Once: a callback for every frame would be work of the page's.
  const [shown, at] = await video.evaluate((video: HTMLVideoElement, patience: number) =>
    new Promise<[number, number]>((resolve, reject) => {
      setTimeout(() => reject(new Error("no frame is shown")), patience);
      video.requestVideoFrameCallback((now, { presentedFrames }) => resolve([presentedFrames, now]));
    }), PATIENCE_MS);
  return { stats, shown, at };
}

/** Ours, and the middles of the paper's figures. */
export function drawing({ title, ours, paper }: Report): string {
  const of = (rows: readonly Row[], y: (row: Row) => number) =>
    rows.map((row) => [Number(row["streams"]), y(row)] as const);
  const cpu = (row: Row) => Number(row["browser_cpu_percent"]);
  const lines = [{ name: CLIENT, ours: true, points: of(ours, cpu) }];
  for (const client of new Set(paper.map((row) => String(row["client"])))) {
    const rows = paper.filter((row) => row["client"] === client);
    const middle = (row: Row) => (Number(row["cpu_from_percent"]) + Number(row["cpu_to_percent"])) / 2;
    lines.push({ name: `${client} (the paper)`, ours: false, points: of(rows, middle) });
  }
  return plot({ title, x: "streams", y: "percent of one core" }, lines);
}

const NOTES = [
  "`browser_cpu_percent` is user and system time of all processes of the browser, from /proc, in percent of "
    + "one core: decoding, the page, its drawing, SRTP and sockets. `stream_cpu_percent` is what is above the "
    + "row without streams, for each stream.",
  "The browser is headless and has no GPU: processors decode and draw the pictures (SwiftShader), which a "
    + "desktop's GPU does otherwise. Broker and senders share the same cores: where `machine_cpu_percent` is "
    + "near all of them, the browser got less than it wanted, and showed fewer frames.",
  `Each stream is a member's camera in the meeting page: ${CLIP.width}x${CLIP.height}, ${CLIP.perS} frames/s, `
    + `VP8 at ${CLIP.kbps} kb/s, one clip that a process for each member sends again and again without `
    + "encoding it. The broker encrypts it (SRTP).",
  "`shown_per_s` counts frames that the browser took to be shown (`requestVideoFrameCallback`, asked once at "
    + "both ends of the window), `decoded_per_s` those of `getStats`; `worst` is the stream with the fewest.",
  "The paper's clients decoded H.261, 30 s at 500 kb/s, on a computer it does not describe, whose percents are "
    + "of its one processor. Only how the lines grow can be compared.",
];
