/** One line that somebody has to know now. */

import { X, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { IconButton } from "./IconButton";

export interface BarProps {
  icon: LucideIcon;
  text: string;
  spins?: boolean;
  /** What can be done about it. */
  children?: ReactNode;
  dismiss?(): void;
}

export function Bar({ icon: Icon, text, spins, children, dismiss }: BarProps) {
  const { t } = useTranslation();
  return (
    <p className="flex items-center gap-2 rounded-lg border border-line bg-raised px-3 py-1.5 text-sm">
      <Icon size={16} aria-hidden className={`shrink-0 text-warn ${spins ? "animate-spin" : ""}`} />
      {text}
      {children}
      {dismiss && <IconButton small icon={X} label={t("close")} press={dismiss} />}
    </p>
  );
}
