/** A moving picture of a track. */

import { useEffect, useRef } from "react";

export interface PictureProps {
  track: MediaStreamTrack | undefined;
  mirrored?: boolean;
  /** The whole picture with bars beside it, rather than cut to fit. */
  whole?: boolean;
  label: string;
}

export function Picture({ track, mirrored, whole, label }: PictureProps) {
  const video = useRef<HTMLVideoElement>(null);
  useEffect(() => {
    if (video.current) video.current.srcObject = track ? new MediaStream([track]) : null;
  }, [track]);
  const look = `${whole ? "object-contain" : "object-cover"} ${mirrored ? "-scale-x-100" : ""}`;
  return (
    <video
      ref={video} autoPlay playsInline muted aria-label={label}
      className={`size-full ${look} ${track ? "" : "invisible"}`}
    />
  );
}
