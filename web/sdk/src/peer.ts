/** One WebRTC connection with a broker: an offer by POST, its answer, and what comes later. */

import type { Height } from "./heights.ts";
import { relays } from "./ice.ts";

/** Where to offer, and what to show there. */
export interface Door {
  origin: string;
  token: string | null;
}

export type PeerState = "connecting" | "connected" | "lost";

/** How long a broker may take to answer, and ICE and DTLS to get through. */
const ANSWER_MS = 4_000;
const CONNECT_MS = 6_000;
/** How long before a token that did not get through is shown again. */
const SHOW_MS = 2_000;
const BUNDLED: RTCConfiguration = { bundlePolicy: "max-bundle" };

export class PeerError extends Error {
  /** HTTP status; 0 if nothing came back. */
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Base of publishers and players. */
export class Peer {
  readonly pc: RTCPeerConnection;
  readonly door: Door;
  state: PeerState = "connecting";
  onstate: (() => void) | undefined;
  #resource: string | undefined;
  #token: string | null;
  /** The one that the broker knows, or is being told. */
  #shown: string | null | undefined;
  #again: ReturnType<typeof setTimeout> | undefined;
  #found = 0;
  #closed = false;

  constructor(door: Door) {
    this.door = door;
    this.#token = door.token;
    // One port for everything, and no candidates of our own to wait for: brokers learn them from
    // the checks.
    this.pc = new RTCPeerConnection(BUNDLED);
    this.pc.addEventListener("connectionstatechange", () => this.#changed());
    this.pc.addEventListener("icecandidate", ({ candidate }) => {
      if (candidate?.candidate) this.#found += 1;
    });
  }

  /** Offers what has been added to `pc`. */
  protected async offer(path: string): Promise<void> {
    await this.#relay();
    if (this.#closed) return;
    await this.pc.setLocalDescription(await this.pc.createOffer());
    const sdp = this.pc.localDescription?.sdp ?? "";
    this.#shown = this.#token;
    const answer = await this.#call("POST", `${this.door.origin}${path}`, "application/sdp", sdp);
    const location = answer.headers.get("Location");
    this.#resource = location ? new URL(location, `${this.door.origin}/`).href : undefined;
    const text = await answer.text();
    if (this.#closed) return this.#delete();
    void this.#show();
    await this.pc.setRemoteDescription({ type: "answer", sdp: text });
    setTimeout(() => {
      if (this.state === "connecting") this.#become("lost");
    }, CONNECT_MS);
  }

  /** What the broker knows of this peer. */
  async describe(): Promise<{ plays: { mid: string; topic: string | null }[] }> {
    if (!this.#resource) return { plays: [] };
    return (await this.#call("GET", this.#resource)).json();
  }

  /** Tells the broker how high pictures are shown. */
  protected async tell(heights: readonly Height[]): Promise<void> {
    if (!this.#resource) throw new PeerError(0, "not connected yet");
    await this.#call("PUT", `${this.#resource}/shown`, "application/json", JSON.stringify(heights));
  }

  /** Starts ICE anew, as after a change of networks: DTLS and the streams go on. */
  async restart(): Promise<void> {
    if (!this.#resource || !this.pc.remoteDescription) throw new PeerError(0, "never connected");
    await this.#relay();
    const before = this.pc.remoteDescription.sdp;
    this.#found = 0;
    await this.pc.setLocalDescription(await this.pc.createOffer({ iceRestart: true }));
    const fragment = iceOf(this.pc.localDescription?.sdp ?? "");
    const kind = "application/trickle-ice-sdpfrag";
    const answer = await this.#call("PATCH", this.#resource, kind, fragment);
    const sdp = withIce(before, await answer.text());
    await this.pc.setRemoteDescription({ type: "answer", sdp });
  }

  /** Whether ICE has found an address of this machine since it was started last. */
  get hasFound(): boolean {
    return this.#found > 0;
  }

  /** Shows the broker a newer token, until it has seen it. */
  renew(token: string | null): void {
    this.#token = token;
    void this.#show();
  }

  async #show(): Promise<void> {
    const token = this.#token;
    if (this.#closed || !this.#resource || token === this.#shown) return;
    clearTimeout(this.#again);
    this.#shown = token;
    try {
      await this.#call("PUT", `${this.#resource}/token`);
    } catch (error) {
      // What the broker refused, it would refuse again.
      const refused = error instanceof PeerError && error.status >= 400 && error.status < 429;
      if (refused || this.#closed || this.#shown !== token) return;
      this.#shown = undefined;
      this.#again = setTimeout(() => void this.#show(), SHOW_MS);
    }
  }

  /** What the connection counts was looked at. */
  notice(_report: RTCStatsReport): void {}

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.onstate = undefined;
    clearTimeout(this.#again);
    this.pc.close();
    void this.#delete();
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Candidates that are gathered from now on are those of the broker's relays, too. */
  async #relay(): Promise<void> {
    const iceServers = await relays({ origin: this.door.origin, token: this.#token });
    if (iceServers.length > 0 && !this.#closed) this.pc.setConfiguration({ ...BUNDLED, iceServers });
  }

  async #delete(): Promise<void> {
    if (!this.#resource) return;
    // Also while the page is being left; a broker that is gone has forgotten it anyway.
    await this.#call("DELETE", this.#resource, undefined, undefined, true).catch(() => undefined);
  }

  async #call(
    method: string, url: string, kind?: string, body?: string, keepalive = false,
  ): Promise<Response> {
    const headers: Record<string, string> = {};
    if (kind) headers["Content-Type"] = kind;
    if (this.#token) headers["Authorization"] = `Bearer ${this.#token}`;
    const signal = AbortSignal.timeout(ANSWER_MS);
    const init: RequestInit = { method, headers, keepalive, signal };
    if (body !== undefined) init.body = body;
    const answer = await fetch(url, init).catch((error: unknown) => {
      throw new PeerError(0, String(error));
    });
    if (!answer.ok) throw new PeerError(answer.status, await answer.text());
    return answer;
  }

  #changed(): void {
    const now = this.pc.connectionState;
    if (now === "connected") this.#become("connected");
    if (now === "failed" || now === "closed") this.#become("lost");
  }

  #become(state: PeerState): void {
    if (this.state === state || this.#closed) return;
    this.state = state;
    this.onstate?.();
  }
}

/**
 * Sound with the packet before in each, where the browser can (RFC 2198): what is lost comes with the
 * next. Brokers do it for whom it stands first.
 */
export function redundant(transceiver: RTCRtpTransceiver): void {
  const codecs = RTCRtpReceiver.getCapabilities("audio")?.codecs ?? [];
  const is = (codec: { mimeType: string }) => codec.mimeType.toLowerCase() === "audio/red";
  const red = codecs.filter(is);
  if (red.length === 0) return;
  transceiver.setCodecPreferences([...red, ...codecs.filter((codec) => !is(codec))]);
}

/** The credentials of a description, as a fragment of RFC 8840. */
export function iceOf(sdp: string): string {
  const line = (name: string) => sdp.match(new RegExp(`^a=${name}:.*$`, "m"))?.[0].trim() ?? "";
  return `${line("ice-ufrag")}\r\n${line("ice-pwd")}\r\n`;
}

/** A description with the credentials and candidates of a fragment instead of its own. */
export function withIce(sdp: string, fragment: string): string {
  const lines = fragment.split(/\r?\n/).filter((line) => line !== "");
  const ice = (name: string) => lines.find((line) => line.startsWith(`a=${name}:`));
  const candidates = lines.filter((line) => line.startsWith("a=candidate:"));
  const out: string[] = [];
  for (const line of sdp.split(/\r?\n/)) {
    if (line.startsWith("a=candidate:") || line === "a=end-of-candidates") continue;
    if (line.startsWith("a=ice-ufrag:")) out.push(ice("ice-ufrag") ?? line);
    else if (line.startsWith("a=ice-pwd:")) out.push(ice("ice-pwd") ?? line, ...candidates);
    else out.push(line);
  }
  return out.join("\r\n");
}
