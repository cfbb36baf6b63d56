/** How sound, pictures and drawings get from one browser to another, over two linked brokers. */

import { two, type Broker } from "../test/brokers";
import { button } from "../test/couple";
import { board as boardOf, opens } from "../test/drawing";
import { enter, person, type Person } from "../test/people";
import { sees } from "../test/senses";
import { second } from "./figures";
import { equip } from "./instruments";
import { MEDIA, METERS, type Medium, type Pair } from "./meters";
import { machineCpu } from "./processes";
import { check, load, machine, verdict, type Check, type Report, type Row } from "./report";

export interface ApplicationPlan {
  /** What is measured at once, one after the other. */
  rounds: readonly (readonly Medium[])[];
  seconds: number;
  /** How long media flow before they are measured. */
  settleSeconds: number;
  /** As it is typed. */
  command: string;
}

/** Each by itself, and all at once. */
export const ROUNDS: ApplicationPlan["rounds"] = [...MEDIA.map((medium) => [medium]), MEDIA];

const PATIENCE_MS = 60_000;
/** Szigeti, Quality of Service Design Overview, as the paper quotes it: half of the round trip. */
const LATENCY_MS_MAX = 150;
const JITTER_MS_MAX = 60;
const LOSS_PERCENT_MAX = 1;
/** Bert sends nothing; nobody waits for a click to hear something. */
const MEANS = {
  args: ["--autoplay-policy=no-user-gesture-required"],
  settings: { camera: false, microphone: false },
};

/** Measures round after round between two browsers. */
export async function application(plan: ApplicationPlan): Promise<Report> {
  const before = load();
  let brokers: Broker[] = [];
  const people: Person[] = [];
  try {
    brokers = await two();
    const origins = brokers.map((one) => one.origin);
    for (const [n, name] of ["Anna", "Bert"].entries()) {
      const one = await person(name, 520, origins, MEANS);
      people.push(one);
      one.page.setDefaultTimeout(PATIENCE_MS);
      await equip(one.context);
      await enter(one, `${origins[n]}/m/meet/weekly`);
      await one.page.getByRole("article", { name: `${name} (you)` }).waitFor();
    }
    const [from, to] = people as [Person, Person];
    await to.page.getByRole("article", { name: from.name, exact: true }).waitFor();
    const ours: Row[] = [];
    for (const round of plan.rounds) ours.push(...(await measure({ from, to }, round, plan)));
    const faults = people.flatMap((one) => one.faults);
    if (faults.length > 0) throw new Error(faults.join("; "));
    const browser = `Chromium ${from.browser.version()}, headless`;
    return {
      experiment: "application",
      title: "Sound, camera, screen and whiteboard from one browser to another over two linked brokers",
      ours, paper: [], notes: NOTES,
      machine: machine(plan.command, browser, before), verdict: verdict(ours.flatMap(checks)),
    };
  } finally {
    await Promise.all(people.map((one) => one.leave()));
    await Promise.all(brokers.map((one) => one.kill()));
  }
}

async function measure(us: Pair, round: readonly Medium[], plan: ApplicationPlan): Promise<Row[]> {
  for (const medium of round) await SWITCHES[medium].on(us);
  await second(plan.settleSeconds);
  const [cpu, begin] = [machineCpu(), performance.now()];
  const rows = await Promise.all(round.map((medium) => METERS[medium](us, plan.seconds)));
  const used = (100_000 * (machineCpu() - cpu)) / (performance.now() - begin);
  for (const medium of round) await SWITCHES[medium].off(us);
  const together = round.length > 1;
  return rows.map((row, n) =>
    ({ medium: round[n] ?? "", together, ...row, machine_cpu_percent: used }));
}

interface Switch {
  /** Switches on, and waits until it arrives. */
  on(us: Pair): Promise<void>;
  off(us: Pair): Promise<void>;
}

const click = async (one: Person, name: string | RegExp) => button(one, name).click();

const SWITCHES: Record<Medium, Switch> = {
  audio: {
    on: async ({ from, to }) => {
      await click(from, "Unmute");
      await button(from, "Mute").waitFor();
      await to.page.locator("audio[data-member]").first().waitFor({ state: "attached" });
    },
    off: ({ from }) => click(from, "Mute"),
  },
  video: {
    on: async ({ from, to }) => {
      await click(from, "Camera on");
      await sees(to.page, from.name, PATIENCE_MS);
    },
    off: ({ from }) => click(from, "Camera off"),
  },
  screen: {
    on: async ({ from, to }) => {
      await click(from, "Share your screen");
      await sees(to.page, from.name, PATIENCE_MS, "screen");
    },
    off: async ({ from, to }) => {
      await click(from, "Stop sharing");
      await to.page.locator("[data-kind=screen]").waitFor({ state: "detached" });
    },
  },
  board: {
    on: async ({ from, to }) => {
      for (const one of [from, to]) await opens(one, "draws");
    },
    off: async ({ from, to }) => {
      for (const one of [from, to]) {
        await click(one, /^Whiteboard/);
        await boardOf(one).waitFor({ state: "detached" });
      }
    },
  },
};

/** What the paper asks of networks for speech, asked of speech itself. */
function checks(row: Row): Check[] {
  if (row["medium"] !== "audio" || row["together"] === true) return [];
  const value = (name: string) => Number(row[name]);
  return [
    check("audio: 95 % of latencies, in ms", value("latency_p95_ms"), { at_most: LATENCY_MS_MAX }),
    check("audio: jitter in ms", value("jitter_ms"), { at_most: JITTER_MS_MAX }),
    check("audio: lost packets in percent", value("loss_percent"), { at_most: LOSS_PERCENT_MAX }),
  ];
}

const NOTES = [
  "Fox et al. promise figures of the application and give none. The bounds on speech are those they quote "
    + "for networks (round trip 300 ms, of which one way is half; jitter 60 ms; loss 1 %), here with "
    + "everything that browsers add.",
  "`latency` of pictures: from when the sending page draws the time into a frame (a canvas in place of camera "
    + "and screen) until the receiving page reads it off the frame that is shown "
    + "(`requestVideoFrameCallback`). Both read one clock, whose steps are 1 ms. Capturing by a camera and "
    + "lighting a screen are not in it.",
  "`latency` of `audio`: from the onset of a tone in the track that is sent to its onset in the track that is "
    + "received, found in the samples by the same ear at both ends. Microphone and loudspeaker are not in it.",
  "`latency` of `board`: from the press of the pen until the shape is painted at the other. The page gathers "
    + "changes for up to 100 ms before it tells them.",
  "`latency_best_second_ms` and `latency_worst_second_ms` are medians of whole seconds.",
  "`jitter_ms`, `loss_percent` and `playout_delay_ms` (how long media wait in the jitter buffer, on average) "
    + "are of `getStats` at the receiver; jitter is the median of one look a second.",
  "Both browsers and both brokers share this machine, headless and without a GPU: its cores encode, decode and "
    + "draw all pictures. Where `machine_cpu_percent` is near all of them, latencies are those of an "
    + "overloaded machine.",
];
