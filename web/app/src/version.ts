/** A page may stay open over an upgrade of its server, whose files have other names from then on. */

import { useEffect, useState } from "react";

/** How long after the server did not answer it is asked again. */
const AGAIN_MS = 5_000;

/** The script that this page began with; its name changes with its content. */
const OWN = document.querySelector("script[type=module]")?.getAttribute("src") ?? "";

/** Whether the server that this page came from has another one by now; nothing if it does not answer. */
async function isOld(): Promise<boolean | undefined> {
  try {
    const answer = await fetch("/", { cache: "no-store" });
    return answer.ok ? !(await answer.text()).includes(OWN) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Whether this page is older than the server that it came from. Looks when a server is `there` again,
 * until its own answers; when somebody comes back to the page; and when a file of it is missing.
 */
export function useOld(there: boolean): boolean {
  const [old, setOld] = useState(false);
  useEffect(() => {
    if (!there) return undefined;
    let again: ReturnType<typeof setTimeout> | undefined;
    let gone = false;
    const look = async () => {
      clearTimeout(again);
      if (document.hidden) return;
      const found = await isOld();
      if (gone) return;
      if (found === undefined) again = setTimeout(() => void look(), AGAIN_MS);
      else setOld(found);
    };
    const looks = () => void look();
    looks();
    document.addEventListener("visibilitychange", looks);
    addEventListener("vite:preloadError", looks);
    return () => {
      gone = true;
      clearTimeout(again);
      document.removeEventListener("visibilitychange", looks);
      removeEventListener("vite:preloadError", looks);
    };
  }, [there]);
  return old;
}
