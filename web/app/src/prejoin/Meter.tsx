/** How loud the microphone is: drawn past React, as it changes with every frame. */

import { useEffect, useRef } from "react";
import { listen } from "../media";

export function Meter({ track, label }: { track: MediaStreamTrack | undefined; label: string }) {
  const bar = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!track) return undefined;
    return listen(track, (level) => {
      if (bar.current) bar.current.style.transform = `scaleX(${level.toFixed(3)})`;
    });
  }, [track]);
  return (
    <div role="img" aria-label={label} className="h-2 overflow-hidden rounded-full bg-soft">
      <div
        ref={bar} style={{ transform: "scaleX(0)" }}
        className="h-full origin-left rounded-full bg-accent"
      />
    </div>
  );
}
