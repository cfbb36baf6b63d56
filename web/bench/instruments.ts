/** Pages with instruments: devices that tell the time, and eyes and ears that read it. */

import type { BrowserContext } from "playwright-core";
import { pictures } from "./pictures";
import { sounds } from "./sounds";

export type Instruments = ReturnType<typeof pictures> & ReturnType<typeof sounds> & {
  /** When each frame was drawn, of the camera and the screen that were opened last. */
  drawn: Partial<Record<"camera" | "screen", number[]>>;
};

/** Width, height, and pictures in a second. */
export const CAMERA = [640, 360, 30] as const;
export const SCREEN = [1280, 720, 15] as const;

/** Gives the pages of a browser instruments, and these devices instead of its own. */
export async function equip(context: BrowserContext): Promise<void> {
  const parts = [pictures, sounds].map((part) => `...(${part.toString()})()`);
  await context.addInitScript({ content: `globalThis.instruments = { ${parts.join(", ")}, drawn: {} };` });
  await context.addInitScript(([camera, screen]) => {
    const bench = () => (globalThis as unknown as { instruments: Instruments }).instruments;
    const draw = (kind: "camera" | "screen", size: typeof camera | typeof screen) => {
      const { track, drawn } = bench().draws(size);
      bench().drawn[kind] = drawn;
      return new MediaStream([track]);
    };
    const devices = MediaDevices.prototype;
    // The page stops what it opened: the source goes on.
    devices.getUserMedia = async (wanted) =>
      wanted?.video ? draw("camera", camera) : new MediaStream([bench().speaks().clone()]);
    devices.getDisplayMedia = async () => draw("screen", screen);
  }, [CAMERA, SCREEN] as const);
}
