/** The sound of the others. */

import type { Received, View } from "@sangam/sdk";
import { useEffect, useRef } from "react";

export interface SoundProps {
  view: View;
  /** By which loudspeaker; the browser's choice without one. */
  speaker: string | undefined;
}

export function Sound({ view, speaker }: SoundProps) {
  const all = [...view.received].flatMap(([member, received]) => tracks(member, received));
  return (
    <>
      {all.map(({ key, member, track }) => (
        <One key={key} member={member} track={track} speaker={speaker} />
      ))}
    </>
  );
}

function tracks(member: string, received: Received) {
  const { audio, screenAudio } = received;
  return [
    ...(audio ? [{ key: member, member, track: audio }] : []),
    ...(screenAudio ? [{ key: `${member}-screen`, member, track: screenAudio }] : []),
  ];
}

interface OneProps {
  member: string;
  track: MediaStreamTrack;
  speaker: string | undefined;
}

function One({ member, track, speaker }: OneProps) {
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
  useEffect(() => {
    const element = audio.current;
    if (!element || !("setSinkId" in element)) return undefined;
    // One that was unplugged leaves the sound where it is, and takes it again once it is back.
    const lead = () => void element.setSinkId(speaker ?? "").catch(() => undefined);
    lead();
    navigator.mediaDevices?.addEventListener("devicechange", lead);
    return () => navigator.mediaDevices?.removeEventListener("devicechange", lead);
  }, [speaker]);
  return <audio ref={audio} autoPlay data-member={member} className="hidden" />;
}
