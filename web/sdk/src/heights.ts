/** How high pictures are shown, as brokers are told it: they send no more than that has use for. */

/** Pixels; the page tells the next of these, so that small changes of a window need no word. */
const CLASSES = [0, 90, 180, 270, 360, 540, 720, 1_080, 2_160] as const;

/** Whatever there is. */
export const HIGHEST = 2_160;

/** The class of a height in pixels: the smallest that is enough. */
export function classOf(height: number): number {
  return CLASSES.find((one) => one >= height) ?? CLASSES[CLASSES.length - 1]!;
}

/** What plays where, and how high it is shown: an entry of `PUT /v1/webrtc/ID/shown`. */
export interface Height {
  mid: string;
  height: number;
}

/** What has been told, and what is to be. */
export class Heights {
  #told = new Map<string, number>();

  /** Of these, those that the broker does not know yet. */
  news(now: readonly Height[]): Height[] {
    return now.filter(({ mid, height }) => this.#told.get(mid) !== height);
  }

  /** Whether the broker was told that a place is not shown. */
  isHidden(mid: string): boolean {
    return this.#told.get(mid) === 0;
  }

  told(heights: readonly Height[]): void {
    for (const { mid, height } of heights) this.#told.set(mid, height);
  }
}
