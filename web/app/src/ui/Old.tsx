/** Tells who left this page open over an upgrade that there is a newer one, until that is put away. */

import { RefreshCw } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { useOld } from "../version";
import { Bar } from "./Bar";

/** `there`: whether a server can be asked. */
export function Old({ there }: { there: boolean }) {
  const { t } = useTranslation();
  const old = useOld(there);
  const [read, setRead] = useState(false);
  if (!old || read) return null;
  return (
    <Bar icon={RefreshCw} text={t("old.text")} dismiss={() => setRead(true)}>
      <a href="" className="shrink-0 underline">{t("old.again")}</a>
    </Bar>
  );
}
