import { useTranslation } from "react-i18next";
import { change as speak, LANGUAGES, type Language } from "../i18n";
import type { Settings } from "../settings";
import { Choice } from "./Choice";

export function Languages({ settings, change }: { settings: Settings; change(to: Settings): void }) {
  const { t } = useTranslation();
  const choose = (id: string) => {
    const language = id as Language;
    change({ ...settings, language });
    void speak(language);
  };
  const options = Object.entries(LANGUAGES).map(([id, name]) => ({ id, name }));
  return <Choice label={t("language")} value={settings.language} options={options} choose={choose} />;
}
