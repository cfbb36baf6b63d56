/** What the tools of a meeting do: microphone, camera, screen, hand and the rest. */

import type { Command, Meeting, Problem, Sent, View } from "@sangam/sdk";
import { useCallback, useState } from "react";
import { fault, open, screen } from "../media";
import type { Settings } from "../settings";
import type { Switches } from "./switches";
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

export function useTools(
  meeting: Meeting, view: View, settings: Settings, switches: Switches,
): Tools {
  const [notice, setNotice] = useState<Notice>();
  const ask = useCallback((command: Command) => {
    meeting.ask(command).catch((problem: Problem) => setNotice({ text: problem.error }));
  }, [meeting]);

  const toggle = async (medium: Exclude<Sent, "screen">) => {
    if (view.own[medium] === "muted") return setNotice({ key: `muted.${medium}` });
    try {
      await switches.turn(medium, async () => [await open(medium, settings)]);
    } catch (error) {
      const device = medium === "audio" ? "microphone" : "camera";
      setNotice({ key: `device.${device}_${fault(error)}` });
    }
    return undefined;
  };

  const share = async () => {
    if (view.own.screen === "muted") return setNotice({ key: "muted.screen" });
    try {
      await switches.turn("screen", async () => {
        const tracks = await screen();
        // The browser has a button of its own that ends it.
        const [first] = tracks;
        first?.addEventListener("ended", () => switches.ended("screen", first));
        return tracks;
      });
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
