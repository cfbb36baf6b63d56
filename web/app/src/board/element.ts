/**
 * What a shape is on its way: the fields that are known here, and no others. Whatever comes from
 * others is hostile until it was read by `read`.
 */

/** Shapes that are shared; pictures and embedded pages are not. */
export const TYPES = ["rectangle", "diamond", "ellipse", "arrow", "line", "freedraw", "text"] as const;

/** Bytes of one shape as it is kept, points of a line, characters of a text. */
export const ELEMENT_MAX = 32_768;
const POINTS_MAX = 4_000;
const TEXT_MAX = 10_000;
/** Of names and colours. */
const WORD_MAX = 64;
/** Of coordinates: further away nobody looks. */
const FAR = 10_000_000;
const LIST_MAX = 64;

/** A shape as it is kept; without what is as usual. */
export type Kept = { [field: string]: unknown };
/** A shape in Excalidraw's words, as much of it as is read here. */
export interface Shape extends Kept {
  id: string;
  type: (typeof TYPES)[number];
  version: number;
  versionNonce: number;
  isDeleted: boolean;
}

type Check = (value: unknown) => boolean;

const number: Check = (value) => typeof value === "number" && Math.abs(value) <= FAR;
const integer: Check = (value) => Number.isSafeInteger(value);
const flag: Check = (value) => typeof value === "boolean";
const text = (most: number): Check => (value) => typeof value === "string" && value.length <= most;
const word = text(WORD_MAX);
const none = (check: Check): Check => (value) => value === null || check(value);
const list = (most: number, check: Check): Check => (value) =>
  Array.isArray(value) && value.length <= most && value.every(check);
const color: Check = (value) => typeof value === "string" && /^(#[0-9a-f]{3,8}|transparent)$/i.test(value);
const point: Check = (value) => Array.isArray(value) && value.length === 2 && value.every(number);
const fields = (wanted: Record<string, Check>): Check => (value) => {
  if (typeof value !== "object" || value === null) return false;
  const own = Object.entries(value);
  const known = ([name, one]: [string, unknown]) =>
    Object.hasOwn(wanted, name) && (wanted[name]?.(one) ?? false);
  return own.length <= Object.keys(wanted).length && own.every(known);
};
const binding = fields({ elementId: word, focus: number, gap: number });

/** Every field that is shared, how it is checked, and what it is as usual. */
const FIELDS: Record<string, [check: Check, usual?: unknown]> = {
  x: [number], y: [number], width: [number], height: [number], angle: [number, 0],
  strokeColor: [color, "#1e1e1e"], backgroundColor: [color, "transparent"],
  fillStyle: [word, "solid"], strokeWidth: [number, 2], strokeStyle: [word, "solid"],
  roundness: [none(fields({ type: integer, value: number })), null],
  roughness: [number, 1], opacity: [number, 100], seed: [integer],
  version: [integer], versionNonce: [integer], index: [none(word)],
  groupIds: [list(LIST_MAX, word), []],
  boundElements: [none(list(LIST_MAX, fields({ id: word, type: word }))), null],
  locked: [flag, false],
  points: [list(POINTS_MAX, point)],
  pressures: [list(POINTS_MAX, number), []], simulatePressure: [flag, true],
  startBinding: [none(binding), null], endBinding: [none(binding), null],
  startArrowhead: [none(word), null], endArrowhead: [none(word), null],
  fontSize: [number, 20], fontFamily: [integer, 5], text: [text(TEXT_MAX)],
  originalText: [text(TEXT_MAX)], textAlign: [word, "left"], verticalAlign: [word, "top"],
  containerId: [none(word), null], autoResize: [flag, true], lineHeight: [number, 1.25],
};

/** What is kept of a shape; none if it is of a kind that is not shared. */
export function keep(shape: Kept): Kept | undefined {
  if (!TYPES.includes(shape["type"] as Shape["type"])) return undefined;
  const kept: Kept = { type: shape["type"] };
  for (const [name, [check, usual]] of Object.entries(FIELDS)) {
    const value = shape[name];
    if (value === undefined || !check(value) || same(value, usual)) continue;
    kept[name] = name === "points" ? (value as number[][]).map((one) => one.map(round)) : value;
  }
  return read(shape["id"], kept) ? kept : undefined;
}

/** A shape that somebody else kept, if it is one. */
export function read(id: unknown, kept: unknown): Shape | undefined {
  if (!word(id) || typeof kept !== "object" || kept === null) return undefined;
  const given = kept as Kept;
  if (!TYPES.includes(given["type"] as Shape["type"])) return undefined;
  const shape: Kept = { id, type: given["type"], isDeleted: false, link: null, frameId: null };
  for (const [name, [check, usual]] of Object.entries(FIELDS)) {
    const value = given[name];
    if (value === undefined) {
      if (usual !== undefined) shape[name] = usual;
      continue;
    }
    if (!check(value)) return undefined;
    shape[name] = value;
  }
  const whole = ["x", "y", "width", "height", "version", "versionNonce"].every((name) => name in shape);
  const drawn = ["arrow", "line", "freedraw"].includes(String(shape["type"]));
  return whole && (!drawn || "points" in shape) ? (shape as Shape) : undefined;
}

/** Of two states of a shape the one that stays: Excalidraw's rule. */
export function newer(a: Kept, b: Kept | undefined): boolean {
  if (!b) return true;
  const [left, right] = [Number(a["version"]), Number(b["version"])];
  return left > right || (left === right && Number(a["versionNonce"]) < Number(b["versionNonce"]));
}

/** A hundredth of a pixel is enough. */
function round(value: number): number {
  return Math.round(value * 100) / 100;
}

function same(value: unknown, usual: unknown): boolean {
  return value === usual || (Array.isArray(usual) && Array.isArray(value) && value.length === 0);
}
