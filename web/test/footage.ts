/** What cameras and microphones of tests bring: a tone, and somebody who sways before a wall. */

const RATE = 48_000;
const WIDTH = 640;
const HEIGHT = 360;
const PER_S = 15;
const FRAMES = 30;
/** Pixels to either side. */
const SWAY = 8;

/** A second of a sine, which the browser repeats without end. */
export function tone(hertz: number): Buffer {
  const file = Buffer.alloc(44 + RATE * 2);
  file.write("RIFF", 0);
  file.writeUInt32LE(36 + RATE * 2, 4);
  file.write("WAVEfmt ", 8);
  file.writeUInt32LE(16, 16);
  file.writeUInt16LE(1, 20);
  file.writeUInt16LE(1, 22);
  file.writeUInt32LE(RATE, 24);
  file.writeUInt32LE(RATE * 2, 28);
  file.writeUInt16LE(2, 32);
  file.writeUInt16LE(16, 34);
  file.write("data", 36);
  file.writeUInt32LE(RATE * 2, 40);
  for (let n = 0; n < RATE; n++) {
    file.writeInt16LE(Math.round(Math.sin((2 * Math.PI * hertz * n) / RATE) * 12_000), 44 + n * 2);
  }
  return file;
}

type Color = readonly [red: number, green: number, blue: number];

interface Look {
  wall: Color;
  shirt: Color;
  skin: Color;
  hair: Color;
  long: boolean;
  /** Books behind it, or a picture. */
  reads: boolean;
}

const LOOKS: readonly Look[] = [
  { wall: [150, 174, 190], shirt: [176, 112, 58], skin: [226, 178, 150], hair: [74, 46, 34], long: true, reads: true },
  { wall: [196, 176, 150], shirt: [58, 98, 150], skin: [214, 162, 130], hair: [44, 38, 38], long: false, reads: false },
  { wall: [168, 182, 156], shirt: [134, 74, 110], skin: [148, 98, 70], hair: [28, 24, 26], long: true, reads: true },
  { wall: [172, 166, 186], shirt: [60, 120, 100], skin: [234, 192, 166], hair: [150, 104, 58], long: false, reads: false },
];
const BOOKS: readonly Color[] = [[120, 70, 62], [70, 96, 116], [186, 156, 96], [84, 104, 80], [104, 84, 116]];
const WHITE: Color = [240, 238, 234];
const DARK: Color = [46, 38, 40];

/** Two seconds of somebody before a wall, as YUV4MPEG2; there are four who look different. */
export function figure(person: number): Buffer {
  const look = LOOKS[person] ?? LOOKS[0]!;
  const whole = still(look);
  const parts = [Buffer.from(`YUV4MPEG2 W${WIDTH} H${HEIGHT} F${PER_S}:1 Ip A1:1 C420jpeg\n`)];
  for (let n = 0; n < FRAMES; n++) {
    // Colours have half of the points: an even step moves all alike.
    const step = SWAY + 2 * Math.round((SWAY / 2) * Math.sin((2 * Math.PI * n) / FRAMES));
    parts.push(Buffer.from("FRAME\n"), ...window(whole, step));
  }
  return Buffer.concat(parts);
}

interface Plane {
  width: number;
  data: Buffer<ArrayBuffer>;
}

/** A picture that is wider than what is shown of it. */
function still(look: Look): Plane[] {
  const width = WIDTH + 2 * SWAY;
  const [luma, blue, red] = [Buffer.alloc(width * HEIGHT), ...[0, 1].map(() => Buffer.alloc((width * HEIGHT) / 4))];
  for (let y = 0; y < HEIGHT; y++) {
    for (let x = 0; x < width; x++) {
      const [r, g, b] = smooth(x, y, look);
      // BT.601, of which WebRTC takes cameras to be.
      luma![y * width + x] = 16 + 0.257 * r + 0.504 * g + 0.098 * b;
      if (x % 2 || y % 2) continue;
      const at = (y / 2) * (width / 2) + x / 2;
      blue![at] = 128 - 0.148 * r - 0.291 * g + 0.439 * b;
      red![at] = 128 + 0.439 * r - 0.368 * g - 0.071 * b;
    }
  }
  return [{ width, data: luma! }, { width: width / 2, data: blue! }, { width: width / 2, data: red! }];
}

/** What is shown of a picture that begins `step` points from its left. */
function window(planes: Plane[], step: number): Buffer<ArrayBuffer>[] {
  const wide = WIDTH + 2 * SWAY;
  return planes.flatMap(({ width, data }) => {
    const part = width / wide;
    const rows = data.length / width;
    return Array.from({ length: rows }, (_, y) =>
      data.subarray(y * width + step * part, y * width + (step + WIDTH) * part));
  });
}

