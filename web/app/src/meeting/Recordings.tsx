/** Recording this meeting, and what was recorded of it. */

import type { Meeting, Recording, View } from "@sangam/sdk";
import { Play } from "lucide-react";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { IconButton } from "../ui/IconButton";
import { Toggle } from "./Moderation";
import type { Tools } from "./useTools";
import { clock, leading, recorded } from "./view";

/** How often the list is asked for: a recording is there some moments after its end. */
const AGAIN_MS = 2_000;

export interface RecordingsProps {
  meeting: Meeting;
  view: View;
  tools: Tools;
}

export function Recordings({ meeting, view, tools }: RecordingsProps) {
  const { t } = useTranslation();
  const list = useRecordings(meeting);
  const on = view.session?.recording !== undefined || recorded(view);
  return (
    <div className="flex flex-1 flex-col gap-4 overflow-y-auto p-4">
      {leading(view) && (
        <Toggle label={t("record.switch")} on={on} turn={(to) => tools.ask({ do: "record", on: to })} />
      )}
      <section aria-label={t("record.list")} className="flex flex-col gap-2">
        <h3 className="text-sm font-semibold text-dim">{t("record.list")}</h3>
        {list.length === 0 && <p className="text-dim">{t("record.none")}</p>}
        {list.length > 0 && (
          <ul className="flex flex-col gap-1.5">
            {list.map((one) => (
              <Row
                key={one.id} recording={one}
                show={() => tools.ask({ do: "replay", recording: one.id })}
              />
            ))}
          </ul>
        )}
      </section>
    </div>
  );
}

function Row({ recording, show }: { recording: Recording; show(): void }) {
  const { t, i18n } = useTranslation();
  const { begin_ms, length_ms, over } = recording;
  const moment = new Date(begin_ms).toLocaleString(i18n.language, { dateStyle: "medium", timeStyle: "medium" });
  return (
    <li className="flex items-center gap-2">
      <span className="min-w-0 flex-1">
        <time dateTime={new Date(begin_ms).toISOString()} className="block truncate">{moment}</time>
        <span className="text-sm text-dim">{clock(length_ms)}{over ? "" : `, ${t("record.cut")}`}</span>
      </span>
      <IconButton small icon={Play} label={`${t("record.show")}: ${moment}`} press={show} />
    </li>
  );
}

/** The newest first. */
function useRecordings(meeting: Meeting): Recording[] {
  const [list, setList] = useState<Recording[]>([]);
  useEffect(() => {
    let over = false;
    const look = () => {
      meeting.recordings()
        .then((found) => {
          if (!over) setList(found.toReversed());
        })
        // The line comes back, and it is asked again.
        .catch(() => undefined);
    };
    look();
    const timer = setInterval(look, AGAIN_MS);
    return () => {
      over = true;
      clearInterval(timer);
    };
  }, [meeting]);
  return list;
}
