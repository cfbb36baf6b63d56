/** People in browsers: each has a browser, a tone of its own and a moving picture. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { figure, tone as sine } from "./footage";

export const OUT = process.env["OUT"]
  ?? fileURLToPath(new URL("../../out/web", import.meta.url));
const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";

/** Those who look different; everybody else looks like the first. */
const LIKE = ["Anna", "Bert", "Cara", "Dirk"];

export interface Person {
  name: string;
  /** Hertz. */
  tone: number;
  browser: Browser;
  context: BrowserContext;
  page: Page;
  /** What a page may not do: requests elsewhere, errors, breaches of its policy. */
  faults: string[];
  leave(): Promise<void>;
}

/** What one person has and others have not. */
export interface Means {
  /** Starts the browser. */
  program?: string;
  /** More arguments for it. */
  args?: string[];
  /** Whether it has no camera. */
  blind?: boolean;
  /** What this one chose in the page, once. */
  settings?: object;
}

/** A person with a browser, who has not come yet. `origins` are where its page may call. */
export async function person(
  name: string, tone: number, origins: string[], means: Means = {},
): Promise<Person> {
  const folder = mkdtempSync(`${tmpdir()}/sangam-page-`);
  writeFileSync(`${folder}/tone.wav`, sine(tone));
  writeFileSync(`${folder}/figure.y4m`, figure(LIKE.indexOf(name)));
  const camera = means.blind ? ["--use-fake-device-for-media-stream=device-count=0"] : [
    "--use-fake-device-for-media-stream",
    `--use-file-for-fake-video-capture=${folder}/figure.y4m`,
  ];
  const browser = await chromium.launch({
    executablePath: means.program ?? CHROMIUM,
    args: [
      "--no-sandbox", "--use-fake-ui-for-media-stream", ...camera,
      `--use-file-for-fake-audio-capture=${folder}/tone.wav`,
      "--auto-select-desktop-capture-source=Entire screen", "--auto-accept-this-tab-capture",
      "--disable-background-networking", "--disable-component-update", "--disable-sync",
      // Cameras are for pages of this machine and of TLS; tests have neither beyond loopback.
      `--unsafely-treat-insecure-origin-as-secure=${origins.join(",")}`,
      // Nothing else can answer.
      "--proxy-server=127.0.0.1:9", "--proxy-bypass-list=127.0.0.1;10.77.0.1",
      ...(means.args ?? []),
    ],
  });
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  // A filter for noise takes a tone for noise; and two processors are no place for 720p.
  const chosen = { name, saveData: true, originalSound: true, language: "en" };
  const settings = { ...chosen, ...means.settings };
  await context.addInitScript((kept) => {
    if (!localStorage.getItem("sangam.settings")) {
      localStorage.setItem("sangam.settings", JSON.stringify(kept));
    }
  }, settings);
  // Frames are counted where they are decoded, and devices where they open: the page tells neither.
  await context.addInitScript(() => {
    const connections = new Set<RTCPeerConnection>();
    globalThis.RTCPeerConnection = class extends RTCPeerConnection {
      constructor(...wanted: ConstructorParameters<typeof RTCPeerConnection>) {
        super(...wanted);
        connections.add(this);
      }
    };
    const tracks: MediaStreamTrack[] = [];
    const devices = MediaDevices.prototype;
    const open = devices.getUserMedia;
    devices.getUserMedia = async function (wanted) {
      const stream = await open.call(this, wanted);
      tracks.push(...stream.getTracks());
      return stream;
    };
    Object.assign(globalThis, { connections, tracks });
  });
  const page = await context.newPage();
  page.setDefaultTimeout(12_000);
  const faults: string[] = [];
  page.on("request", (request) => {
    const url = request.url();
    const own = origins.some((origin) => url.startsWith(`${origin}/`));
    if (!own && !/^(blob|data):/.test(url)) faults.push(`request to ${url}`);
  });
  page.on("pageerror", (error) => faults.push(`${error.name}: ${error.message}`));
  page.on("console", (message) => {
    const text = message.text();
    if (/Content Security Policy|Refused to/.test(text)) faults.push(text);
    if (process.env["VERBOSE"]) console.log(`${name}: ${text}`);
  });
  const leave = async () => {
    await browser.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return { name, tone, browser, context, page, faults, leave };
}

/** Follows a link, waits for the connection test, and joins. */
export async function enter(one: Person, link: string): Promise<void> {
  await one.page.goto(link);
  await one.page.getByRole("button", { name: "Join now" }).click();
}

export async function picture(one: Person, name: string): Promise<void> {
  mkdirSync(`${OUT}/page`, { recursive: true });
  await one.page.screenshot({ path: `${OUT}/page/${name}.png` });
}
