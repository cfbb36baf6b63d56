/** Why somebody was not let in, in the page's words where it has some, in the server's elsewhere. */

import type { Problem } from "@sangam/sdk";
import type { TFunction } from "i18next";

const KNOWN = [
  "no_token", "expired", "invalid_token", "other_session", "no_session", "locked", "barred", "full",
  "not_now", "line",
];

/** After these the same link lets nobody in, however often it is tried. */
const FINAL = ["expired", "invalid_token", "other_session", "barred"];

export interface Refusal {
  text: string;
  /** What can be done about it, where the text does not say so itself. */
  hint?: string;
  final: boolean;
}

export function refusal({ code, error, hint }: Problem, t: TFunction): Refusal {
  const final = FINAL.includes(code);
  if (KNOWN.includes(code)) return { text: t(`refused.${code}`), final };
  return { text: error, ...(hint ? { hint } : {}), final };
}
