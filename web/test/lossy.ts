/** A network between browsers and a broker that loses some of their sound. */

import { createSocket, type Socket } from "node:dgram";

/** Chromium's payload types for Opus and for RED around it. */
const SOUND = [111, 63];

export interface Lossy {
  /** Packets of sound that were lost on their way to the broker, and from there. */
  lost: { there: number; back: number };
  /** From now on loses one packet of sound in `nth`; with 0 none. */
  loses(nth: number): void;
  close(): void;
}

/**
 * Passes on what comes to `near` for the broker at `far`, and what comes back, but one packet of sound in
 * `nth`; with 0 all.
 */
export async function lossy(near: string, far: string, nth: number): Promise<Lossy> {
  let each = nth;
  const [host, port] = [far.split(":")[0], Number(far.split(":")[1])];
  const lost = { there: 0, back: 0 };
  const drops = (way: keyof typeof lost, packet: Buffer) => {
    // RFC 7983 section 7: RTP; what is encrypted of it is the payload. With padding (RFC 3550 section 5.1) there is
    // no sound in it: Chromium tries the bandwidth with bursts of these.
    const [first = 0, second = 0] = packet;
    const media = first >= 128 && first < 160 && SOUND.includes(second & 0x7f);
    if (!media || each === 0 || packet.readUInt16BE(2) % each !== 0) return false;
    lost[way] += 1;
    return true;
  };
  const ends = new Map<string, Socket>();
  const front = createSocket("udp4");
  front.on("message", (packet, from) => {
    const name = `${from.address}:${from.port}`;
    let end = ends.get(name);
    if (!end) {
      end = createSocket("udp4");
      end.on("message", (answer) => {
        if (!drops("back", answer)) front.send(answer, from.port, from.address);
      });
      ends.set(name, end);
    }
    if (!drops("there", packet)) end.send(packet, port, host);
  });
  await new Promise<void>((resolve, reject) => {
    front.once("error", reject);
    front.bind(port, near, resolve);
  });
  const close = () => [front, ...ends.values()].forEach((one) => one.close());
  return { lost, loses: (wanted) => (each = wanted), close };
}
