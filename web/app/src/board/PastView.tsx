/** The board of the recording that is watched, as it was at that moment: to be looked at. */

import "./assets";
import "@excalidraw/excalidraw/index.css";
import "./board.css";
import { Excalidraw } from "@excalidraw/excalidraw";
import type { Meeting, Replay } from "@sangam/sdk";
import { LoaderCircle } from "lucide-react";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { idle, OPTIONS, reset, START, type Api } from "./canvas";
import { Shared } from "./shared";

export default function PastView({ meeting, replay }: { meeting: Meeting; replay: Replay }) {
  const { t, i18n } = useTranslation();
  const { shared, changes } = usePast(meeting, replay);
  const [api, setApi] = useState<Api>();
  useEffect(() => {
    // Excalidraw speaks one language here, and says so of the whole document.
    document.documentElement.lang = i18n.language;
  }, [api, i18n.language]);
  useEffect(() => {
    if (api && shared) reset(api, shared);
  }, [api, shared, changes]);
  return (
    <section
      aria-label={t("board.past")} data-keys="own" data-order={shared ? replay.order : undefined}
      data-shapes={shared?.shapes().length ?? 0}
      className="card flex size-full min-h-0 flex-col overflow-hidden"
    >
      <header className="flex items-center gap-2 border-b border-line p-2">
        <h2 className="px-1 text-sm">{t("board.past")}</h2>
        <div role="status" className="text-sm empty:hidden">
          {!shared && (
            <p className="flex items-center gap-2">
              <LoaderCircle size={16} aria-hidden className="animate-spin text-warn" />
              {t("board.opening")}
            </p>
          )}
        </div>
      </header>
      <div className="sangam-board min-h-0 flex-1" onKeyDownCapture={idle}>
        <Excalidraw
          excalidrawAPI={setApi} initialData={START} viewModeEnabled zenModeEnabled
          UIOptions={OPTIONS} validateEmbeddable={false} aiEnabled={false}
          handleKeyboardGlobally={false} theme="light" langCode="en"
        />
      </div>
    </section>
  );
}

/** A document for each turn; the one before stays until the next is there. */
function usePast(meeting: Meeting, { since_ms, order }: Replay) {
  const [shared, setShared] = useState<Shared>();
  const [changes, setChanges] = useState(0);
  useEffect(() => {
    const changed = () => setChanges((count) => count + 1);
    const one = new Shared({ changed, full: () => undefined });
    const board = meeting.board({
      event: (bytes) => one.receive(bytes),
      live: () => setShared(one),
      line: (up) => {
        if (!up) one.cut();
      },
      refused: () => undefined,
    }, { since_ms, order });
    return () => {
      board.close();
      one.close();
    };
  }, [meeting, since_ms, order]);
  return { shared, changes };
}
