/** What a meeting will need of the network, tried. */

import { probe, type Outcome, type Report } from "@sangam/sdk";
import { Check, CircleAlert, CircleHelp, LoaderCircle } from "lucide-react";
import { useEffect, useState } from "react";
import { Button } from "react-aria-components";
import { useTranslation } from "react-i18next";
import type { Link } from "../route";

const LOOKS = {
  running: { icon: LoaderCircle, color: "text-dim animate-spin" },
  good: { icon: Check, color: "text-accent" },
  bad: { icon: CircleAlert, color: "text-warn" },
  unknown: { icon: CircleHelp, color: "text-dim" },
} as const;

export interface ConnectionTestProps {
  link: Link;
  /** By origin; none before they are known. */
  brokers: readonly string[] | undefined;
}

export function ConnectionTest({ link, brokers }: ConnectionTestProps) {
  const { t } = useTranslation();
  const [report, setReport] = useState<Report>();
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (!brokers) return undefined;
    let gone = false;
    const door = { origin: location.origin, token: link.token ?? null };
    void probe(door, brokers, link, (step) => {
      if (!gone) setReport(step);
    });
    return () => {
      gone = true;
    };
  }, [link, brokers, round]);
  if (!report) return null;
  const bad = [report.server, report.signalling, report.media].includes("bad");
  const rtt = report.rttMs === undefined ? "" : ` ${Math.round(report.rttMs)} ms`;
  const way = report.way ? ` · ${report.way.toUpperCase()}` : "";
  return (
    <section aria-label={t("test.title")} className="flex flex-col gap-2 text-sm">
      <ul className="flex flex-wrap gap-x-5 gap-y-1.5">
        <Step outcome={report.server} text={t("test.server")} />
        <Step outcome={report.signalling} text={t("test.signalling")} />
        <Step outcome={report.media} text={t("test.media")} more={`${rtt}${way}`} />
      </ul>
      {bad && (
        <p role="alert" className="text-warn">
          {t("test.advice")}{" "}
          <Button onPress={() => setRound(round + 1)} className="cursor-pointer underline">
            {t("test.again")}
          </Button>
        </p>
      )}
    </section>
  );
}

function Step({ outcome, text, more }: { outcome: Outcome; text: string; more?: string }) {
  const { t } = useTranslation();
  const { icon: Icon, color } = LOOKS[outcome];
  return (
    <li className="flex items-center gap-1.5" data-outcome={outcome}>
      <Icon size={16} className={color} role="img" aria-label={t(`test.${outcome}`)} />
      <span>{text}</span>
      {outcome === "good" && more && <span className="text-dim">{more}</span>}
    </li>
  );
}
