/** After a meeting, or instead of one: why, and what can be done. */

import type { Bye, View } from "@sangam/sdk";
import { Button } from "react-aria-components";
import { useTranslation } from "react-i18next";
import type { Link } from "./route";
import { Logo } from "./ui/Logo";
import { LogOut } from "./ui/LogOut";

/** Refusals that have words of their own here; the server's stand in for others. */
const KNOWN = [
  "expired", "invalid_token", "other_session", "no_session", "locked", "barred", "full", "not_now",
];

/** After these nobody gets back in. */
const FINAL: Bye[] = ["removed", "ended"];

export function Left({ view, link, again }: { view: View; link: Link; again: () => void }) {
  const { t } = useTranslation();
  const code = view.problem?.code ?? "";
  const refused = KNOWN.includes(code) ? t(`refused.${code}`) : view.problem?.error;
  const title = refused ?? t(`left.${view.bye ?? "left"}`);
  return (
    <main className="flex min-h-full items-center justify-center p-6">
      <div className="card flex w-full max-w-md flex-col items-start gap-5 p-8">
        <Logo />
        <h1 className="text-2xl font-semibold">{title}</h1>
        {view.problem?.hint && !KNOWN.includes(code) && <p className="text-dim">{view.problem.hint}</p>}
        {!FINAL.includes(view.bye ?? "left") && (
          <Button
            onPress={again}
            className="cursor-pointer rounded-lg bg-accent px-4 py-2.5 font-semibold text-ground"
          >
            {t("left.again")}
          </Button>
        )}
        {link.account && <LogOut link={link} />}
      </div>
    </main>
  );
}
