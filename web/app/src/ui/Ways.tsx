/** Other ways into a meeting: to be dialled from here, or copied to whatever dials. */

import type { Way } from "@sangam/sdk";
import { Check, Copy, MonitorPlay, Phone, Video, type LucideIcon } from "lucide-react";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { target, type Kind } from "../ways";
import { IconButton } from "./IconButton";

const ICONS: Record<Kind, LucideIcon> = { phone: Phone, room: Video, player: MonitorPlay };
/** For how long it is told that something was copied. */
const COPIED_MS = 3_000;

export interface WaysProps {
  ways: readonly Way[];
  /** How deep this stands in what it is part of. */
  heading: "h2" | "h3";
}

export function Ways({ ways, heading: Heading }: WaysProps) {
  const { t } = useTranslation();
  if (ways.length === 0) return null;
  return (
    <section aria-label={t("ways.title")}>
      <Heading className="mb-2 text-sm font-semibold text-dim">{t("ways.title")}</Heading>
      <ul className="flex flex-col gap-2">
        {ways.map((one, n) => <One key={`${n} ${one.uri}`} way={one} />)}
      </ul>
    </section>
  );
}

function One({ way }: { way: Way }) {
  const { t } = useTranslation();
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    const timer = copied ? setTimeout(() => setCopied(false), COPIED_MS) : undefined;
    return () => clearTimeout(timer);
  }, [copied]);
  const { kind, text, href, leaves } = target(way.uri);
  const Icon = ICONS[kind];
  // Browsers let pages copy only where TLS, or the machine itself, vouches for them.
  const clipboard = navigator.clipboard as Clipboard | undefined;
  const copy = () => void clipboard?.writeText(text).then(() => setCopied(true), () => undefined);
  return (
    <li className="flex items-center gap-2">
      <Icon size={16} aria-hidden className="shrink-0 text-accent" />
      <span className="flex min-w-0 flex-1 flex-col">
        <span dir="auto" className="break-words">{way.label}</span>
        {href === undefined ? <bdi dir="ltr" className="text-sm break-all text-dim">{text}</bdi> : (
          <a
            href={href} dir="ltr" className="self-start text-sm break-all underline"
            {...(leaves ? { target: "_blank", rel: "noopener noreferrer" } : {})}
          >
            {text}
          </a>
        )}
      </span>
      <span role="status" className="text-sm text-dim empty:hidden">{copied && t("ways.copied")}</span>
      {clipboard && (
        <IconButton
          small icon={copied ? Check : Copy} label={t("ways.copy", { label: way.label })} press={copy}
        />
      )}
    </li>
  );
}
