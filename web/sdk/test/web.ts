/** What browsers have and Node.js has not, as little of it as connections need to be made. */

import { vi } from "vitest";

/** Makes every connection and request succeed; gives what was asked of brokers, as `POST /path`. */
export function web(refuse: (what: string) => boolean = () => false): string[] {
  const asked: string[] = [];
  vi.stubGlobal("RTCPeerConnection", class extends EventTarget {
    localDescription = { sdp: "" };
    connectionState = "new";
    addTransceiver = () => ({
      sender: { replaceTrack: async () => undefined }, setCodecPreferences: () => undefined,
    });
    createOffer = async () => ({});
    setLocalDescription = async () => undefined;
    setRemoteDescription = async () => undefined;
    getTransceivers = () => [];
    close = () => undefined;
  });
  vi.stubGlobal("RTCRtpSender", { getCapabilities: () => null });
  vi.stubGlobal("RTCRtpReceiver", { getCapabilities: () => null });
  vi.stubGlobal("fetch", async (url: string, init?: RequestInit) => {
    const what = `${init?.method ?? "GET"} ${new URL(url).pathname}`;
    // Relays are asked for once for each broker; ice.test.ts looks at that.
    if (what === "GET /v1/ice") return new Response("{}");
    asked.push(what);
    if (refuse(what)) throw new TypeError("no network");
    const headers = { Location: `/at/${new URL(url).pathname.split("/").slice(-2).join("-")}` };
    return new Response(JSON.stringify({ plays: [] }), { status: 200, headers });
  });
  return asked;
}

/** A track that can be stopped. */
export function track(kind: "audio" | "video"): MediaStreamTrack {
  const one = { kind, readyState: "live", stop: () => (one.readyState = "ended") };
  return one as unknown as MediaStreamTrack;
}