/** The mean of four points, so that edges have no steps. */
function smooth(x: number, y: number, look: Look): Color {
  const middle = WIDTH / 2 + SWAY;
  const sum = [0, 0, 0];
  for (const [right, low] of [[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]] as const) {
    const one = color((x + right - middle) / HEIGHT, (y + low) / HEIGHT, look);
    for (const n of [0, 1, 2]) sum[n]! += one[n]! / 4;
  }
  return sum as unknown as Color;
}

const times = ([r, g, b]: Color, light: number): Color => [r * light, g * light, b * light];

/** Across from the middle, down from the top, both in heights of the picture. */
function color(x: number, y: number, look: Look): Color {
  const side = Math.abs(x);
  const within = (across: number, down: number, wide: number, high: number) =>
    ((x - across) / wide) ** 2 + ((y - down) / high) ** 2 < 1;
  const face = faced(x, y, look);
  if (face) return face;
  if (within(0, 0.34, 0.172, 0.205)) return times(look.hair, 1.05 - 0.3 * side);
  if (within(-0.152, 0.43, 0.02, 0.036) || within(0.152, 0.43, 0.02, 0.036)) return times(look.skin, 0.88);
  if (side < 0.07 && y > 0.5 && y < 0.73 - 0.9 * side) return times(look.skin, y < 0.62 ? 0.78 : 0.9);
  if (look.long && within(0, 0.47, 0.205, 0.27)) return times(look.hair, 0.85);
  if (within(0, 1.06, 0.43, 0.4)) {
    const collar = y < 0.76 - 0.9 * side;
    return times(look.shirt, (collar ? 1.25 : 1) * (1 - 0.45 * side));
  }
  return behind(x, y, look);
}

/** What belongs to the face; nothing elsewhere. */
function faced(x: number, y: number, { skin, hair }: Look): Color | undefined {
  const side = Math.abs(x);
  const face = (side / 0.15) ** 2 + ((y - 0.41) / 0.2) ** 2;
  const fringe = 0.3 + 1.6 * (x + 0.05) ** 2;
  if (face >= 1 || y < fringe) return undefined;
  const eye = ((side - 0.062) / 0.026) ** 2 + ((y - 0.405) / 0.016) ** 2;
  if (eye < 1) {
    const iris = (side - 0.062) ** 2 + (y - 0.405) ** 2 < 0.0125 ** 2;
    return iris ? DARK : WHITE;
  }
  const brow = y - (0.368 + 2.2 * (side - 0.062) ** 2);
  if (side > 0.03 && side < 0.096 && Math.abs(brow) < 0.006) return times(hair, 0.95);
  const smile = y - (0.53 - 5 * side ** 2);
  if (side < 0.052 && Math.abs(smile) < 0.006) return times([skin[0], skin[1] * 0.62, skin[2] * 0.62], 0.78);
  if (side < 0.022 && y > 0.455 && y < 0.468 - 3 * side ** 2) return times(skin, 0.84);
  const cheek = ((side - 0.09) / 0.04) ** 2 + ((y - 0.475) / 0.03) ** 2;
  const [r, g, b] = times(skin, 1.04 - 0.9 * side ** 2 - 0.12 * Math.max(0, face - 0.6));
  return cheek < 1 ? [r, g * (0.94 + 0.06 * cheek), b * (0.94 + 0.06 * cheek)] : [r, g, b];
}

/** A wall in the light of a lamp, with a shelf of books or a picture. */
function behind(x: number, y: number, { wall, reads }: Look): Color {
  const lamp = Math.hypot(x - 0.62, y - 0.1);
  const light = 0.72 + 0.42 * Math.exp(-2.6 * lamp * lamp) - 0.12 * y;
  return (reads ? shelved(x, y) : framed(x, y)) ?? times(wall, light);
}

function shelved(x: number, y: number): Color | undefined {
  const at = (x + 0.6) / 0.042;
  if (at > -0.5 && at < 7.5 && y > 0.3 && y < 0.316) return [96, 76, 60];
  const book = Math.floor(at);
  const tall = 0.13 + 0.016 * ((book * 7) % 4);
  if (book < 0 || book > 6 || y > 0.3 || y < 0.3 - tall) return undefined;
  return times(BOOKS[(book * 3) % BOOKS.length] ?? DARK, 0.9 - 0.12 * (at % 1));
}

/** Hills under an evening sky. */
function framed(x: number, y: number): Color | undefined {
  const [right, low] = [(x - 0.28) / 0.3, (y - 0.12) / 0.2];
  if (right < 0 || right > 1 || low < 0 || low > 1) return undefined;
  if (right < 0.05 || right > 0.95 || low < 0.075 || low > 0.925) return [78, 62, 52];
  if (low > 0.72 + 0.1 * Math.sin(right * 5)) return [74, 104, 96];
  if (low > 0.56 - 0.16 * Math.sin(right * 3.4)) return [104, 134, 140];
  return [236 - 20 * low, 200 + 20 * low, 160 + 70 * low];
}
