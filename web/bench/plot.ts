/** One picture of lines: ours in colour, the paper's in grey. */

export interface Line {
  name: string;
  ours: boolean;
  points: readonly (readonly [x: number, y: number])[];
}

export interface Axes {
  title: string;
  x: string;
  y: string;
}

const [WIDE, TALL] = [860, 480];
const EDGE = { left: 72, right: 24, top: 48, bottom: 56 };
const FONT = 'font-family="sans-serif" font-size="14"';
/** Of the bench's other pictures: they also differ in brightness. */
const OURS = ["#005aa0", "#d66000", "#008c60", "#a01e6e"];
const PAPER = ["#6e6e6e", "#8c8c8c", "#aaaaaa"];
const STEPS = 6;

/** The picture as SVG text; both axes begin at 0. */
export function plot({ title, x, y }: Axes, lines: readonly Line[]): string {
  const all = lines.flatMap((line) => line.points);
  const across = scale(Math.max(1, ...all.map((point) => point[0])), [EDGE.left, WIDE - EDGE.right]);
  const up = scale(Math.max(1, ...all.map((point) => point[1])), [TALL - EDGE.bottom, EDGE.top]);
  const parts = [
    `<svg width="${WIDE}" height="${TALL}" viewBox="0 0 ${WIDE} ${TALL}" xmlns="http://www.w3.org/2000/svg">`,
    `<rect width="${WIDE}" height="${TALL}" fill="#ffffff"/>`,
    label(WIDE / 2, 28, "middle", title),
    label(WIDE / 2, TALL - 14, "middle", x),
    `<text transform="translate(20 ${TALL / 2}) rotate(-90)" text-anchor="middle" ${FONT}>`
      + `${escape(y)}</text>`,
    ...across.marks.flatMap((mark) => [
      rule(across.at(mark), EDGE.top, across.at(mark), TALL - EDGE.bottom),
      label(across.at(mark), TALL - EDGE.bottom + 20, "middle", String(mark)),
    ]),
    ...up.marks.flatMap((mark) => [
      rule(EDGE.left, up.at(mark), WIDE - EDGE.right, up.at(mark)),
      label(EDGE.left - 8, up.at(mark) + 5, "end", String(mark)),
    ]),
    ...lines.flatMap((line, n) => {
      const color = colour(lines, n);
      const at = line.points.map(([px, py]) => [across.at(px).toFixed(1), up.at(py).toFixed(1)]);
      return [
        `<polyline points="${at.map((one) => one.join(",")).join(" ")}" fill="none"`
          + ` stroke="${color}" stroke-width="2"/>`,
        ...at.map(([px, py]) => `<circle cx="${px}" cy="${py}" r="3" fill="${color}"/>`),
        `<rect x="${EDGE.left + 12}" y="${EDGE.top + 6 + n * 20}" width="18" height="3" fill="${color}"/>`,
        label(EDGE.left + 38, EDGE.top + 12 + n * 20, "start", line.name),
      ];
    }),
    "</svg>",
  ];
  return `${parts.join("\n")}\n`;
}

/** From 0 to a round number that holds `top`, onto pixels. */
function scale(top: number, [from, to]: readonly [number, number]) {
  const rough = top / STEPS;
  const ten = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((one) => one * ten >= rough) ?? 10) * ten;
  const end = Math.ceil(top / step) * step;
  const round = (value: number) => Math.round(value * 1e6) / 1e6;
  const marks = Array.from({ length: Math.round(end / step) + 1 }, (_, n) => round(n * step));
  return { marks, at: (value: number) => from + ((to - from) * value) / end };
}

function colour(lines: readonly Line[], n: number): string {
  const own = lines[n]?.ours ?? false;
  const before = lines.slice(0, n).filter((line) => line.ours === own).length;
  const colors = own ? OURS : PAPER;
  return colors[before % colors.length] ?? "#000000";
}

function label(x: number, y: number, anchor: string, text: string): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}" ${FONT}>${escape(text)}</text>`;
}

function rule(x1: number, y1: number, x2: number, y2: number): string {
  const at = `x1="${x1.toFixed(1)}" y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}"`;
  return `<line ${at} stroke="#e4e4e4"/>`;
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
