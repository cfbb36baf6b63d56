/** A panel beside the stage; over it on a phone. */

import { X } from "lucide-react";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { IconButton } from "../ui/IconButton";

export function Side({ title, close, children }: { title: string; close(): void; children: ReactNode }) {
  const { t } = useTranslation();
  return (
    <aside
      aria-label={title}
      className="card fixed inset-2 z-20 flex flex-col overflow-hidden md:static md:inset-auto md:w-80
        md:shrink-0"
    >
      <header className="flex items-center justify-between gap-2 border-b border-line py-2 pr-2 pl-4">
        <h2 className="font-semibold">{title}</h2>
        <IconButton small icon={X} label={t("close")} press={close} />
      </header>
      {children}
    </aside>
  );
}
