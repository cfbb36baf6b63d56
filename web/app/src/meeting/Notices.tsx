/** What a member has to know now: lost lines, refusals, who waits. */

import type { View } from "@sangam/sdk";
import { CircleAlert, LoaderCircle, Lock } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { Bar } from "../ui/Bar";
import { Old } from "../ui/Old";
import type { Tools } from "./useTools";
import { awaited, leading, paused, recorded, recorder } from "./view";

/** Refused floors that have words here; the server's stand in for others. */
const KNOWN = ["muted", "forbidden", "full", "not_now", "over"];

export function Notices({ view, tools }: { view: View; tools: Tools }) {
  const { t } = useTranslation();
  const { notice } = tools;
  const problem = view.refused?.problem;
  const lost = !view.media ? "notice.media" : !view.line ? "notice.line" : undefined;
  return (
    <div role="status" className="flex flex-col items-center gap-2 empty:hidden">
      {lost && <Bar icon={LoaderCircle} text={t(lost)} spins />}
      <Old there={!lost} />
      {paused(view) && <Bar icon={Lock} text={t(`notice.${view.session?.state}`)} />}
      {notice && (
        <Bar icon={CircleAlert} text={notice.key ? t(notice.key) : (notice.text ?? "")} dismiss={tools.dismiss} />
      )}
      {problem && !notice && (
        <Bar
          icon={CircleAlert}
          text={KNOWN.includes(problem.code) ? t(`floor.${problem.code}`) : problem.error}
        />
      )}
    </div>
  );
}

/** Whoever is recorded is told by whom and what, once, and that it may leave. */
export function Consent({ view }: { view: View }) {
  const { t } = useTranslation();
  const since = view.session?.recording?.since_ms ?? 0;
  const [read, setRead] = useState<number>();
  const name = recorder(view);
  const text = name === undefined ? t("record.planned") : t("record.by", { name });
  return (
    <div role="status" className="flex flex-col items-center gap-2 empty:hidden">
      {recorded(view) && read !== since && (
        <Bar icon={CircleAlert} text={text} dismiss={() => setRead(since)} />
      )}
      {awaited(view) && leading(view) && <Bar icon={LoaderCircle} text={t("record.waits")} spins />}
    </div>
  );
}
