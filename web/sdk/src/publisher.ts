/** Sends one medium of this member: microphone, camera, or the screen with its sound. */

import { Peer, redundant, type Door } from "./peer.ts";

export interface PublishOptions {
  /** The member's topic for the medium, such as `acme/weekly/main/video/m17`. */
  topic: string;
  audio: boolean;
  video: boolean;
  /** Layers, so that each receiver gets what its path carries. */
  simulcast: boolean;
}

/** Bits per second of the layers of a camera, the lowest first, by docs/guides/webrtc.md. */
const LAYERS = [
  { rid: "q", scaleResolutionDownBy: 4, maxBitrate: 150_000 },
  { rid: "h", scaleResolutionDownBy: 2, maxBitrate: 500_000 },
  { rid: "f", scaleResolutionDownBy: 1, maxBitrate: 1_700_000 },
];
const ONE_LAYER = [{ maxBitrate: 600_000 }];

export class Publisher extends Peer {
  /** Where it publishes. */
  readonly topic: string;
  #audio: RTCRtpTransceiver | undefined;
  #video: RTCRtpTransceiver | undefined;

  constructor(door: Door, options: PublishOptions) {
    super(door);
    this.topic = options.topic;
    const sends = { direction: "sendonly" } as const;
    if (options.audio) {
      this.#audio = this.pc.addTransceiver("audio", sends);
      redundant(this.#audio);
    }
    if (options.video) {
      const sendEncodings = options.simulcast ? LAYERS : ONE_LAYER;
      this.#video = this.pc.addTransceiver("video", { ...sends, sendEncodings });
      prefer(this.#video, ["video/VP8", "video/rtx"]);
    }
  }

  /** Connects. The broker counts a stream once it is there, sent or not. */
  async publish(): Promise<void> {
    await this.offer(`/v1/whip/${path(this.topic)}`);
  }

  /** What is sent from now on; nothing without a track. */
  async send(tracks: readonly MediaStreamTrack[]): Promise<void> {
    const of = (kind: string) => tracks.find((track) => track.kind === kind) ?? null;
    await Promise.all([
      this.#audio?.sender.replaceTrack(of("audio")),
      this.#video?.sender.replaceTrack(of("video")),
    ]);
  }
}

/** A topic as it stands in a URL. */
export function path(topic: string): string {
  return topic.split("/").map(encodeURIComponent).join("/");
}

/** The broker takes the first encoding that is offered: VP8 has layers that all browsers play. */
function prefer(transceiver: RTCRtpTransceiver, types: string[]): void {
  const codecs = RTCRtpSender.getCapabilities("video")?.codecs ?? [];
  const wanted = codecs.filter((codec) => types.includes(codec.mimeType));
  if (wanted.length > 0) transceiver.setCodecPreferences(wanted);
}
