/** The meeting: the stage, what stands beside it, and the tools. */

import type { Meeting, View } from "@sangam/sdk";
import { Circle, LoaderCircle, Lock } from "lucide-react";
import { useMemo, useRef, useState, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { useDrawn } from "../board/useDrawn";
import type { Settings } from "../settings";
import { Logo } from "../ui/Logo";
import { Ways } from "../ui/Ways";
import { Chat } from "./Chat";
import { Laid, LaidPast } from "./Laid";
import { Consent, Notices } from "./Notices";
import { People } from "./People";
import { Rising } from "./Reactions";
import { Recordings } from "./Recordings";
import { ReplayBar } from "./ReplayBar";
import { Where } from "./Rooms";
import { SettingsPanel } from "./SettingsPanel";
import { Side } from "./Side";
import { Sound } from "./Sound";
import { StageView } from "./StageView";
import { Switches } from "./switches";
import { Toolbar, type Panel } from "./Toolbar";
import { useMeeting } from "./useMeeting";
import { useShortcuts } from "./useShortcuts";
import { useTools } from "./useTools";
import { leading, lobby, me, recorded, stage, watched, type Layout } from "./view";

/** Where whoever dictates has switched keys off: a word would press many. */
const NO_KEYS = {};

export interface MeetingPageProps {
  meeting: Meeting;
  settings: Settings;
  change(settings: Settings): void;
  over(view: View): ReactNode;
}

export function MeetingPage(props: MeetingPageProps) {
  const view = useMeeting(props.meeting);
  if (view.phase === "over") return props.over(view);
  if (view.phase !== "in" || !view.session?.members) return <Waiting view={view} />;
  return <Inside {...props} view={view} />;
}

/** Nothing to be seen yet. */
function Waiting({ view }: { view: View }) {
  const { t } = useTranslation();
  const text = view.phase === "lobby" ? "lobby.wait" : "lobby.joining";
  return (
    <main className="flex min-h-full flex-col items-center justify-center gap-6 p-6 text-center">
      <Logo />
      <LoaderCircle size={32} aria-hidden className="animate-spin text-accent" />
      <div role="status"><h1 className="text-xl">{t(text)}</h1></div>
      {view.phase === "lobby" && <p className="max-w-md text-dim">{t("lobby.why")}</p>}
      <div className="w-full max-w-md text-left empty:hidden">
        <Ways ways={view.session?.ways ?? []} heading="h2" />
      </div>
    </main>
  );
}

function Inside({ meeting, settings, change, view }: MeetingPageProps & { view: View }) {
  const { t } = useTranslation();
  const [panel, setPanel] = useState<Panel>();
  const [layout, setLayout] = useState<Layout>("grid");
  const [pinned, setPinned] = useState<string>();
  const [board, setBoard] = useState(false);
  const [past, setPast] = useState(true);
  const replay = watched(view);
  const drawn = useDrawn(meeting, replay);
  const switches = useMemo(() => new Switches(meeting), [meeting]);
  const tools = useTools(meeting, view, settings, switches);
  const unread = useUnread(view, panel === "chat");
  const open = (one: Panel) => setPanel(panel === one ? undefined : one);
  const turn = () => setLayout(layout === "grid" ? "speaker" : "grid");
  const keys = useMemo(() => ({
    m: tools.microphone, v: tools.camera, s: tools.screen, h: tools.hand,
    c: () => open("chat"), p: () => open("people"), l: turn, b: () => setBoard((now) => !now),
  }), [tools]);
  useShortcuts(settings.keys ? keys : NO_KEYS);
  const { session } = view;
  const titles = {
    chat: t("tool.chat"), people: t("people.title"), recordings: t("tool.recordings"),
    settings: t("tool.settings"),
  };
  return (
    <main className="flex h-full flex-col">
      <header className="flex flex-wrap items-center justify-between gap-x-3 gap-y-1 px-4 pt-3">
        <h1 dir="auto" className="flex min-w-0 items-center gap-2 font-semibold">
          {session?.locked && <Lock size={16} role="img" aria-label={t("lead.locked")} className="shrink-0" />}
          <span className="truncate">{session?.title || session?.name}</span>
        </h1>
        <div role="status" className="flex flex-wrap items-center gap-2 empty:hidden">
          <Where view={view} />
          {recorded(view) && (
            <p className="flex items-center gap-2 rounded-lg border border-line bg-raised px-3 py-1.5 text-sm">
              <Circle size={12} aria-hidden className="fill-stop text-stop" />
              {t("stage.recorded")}
            </p>
          )}
        </div>
        <Consent view={view} />
        <Notices view={view} tools={tools} />
      </header>
      <div className="flex min-h-0 flex-1 gap-3 p-3">
        <section aria-label={t("stage.all")} className="relative min-h-0 min-w-0 flex-1">
          <StageView
            stage={stage(view, layout, pinned)} view={view} meeting={meeting}
            pinned={pinned} pin={setPinned}
            board={replay && drawn && past
              ? <LaidPast meeting={meeting} replay={replay} />
              : board && <Laid key={me(view)?.room} meeting={meeting} view={view} />}
          />
          <Rising view={view} />
        </section>
        {panel && (
          <Side title={titles[panel]} close={() => setPanel(undefined)}>
            {panel === "chat" && <Chat view={view} tools={tools} />}
            {panel === "people" && <People view={view} tools={tools} />}
            {panel === "recordings" && <Recordings meeting={meeting} view={view} tools={tools} />}
            {panel === "settings" && <SettingsPanel switches={switches} settings={settings} change={change} />}
          </Side>
        )}
      </div>
      {replay && (
        <ReplayBar view={view} tools={tools} past={past} look={drawn ? setPast : undefined} />
      )}
      <Toolbar
        meeting={meeting} view={view} tools={tools} panel={panel} open={open} unread={unread}
        waiting={leading(view) ? lobby(view).length : 0} layout={layout} lay={setLayout}
        board={board} turn={setBoard}
      />
      <Sound view={view} speaker={settings.speakerId} />
    </main>
  );
}

/** Lines of others that came while the chat was closed. */
function useUnread(view: View, reading: boolean): number {
  const chat = view.session?.chat ?? [];
  const last = chat.at(-1)?.seq ?? 0;
  const seen = useRef(last);
  if (reading) seen.current = last;
  return chat.filter((line) => line.seq > seen.current && line.from !== view.me).length;
}
