/** What the tools of a meeting do: microphone, camera, screen, hand and the rest. */

import type { Command, Meeting, Problem, Sent, View } from "@sangam/sdk";
import { useCallback, useState } from "react";
import { fault, open, screen } from "../media";
import type { Settings } from "../settings";
import { me } from "./view";

/** Something that did not work, as a key of the translations or in the server's words. */
export interface Notice {
  key?: string;
  text?: string;
}

export interface Tools {
  microphone(): void;
  camera(): void;
  screen(): void;
  hand(): void;
  react(emoji: string): void;
  ask(command: Command): void;
  notice: Notice | undefined;
  dismiss(): void;
}

export function useTools(meeting: Meeting, view: View, settings: Settings): Tools {
  const [notice, setNotice] = useState<Notice>();
  const ask = useCallback((command: Command) => {
    meeting.ask(command).catch((problem: Problem) => setNotice({ text: problem.error }));
  }, [meeting]);

  const toggle = async (medium: Exclude<Sent, "screen">) => {
    if (view.own[medium] === "muted") return setNotice({ key: `muted.${medium}` });
    const sent = meeting.sends(medium);
    if (sent.length > 0) {
      meeting.send(medium, []);
      // The lamp of the camera goes out.
      for (const track of sent) track.stop();
      return undefined;
    }
    try {
      meeting.send(medium, [await open(medium, settings)]);
    } catch (error) {
      const device = medium === "audio" ? "microphone" : "camera";
      setNotice({ key: `device.${device}_${fault(error)}` });
    }
    return undefined;
  };

  const share = async () => {
    if (view.own.screen === "muted") return setNotice({ key: "muted.screen" });
    const sent = meeting.sends("screen");
    if (sent.length > 0) {
      meeting.send("screen", []);
      for (const track of sent) track.stop();
      return undefined;
    }
    try {
      const tracks = await screen();
      // The browser has a button of its own that ends it.
      tracks[0]?.addEventListener("ended", () => meeting.send("screen", []));
      meeting.send("screen", tracks);
    } catch (error) {
      if (fault(error) !== "denied") setNotice({ key: "device.screen_missing" });
    }
    return undefined;
  };

  return {
    microphone: () => void toggle("audio"),
    camera: () => void toggle("video"),
    screen: () => void share(),
    hand: () => ask({ do: "hand", raised: me(view)?.hand_ms === undefined }),
    react: (text) => ask({ do: "react", text }),
    ask,
    notice,
    dismiss: () => setNotice(undefined),
  };
}
