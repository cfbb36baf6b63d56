/** Languages of the page. English is complete by definition; tests hold the others against it. */

import i18next from "i18next";
import { initReactI18next } from "react-i18next";
import de from "./locales/de.json";
import en from "./locales/en.json";
import fr from "./locales/fr.json";
import hi from "./locales/hi.json";

export const LANGUAGES = { en: "English", de: "Deutsch", fr: "Français", hi: "हिन्दी" } as const;
export type Language = keyof typeof LANGUAGES;

export async function speak(language: Language): Promise<void> {
  await i18next.use(initReactI18next).init({
    lng: language,
    fallbackLng: "en",
    resources: {
      en: { translation: en }, de: { translation: de },
      fr: { translation: fr }, hi: { translation: hi },
    },
    interpolation: { escapeValue: false },
  });
  document.documentElement.lang = language;
}

export async function change(language: Language): Promise<void> {
  await i18next.changeLanguage(language);
  document.documentElement.lang = language;
}

/** The first of the reader's languages that is there. */
export function preferred(wanted: readonly string[]): Language {
  const short = wanted.map((tag) => tag.slice(0, 2).toLowerCase());
  const known = Object.keys(LANGUAGES) as Language[];
  return known.find((one) => one === short.find((tag) => known.includes(tag as Language))) ?? "en";
}
