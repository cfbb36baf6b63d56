/** Keys that work wherever nothing is being typed. */

import { useEffect } from "react";

/** Where letters are text, look for an entry, or are keys of something else. */
const TYPES = "input:not([type=checkbox]), textarea, select, [contenteditable], [role=listbox], [role=menu], [data-keys=own]";

export function useShortcuts(keys: Readonly<Record<string, () => void>>): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
      const target = event.target as HTMLElement | null;
      const types = target?.closest(TYPES);
      if (types) return;
      const act = keys[event.key.toLowerCase()];
      if (!act) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [keys]);
}
