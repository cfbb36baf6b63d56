/** The session servers that a member may ask, and which of them next. */

/** Servers that are kept, however many a server speaks of. */
const SERVERS_MAX = 32;
/** For so long a server that was not reached is taken for gone, though others still speak of it. */
const GONE_MS = 3_000;

export class Servers {
  #named: readonly string[];
  #allowed: readonly string[] | undefined;
  /** Those that a server spoke of last. */
  #told: string[] = [];
  #at: string;
  /** When they were not reached, of `performance.now()`. */
  #missed = new Map<string, number>();
  /** What servers call each other. */
  #urls = new Map<string, string>();

  /** By origin, the nearest first; those that servers speak of are asked if they are `allowed`. */
  constructor(named: readonly string[], allowed?: readonly string[]) {
    this.#named = named;
    this.#allowed = allowed;
    this.#at = named[0] ?? "";
  }

  /** The one to ask. */
  get current(): string {
    return this.#at;
  }

  /** All of them; those that a server spoke of last come first. */
  get all(): readonly string[] {
    return [...new Set([...this.#told, ...this.#named])];
  }

  /**
   * Those that servers speak of and that were not reached of late, in the words of servers, without
   * the one to ask: others may be brokers without sessions.
   */
  get unreached(): string[] {
    const missed = [...this.#missed.keys()].filter((one) => one !== this.#at && this.#isGone(one));
    return missed.flatMap((one) => this.#urls.get(one) ?? []);
  }

  /** A server speaks of all that there are. */
  tell(urls: unknown): void {
    if (!Array.isArray(urls)) return;
    this.#told = urls.slice(0, SERVERS_MAX).flatMap((url) => this.#origin(url) ?? []);
    const known = this.all;
    for (const origin of this.#urls.keys()) if (!known.includes(origin)) this.#urls.delete(origin);
  }

  /** A server says that another one has the session. Whether that is asked now, later or never. */
  send(url: unknown): "now" | "later" | "never" {
    const origin = this.#origin(url);
    if (origin === undefined) return "never";
    if (origin === this.#at || this.#isGone(origin)) return "later";
    this.#at = origin;
    return "now";
  }

  /** The one in use let this member in. */
  reached(): void {
    this.#missed.delete(this.#at);
  }

  /** Goes on to another one, if there is one. Those that were not reached of late come last. */
  next(missed: boolean): void {
    const all = this.all;
    if (missed) {
      this.#missed.set(this.#at, performance.now());
      for (const one of this.#missed.keys()) if (!this.#isGone(one)) this.#missed.delete(one);
    }
    const from = all.indexOf(this.#at) + 1;
    const order = [...all.slice(from), ...all.slice(0, from)];
    this.#at = order.find((one) => !this.#isGone(one)) ?? order[0] ?? this.#at;
  }

  #isGone(origin: string): boolean {
    const at = this.#missed.get(origin);
    return at !== undefined && performance.now() - at < GONE_MS;
  }

  #origin(url: unknown): string | undefined {
    try {
      const { origin, protocol } = new URL(String(url));
      if (protocol !== "http:" && protocol !== "https:") return undefined;
      const may = this.#allowed?.includes(origin) ?? true;
      if (!may && !this.#named.includes(origin)) return undefined;
      this.#urls.set(origin, String(url));
      return origin;
    } catch {
      return undefined;
    }
  }
}
