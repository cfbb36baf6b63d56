/** What a person chose once, kept in this browser. */

import { preferred, LANGUAGES, type Language } from "./i18n";

export interface Settings {
  name: string;
  language: Language;
  camera: boolean;
  microphone: boolean;
  cameraId?: string;
  microphoneId?: string;
  speakerId?: string;
  /** Small pictures in one layer: for weak machines and dear networks. */
  saveData: boolean;
  /** Sound as it is, for music: no filters. */
  originalSound: boolean;
  /** Single letters do what tools do. */
  keys: boolean;
}

const KEY = "sangam.settings";
const IDENTITY = "sangam.identity";

export function load(): Settings {
  const fallback: Settings = {
    name: "", language: preferred(navigator.languages), camera: true, microphone: true,
    saveData: false, originalSound: false, keys: true,
  };
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Settings>;
    const known = kept.language !== undefined && kept.language in LANGUAGES;
    return { ...fallback, ...kept, language: known ? kept.language! : fallback.language };
  } catch {
    return fallback;
  }
}

export function save(settings: Settings): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    // Private windows may have no store; the choice holds until the page is left.
  }
}

/** Who a guest is to the session: the same after a reload, another in every window. */
export function identity(): string {
  const random = () => `guest-${crypto.getRandomValues(new Uint32Array(2)).join("")}`;
  try {
    const kept = sessionStorage.getItem(IDENTITY) ?? random();
    sessionStorage.setItem(IDENTITY, kept);
    return kept;
  } catch {
    return random();
  }
}
