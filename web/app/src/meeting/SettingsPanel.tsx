/** Devices, quality and language, and what keys do. */

import { useTranslation } from "react-i18next";
import { open } from "../media";
import { Devices } from "../prejoin/PreJoin";
import type { Settings } from "../settings";
import type { Switches } from "./switches";
import { Languages } from "../ui/Languages";
import { Toggle } from "./Moderation";

/** Keys and the translations of what they do. */
export const KEYS: [string, string][] = [
  ["M", "keys.microphone"], ["V", "keys.camera"], ["S", "keys.screen"], ["H", "keys.hand"],
  ["C", "keys.chat"], ["P", "keys.people"], ["B", "keys.board"], ["L", "keys.layout"],
];

export interface SettingsProps {
  switches: Switches;
  settings: Settings;
  change(settings: Settings): void;
}

export function SettingsPanel({ switches, settings, change }: SettingsProps) {
  const { t } = useTranslation();
  // What is being sent changes with the choice.
  const choose = (next: Settings) => {
    change(next);
    if (next.speakerId !== settings.speakerId) return;
    for (const medium of ["audio", "video"] as const) {
      switches.replace(medium, async () => [await open(medium, next)]).catch(() => undefined);
    }
  };
  return (
    <div className="flex flex-1 flex-col gap-5 overflow-y-auto p-4" tabIndex={0} role="group"
      aria-label={t("tool.settings")}>
      <Devices settings={settings} change={choose} opened={switches} />
      <Toggle
        label={t("settings.save")} on={settings.saveData}
        turn={(saveData) => choose({ ...settings, saveData })}
      />
      <Toggle
        label={t("settings.original")} on={settings.originalSound}
        turn={(originalSound) => choose({ ...settings, originalSound })}
      />
      <Languages settings={settings} change={change} />
      <section aria-label={t("keys.title")}>
        <h3 className="mb-2 text-sm font-semibold text-dim">{t("keys.title")}</h3>
        <Toggle
          label={t("settings.keys")} on={settings.keys} turn={(keys) => change({ ...settings, keys })}
        />
        <dl className="mt-3 grid grid-cols-[auto_1fr] gap-x-4 gap-y-1.5">
          {KEYS.map(([key, text]) => (
            <div key={key} className="contents">
              <dt><kbd className="rounded bg-soft px-2 py-0.5 font-mono text-sm">{key}</kbd></dt>
              <dd>{t(text)}</dd>
            </div>
          ))}
        </dl>
      </section>
    </div>
  );
}
