/** Everything a member does, at the lower edge. */

import type { Meeting, View } from "@sangam/sdk";
import {
  Disc, Hand, LayoutGrid, MessageSquare, Mic, MicOff, MonitorUp, MonitorX, PhoneOff, Presentation, Settings2,
  UserSquare, Users, Video, VideoOff,
} from "lucide-react";
import { useTranslation } from "react-i18next";
import { IconButton } from "../ui/IconButton";
import { Reactions } from "./Reactions";
import type { Tools } from "./useTools";
import { drawing, me, paused, place, presents, type Layout } from "./view";

export type Panel = "chat" | "people" | "recordings" | "settings";

export interface ToolbarProps {
  meeting: Meeting;
  view: View;
  tools: Tools;
  panel: Panel | undefined;
  open(panel: Panel): void;
  unread: number;
  waiting: number;
  layout: Layout;
  lay(layout: Layout): void;
  /** Whether the whiteboard is open. */
  board: boolean;
  turn(board: boolean): void;
}

export function Toolbar(props: ToolbarProps) {
  const { meeting, view, tools, panel, open, unread, waiting, layout, lay, board, turn } = props;
  const { t } = useTranslation();
  const { audio, video, screen } = view.own;
  const raised = me(view)?.hand_ms !== undefined;
  const queued = view.me === undefined ? undefined : place(view, view.me);
  const microphone = audio !== "waiting" ? t(audio === "on" ? "tool.mute" : "tool.unmute")
    : paused(view) ? t("tool.paused")
    : t("tool.waiting", { n: queued ?? 1 });
  return (
    <nav aria-label={t("tool.all")} className="flex flex-wrap items-center justify-center gap-2 px-2 py-3 sm:gap-3">
      <IconButton
        icon={audio === "on" ? Mic : MicOff} label={microphone} press={tools.microphone}
        look={audio === "waiting" ? "warn" : audio === "on" ? "plain" : "off"}
      />
      <IconButton
        icon={video === "on" ? Video : VideoOff} look={video === "on" ? "plain" : "off"}
        label={t(video === "on" ? "tool.camera_off" : "tool.camera_on")} press={tools.camera}
      />
      <IconButton
        icon={screen === "off" ? MonitorUp : MonitorX} look={screen === "on" ? "on" : "plain"}
        label={t(screen === "off" ? "tool.share" : "tool.share_end")} press={tools.screen}
      />
      <IconButton
        icon={Hand} look={raised ? "warn" : "plain"}
        label={t(raised ? "tool.hand_down" : "tool.hand_up")} press={tools.hand}
      />
      <Reactions tools={tools} />
      <IconButton
        icon={Presentation} look={board ? "on" : "plain"} pressed={board} label={t("tool.board")}
        badge={board ? 0 : drawing(view)} press={() => turn(!board)}
      />
      <span aria-hidden className="mx-1 hidden h-8 w-px bg-line sm:block" />
      <IconButton
        icon={MessageSquare} look={panel === "chat" ? "on" : "plain"} pressed={panel === "chat"}
        label={t("tool.chat")} badge={unread} press={() => open("chat")}
      />
      <IconButton
        icon={Users} look={panel === "people" ? "on" : "plain"} pressed={panel === "people"}
        label={t("tool.people")} badge={waiting} press={() => open("people")}
      />
      {presents(view) && (
        <IconButton
          icon={Disc} look={panel === "recordings" ? "on" : "plain"} pressed={panel === "recordings"}
          label={t("tool.recordings")} press={() => open("recordings")}
        />
      )}
      <IconButton
        icon={layout === "grid" ? UserSquare : LayoutGrid}
        label={t(layout === "grid" ? "tool.speaker" : "tool.grid")}
        press={() => lay(layout === "grid" ? "speaker" : "grid")}
      />
      <IconButton
        icon={Settings2} look={panel === "settings" ? "on" : "plain"} pressed={panel === "settings"}
        label={t("tool.settings")} press={() => open("settings")}
      />
      <IconButton icon={PhoneOff} look="off" label={t("tool.leave")} press={() => void meeting.leave()} />
    </nav>
  );
}
