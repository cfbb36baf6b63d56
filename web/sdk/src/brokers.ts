/** The brokers that a page knows, by origin, and which of them answer. */

/** How long a broker that lives may take to say so. */
const PATIENCE_MS = 1_000;

export class Brokers {
  #origins: string[];
  #at = 0;

  /** The first is where the page came from. */
  constructor(origins: string[]) {
    this.#origins = [...new Set(origins)];
  }

  /** The one in use. */
  get current(): string {
    return this.#origins[this.#at] ?? "";
  }

  get all(): readonly string[] {
    return this.#origins;
  }

  /** Goes on to the next one that answers, this one first; false if none does. */
  async choose(): Promise<boolean> {
    const order = this.#origins.map((_, n) => (this.#at + n) % this.#origins.length);
    // All at once: whoever is cut off from one should not wait for it before asking another.
    const alive = await Promise.all(order.map((n) => answers(this.#origins[n] ?? "")));
    const found = order.find((_, n) => alive[n]);
    if (found === undefined) return false;
    this.#at = found;
    return true;
  }
}

/** Whether the broker at an origin answers in time. */
export async function answers(origin: string): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    return (await fetch(`${origin}/healthz`, { cache: "no-store", signal })).ok;
  } catch {
    return false;
  }
}
