/** What cameras and microphones of tests bring: a tone, and somebody who sways before a wall. */

const RATE = 48_000;
const WIDTH = 640;
const HEIGHT = 360;
const PER_S = 15;
const FRAMES = 30;

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

type Color = readonly [luma: number, blue: number, red: number];

/** Two seconds of a figure, as YUV4MPEG2; `warm` is the tint of the wall, -1 to 1. */
export function figure(warm: number): Buffer {
  const parts = [Buffer.from(`YUV4MPEG2 W${WIDTH} H${HEIGHT} F${PER_S}:1 Ip A1:1 C420jpeg\n`)];
  for (let n = 0; n < FRAMES; n++) parts.push(Buffer.from("FRAME\n"), frame(n / FRAMES, warm));
  return Buffer.concat(parts);
}

function frame(phase: number, warm: number): Buffer<ArrayBuffer> {
  const luma = Buffer.alloc(WIDTH * HEIGHT);
  const blue = Buffer.alloc((WIDTH * HEIGHT) / 4);
  const red = Buffer.alloc((WIDTH * HEIGHT) / 4);
  const sway = Math.sin(2 * Math.PI * phase) * 0.02;
  for (let y = 0; y < HEIGHT; y++) {
    for (let x = 0; x < WIDTH; x++) {
      const [l, b, r] = color((x - WIDTH / 2) / HEIGHT - sway, y / HEIGHT, warm);
      luma[y * WIDTH + x] = l;
      if (x % 2 || y % 2) continue;
      const at = (y / 2) * (WIDTH / 2) + x / 2;
      [blue[at], red[at]] = [b, r];
    }
  }
  return Buffer.concat([luma, blue, red]);
}

/** Across from the middle, down from the top, both in heights of the picture. */
function color(across: number, down: number, warm: number): Color {
  const head = (across / 0.15) ** 2 + ((down - 0.4) / 0.2) ** 2;
  const hair = (across / 0.17) ** 2 + ((down - 0.34) / 0.2) ** 2;
  const chest = (across / 0.42) ** 2 + ((down - 1.02) / 0.38) ** 2;
  if (head < 1 && down > 0.32) return [168, 112, 148];
  if (hair < 1) return [58, 124, 136];
  if (chest < 1) return [92 + across * 40, 128 + warm * 26, 128 - warm * 20];
  const light = 150 - down * 50 - across * 40;
  return [light, 128 - warm * 16, 128 + warm * 14];
}
