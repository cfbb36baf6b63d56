/** Cameras, microphones and screens of this machine. */

import type { Settings } from "./settings";

export type Device = "audio" | "video";

/** Why a device cannot be used, in the page's words. */
export type DeviceFault = "denied" | "missing" | "busy";

export async function open(device: Device, settings: Settings): Promise<MediaStreamTrack> {
  const wanted = device === "audio"
    ? { audio: microphone(settings) }
    : { video: camera(settings) };
  const stream = await navigator.mediaDevices.getUserMedia(wanted);
  const track = stream.getTracks()[0];
  if (!track) throw new DOMException("no track", "NotFoundError");
  if (device === "video") track.contentHint = "motion";
  return track;
}

function microphone(settings: Settings): MediaTrackConstraints {
  const filtered = !settings.originalSound;
  return {
    echoCancellation: filtered, noiseSuppression: filtered, autoGainControl: filtered,
    ...chosen(settings.microphoneId),
  };
}

function camera(settings: Settings): MediaTrackConstraints {
  const size = settings.saveData
    ? { width: { ideal: 320 }, height: { ideal: 180 }, frameRate: { ideal: 15 } }
    : { width: { ideal: 1280 }, height: { ideal: 720 }, frameRate: { ideal: 30 } };
  return { ...size, ...chosen(settings.cameraId) };
}

function chosen(id: string | undefined): MediaTrackConstraints {
  return id === undefined ? {} : { deviceId: { ideal: id } };
}

/** The screen with its sound, where the browser gives it. */
export async function screen(): Promise<MediaStreamTrack[]> {
  const stream = await navigator.mediaDevices.getDisplayMedia({
    video: { frameRate: { ideal: 15 } },
    audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false },
  });
  const tracks = stream.getTracks();
  for (const track of tracks) if (track.kind === "video") track.contentHint = "detail";
  return tracks;
}

export function fault(error: unknown): DeviceFault {
  const name = error instanceof DOMException ? error.name : "";
  if (name === "NotAllowedError" || name === "SecurityError") return "denied";
  return name === "NotReadableError" || name === "AbortError" ? "busy" : "missing";
}

/** What can be chosen; no loudspeakers where the browser lets none be. */
export type Devices = Record<Device | "speaker", MediaDeviceInfo[]>;

/** Everything that can be chosen; names come only after something was allowed. */
export async function devices(): Promise<Devices> {
  const all = await navigator.mediaDevices.enumerateDevices();
  const of = (kind: MediaDeviceKind) => all.filter((one) => one.kind === kind && one.deviceId);
  const leads = "setSinkId" in HTMLMediaElement.prototype;
  return { audio: of("audioinput"), video: of("videoinput"), speaker: leads ? of("audiooutput") : [] };
}

/** Calls back with the loudness of a track, 0 to 1, until what it returns is called. */
export function listen(track: MediaStreamTrack, tell: (level: number) => void): () => void {
  const context = new AudioContext();
  // Browsers may want a click before they let a page work with sound.
  const wake = () => void context.resume().catch(() => undefined);
  addEventListener("pointerdown", wake);
  addEventListener("keydown", wake);
  const source = context.createMediaStreamSource(new MediaStream([track]));
  const analyser = context.createAnalyser();
  analyser.fftSize = 512;
  source.connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  let frame = 0;
  const look = () => {
    analyser.getFloatTimeDomainData(samples);
    const power = samples.reduce((sum, one) => sum + one * one, 0) / samples.length;
    // -60 dBFS is nothing, 0 dBFS is everything.
    tell(Math.max(0, Math.min(1, 1 + (10 * Math.log10(power + 1e-9)) / 60)));
    frame = requestAnimationFrame(look);
  };
  frame = requestAnimationFrame(look);
  return () => {
    cancelAnimationFrame(frame);
    removeEventListener("pointerdown", wake);
    removeEventListener("keydown", wake);
    void context.close();
  };
}
