/** Shapes that one draws, and when the other sees them. */

import { board, draws, painted } from "../test/drawing";
import type { Person } from "../test/people";
import { until } from "../test/senses";
import type { Sample } from "./figures";

/** Where shapes are drawn, in parts of the canvas; then the board is cleared. */
const ACROSS = [0.1, 0.25, 0.4, 0.55, 0.7];
const DOWN = [0.15, 0.35, 0.55];
const CELLS = DOWN.flatMap((y) => ACROSS.map((x): [number, number] => [x, y]));
/** Parts of the canvas that are watched, from the shape's corner on. */
const SIZE = 0.12;
/** Points of a shape that have to be painted. */
const POINTS_MIN = 20;
const PATIENCE_MS = 30_000;

export interface Strokes {
  samples: Sample[];
  /** Milliseconds since 1970. */
  begin: number;
  end: number;
}

/** What pages note: when the pen was pressed last, and when the shape is painted that is waited for. */
interface Looks {
  pressed: number;
  painted: Promise<number>;
}

/** Draws one shape after another for so many seconds, at least one. */
export async function strokes(
  { from, to }: { from: Person; to: Person }, seconds: number,
): Promise<Strokes> {
  await from.page.evaluate(() => {
    const note = ({ target }: Event) => {
      if (target instanceof HTMLCanvasElement) Object.assign(globalThis, { pressed: Date.now() });
    };
    addEventListener("pointerdown", note, { capture: true });
  });
  const samples: Sample[] = [];
  const begin = Date.now();
  let cell = 0;
  do {
    const at = CELLS[cell] ?? [0.1, 0.15];
    await look(to, at);
    await draws(from, "Rectangle", at);
    const seen = await to.page.evaluate(() => (globalThis as unknown as Looks).painted);
    const pressed = await from.page.evaluate(() => (globalThis as unknown as Looks).pressed);
    samples.push({ at: seen, ms: seen - pressed });
    cell += 1;
    if (cell === CELLS.length) {
      await clear(from, to);
      cell = 0;
    }
  } while (Date.now() - begin < seconds * 1_000);
  const end = Date.now();
  await clear(from, to);
  return { samples, begin, end };
}

async function clear(from: Person, to: Person): Promise<void> {
  await board(from).getByRole("button", { name: "Clear the board" }).click();
  for (const one of [from, to]) {
    await until(`${one.name}'s empty board`, () => painted(one.page), (points) => points === 0, PATIENCE_MS);
  }
}

/** Begins to look at a part of the canvas. */
async function look({ page }: Person, [x, y]: [number, number]): Promise<void> {
  await page.evaluate(([x, y, size, points, patience]) => {
    const canvas = document.querySelector<HTMLCanvasElement>("canvas.static");
    const brush = canvas?.getContext("2d");
    if (!canvas || !brush) throw new Error("no board");
    const begin = Date.now();
    const dark = () => {
      const { width, height } = canvas;
      const { data } = brush.getImageData(width * x, height * y, width * size, height * size);
      return data.filter((level, at) => at % 4 === 0 && level < 200).length;
    };
    const painted = new Promise<number>((resolve, reject) => {
      const again = () => {
        const now = Date.now();
        if (dark() >= points) resolve(now);
        else if (now - begin > patience) reject(new Error("no shape is painted"));
        else requestAnimationFrame(again);
      };
      requestAnimationFrame(again);
    });
    Object.assign(globalThis, { painted });
  }, [x, y, SIZE, POINTS_MIN, PATIENCE_MS] as const);
}
