// Figure 6 of the VCRoute paper, alive: sliders in, four timelines out. `WASM` (base64) stands in
// the script before this one.
"use strict";

const RECEIVERS = ["Buffer of four packets", "As WebRTC (NetEQ)", "WMJitter", "Ours"];
const PACKETS = 3000;
const SPACING_MS = 10;
/** What a timeline shows, in ms. */
const SPAN_MS = 900;
/** Packets are drawn in so many lines, so that their bars do not cover each other. */
const LINES = 16;
const UNITS = {
  jitter: " ms",
  loss: " %",
  paths: "",
  congestion: " ms",
  method: "",
  seed: "",
  second: " s",
};

const byId = (id) => document.getElementById(id);

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** One section for each receiver; returns where its numbers and its timeline go. */
function makeRows() {
  return RECEIVERS.map((name) => {
    const section = document.createElement("section");
    const head = document.createElement("h2");
    const numbers = document.createElement("span");
    const canvas = document.createElement("canvas");
    head.append(name, numbers);
    canvas.setAttribute("role", "img");
    section.append(head, canvas);
    byId("rows").append(section);
    return { name, numbers, canvas };
  });
}

/** A link may say where the sliders stand: `#jitter=30&paths=4`. */
function readLink() {
  for (const [id, value] of new URLSearchParams(location.hash.slice(1))) {
    if (id in UNITS) {
      byId(id).value = value;
    }
  }
}

function values() {
  const read = (id) => Number(byId(id).value);
  return Object.fromEntries(Object.keys(UNITS).map((id) => [id, read(id)]));
}

function showValues(set) {
  for (const [id, value] of Object.entries(set)) {
    const output = document.querySelector(`output[for=${id}]`);
    if (output) {
      output.value = value + UNITS[id];
    }
  }
}

function tell(row, receiver, lab) {
  const [release, playout, late, concealed] = [0, 1, 2, 3].map((n) => lab.summary(receiver, n));
  row.numbers.textContent =
    `release ${release.toFixed(1)} ms · playout ${playout.toFixed(1)} ms · ` +
    `late ${late.toFixed(2)} % · concealed ${(concealed / 1000).toFixed(2)} s`;
  row.canvas.setAttribute("aria-label", `${row.name}: ${row.numbers.textContent}`);
  Object.assign(row.canvas.dataset, { release, playout, late });
}

/** A canvas as large as it is shown, cleared. */
function prepare(canvas) {
  const { width, height } = canvas.getBoundingClientRect();
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  return { pen, width, height };
}

function drawTimeline(row, receiver, lab, fromMs) {
  const { pen, width, height } = prepare(row.canvas);
  const x = (ms) => ((ms - fromMs) / SPAN_MS) * width;
  const step = (height - 18) / LINES;
  drawAxis(pen, { x, height, fromMs });
  const first = Math.max(0, Math.floor((fromMs - 1000) / SPACING_MS));
  const last = Math.min(PACKETS, Math.ceil((fromMs + SPAN_MS) / SPACING_MS));
  for (let packet = first; packet < last; packet += 1) {
    const [arrived, released, played] = [0, 1, 2].map((n) => lab.moment(receiver, packet, n));
    const y = (packet % LINES) * step + step / 2;
    drawPacket(pen, { x, y, step, sent: packet * SPACING_MS, arrived, released, played });
  }
}

function drawAxis(pen, { x, height, fromMs }) {
  pen.font = "11px system-ui, sans-serif";
  pen.fillStyle = colour("--faint");
  for (let ms = Math.ceil(fromMs / 100) * 100; ms < fromMs + SPAN_MS; ms += 100) {
    pen.fillRect(x(ms), 0, 0.5, height - 14);
    pen.fillText(`${(ms / 1000).toFixed(1)} s`, x(ms) + 2, height - 3);
  }
}

function drawPacket(pen, { x, y, step, sent, arrived, released, played }) {
  if (Number.isNaN(arrived)) {
    pen.strokeStyle = colour("--faint");
    pen.beginPath();
    pen.arc(x(sent), y, step / 4, 0, 2 * Math.PI);
    pen.stroke();
    return;
  }
  if (Number.isNaN(released)) {
    const arm = step / 3;
    pen.strokeStyle = colour("--late");
    pen.beginPath();
    pen.moveTo(x(arrived) - arm, y - arm);
    pen.lineTo(x(arrived) + arm, y + arm);
    pen.moveTo(x(arrived) - arm, y + arm);
    pen.lineTo(x(arrived) + arm, y - arm);
    pen.stroke();
    return;
  }
  pen.fillStyle = colour("--waits");
  pen.fillRect(x(released), y - step / 4, Math.max(x(played) - x(released), 0), step / 2);
  pen.fillStyle = colour("--held");
  pen.fillRect(x(arrived), y - step / 4, Math.max(x(released) - x(arrived), 1.5), step / 2);
}

async function start() {
  const bytes = Uint8Array.from(atob(WASM), (letter) => letter.charCodeAt(0));
  const lab = (await WebAssembly.instantiate(bytes, {})).instance.exports;
  const rows = makeRows();
  const show = () => {
    const set = values();
    showValues(set);
    lab.route(set.method, set.congestion);
    lab.run(set.seed, set.jitter, set.loss, set.paths, PACKETS);
    rows.forEach((row, receiver) => {
      tell(row, receiver, lab);
      drawTimeline(row, receiver, lab, set.second * 1000);
    });
    document.body.dataset.shown = Number(document.body.dataset.shown || 0) + 1;
  };
  byId("sliders").addEventListener("input", show);
  window.addEventListener("hashchange", () => {
    readLink();
    show();
  });
  window.addEventListener("resize", show);
  readLink();
  show();
}

start().catch((error) => {
  byId("rows").textContent = `This page needs WebAssembly: ${error}`;
});
