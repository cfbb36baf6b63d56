/** The brokers that a page knows, by origin, and which of them answer. */

/** How long a broker that lives may take to say so. */
const PATIENCE_MS = 1_000;
/**
 * After so long without an answer it is asked again beside: TCP repeats what was sent into a cut network
 * after a second at first, and after more and more.
 */
const AGAIN_MS = 300;

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
    const asked = order.map((n) => ({ n, answer: answers(this.#origins[n] ?? "") }));
    for (const { n, answer } of asked) {
      if (!(await answer)) continue;
      this.#at = n;
      return true;
    }
    return false;
  }
}

/** Whether the broker at an origin answers in time. */
export function answers(origin: string): Promise<boolean> {
  const end = new AbortController();
  return new Promise((resolve) => {
    let open = 0;
    const done = (alive: boolean) => {
      clearTimeout(patience);
      clearInterval(again);
      end.abort();
      resolve(alive);
    };
    const ask = async () => {
      open += 1;
      const alive = await fetch(`${origin}/healthz`, { cache: "no-store", signal: end.signal })
        .then((answer) => answer.ok, () => false);
      open -= 1;
      if (alive || open === 0) done(alive);
    };
    const patience = setTimeout(() => done(false), PATIENCE_MS);
    const again = setInterval(() => void ask(), AGAIN_MS);
    void ask();
  });
}
