/** A camera or microphone that is open while it is wanted, until it is handed on. */

import { useCallback, useEffect, useRef, useState } from "react";
import { fault, open, type Device, type DeviceFault } from "../media";
import type { Settings } from "../settings";

export interface Opened {
  track: MediaStreamTrack | undefined;
  fault: DeviceFault | undefined;
  /** It was asked for and has not answered. */
  pending: boolean;
  /** Takes the track, so that it stays open when this is gone. */
  take(): MediaStreamTrack | undefined;
}

/** What a person goes in with, once there is a way in. */
export type Ready = Record<Device, Pick<Opened, "take">>;

export function useDevice(device: Device, wanted: boolean, settings: Settings): Opened {
  const [track, setTrack] = useState<MediaStreamTrack>();
  const [wrong, setWrong] = useState<DeviceFault>();
  const held = useRef<MediaStreamTrack>(undefined);
  const { cameraId, microphoneId, saveData, originalSound } = settings;
  const id = device === "video" ? cameraId : microphoneId;
  const way = device === "video" ? saveData : originalSound;

  useEffect(() => {
    if (!wanted) return undefined;
    let gone = false;
    setWrong(undefined);
    open(device, settings).then(
      (opened) => {
        if (gone) return opened.stop();
        held.current = opened;
        setTrack(opened);
      },
      (error: unknown) => {
        if (!gone) setWrong(fault(error));
      },
    );
    return () => {
      gone = true;
      held.current?.stop();
      held.current = undefined;
      setTrack(undefined);
    };
    // Other settings leave the device as it is.
  }, [device, wanted, id, way]);

  const take = useCallback(() => {
    const taken = held.current;
    held.current = undefined;
    return taken;
  }, []);
  const pending = wanted && !track && !wrong;
  return { track, fault: wanted ? wrong : undefined, pending, take };
}
