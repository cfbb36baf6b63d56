/** The sound of the others. */

import type { Received, View } from "@sangam/sdk";
import { useEffect, useRef } from "react";

export function Sound({ view }: { view: View }) {
  const all = [...view.received].flatMap(([member, received]) => tracks(member, received));
  return <>{all.map(({ key, member, track }) => <One key={key} member={member} track={track} />)}</>;
}

function tracks(member: string, received: Received) {
  const { audio, screenAudio } = received;
  return [
    ...(audio ? [{ key: member, member, track: audio }] : []),
    ...(screenAudio ? [{ key: `${member}-screen`, member, track: screenAudio }] : []),
  ];
}

function One({ member, track }: { member: string; track: MediaStreamTrack }) {
  const audio = useRef<HTMLAudioElement>(null);
  useEffect(() => {
    const element = audio.current;
    if (!element) return undefined;
    element.srcObject = new MediaStream([track]);
    // Browsers may want a click before they let anything be heard.
    const play = () => void element.play().catch(() => undefined);
    play();
    addEventListener("pointerdown", play);
    addEventListener("keydown", play);
    return () => {
      removeEventListener("pointerdown", play);
      removeEventListener("keydown", play);
    };
  }, [track]);
  return <audio ref={audio} autoPlay data-member={member} className="hidden" />;
}
