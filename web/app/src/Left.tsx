/** After a meeting, or instead of one: why, and what can be done. */

import type { Bye, View } from "@sangam/sdk";
import { Button } from "react-aria-components";
import { useTranslation } from "react-i18next";
import { refusal } from "./refusal";
import type { Link } from "./route";
import { Logo } from "./ui/Logo";
import { LogOut } from "./ui/LogOut";

/** After these nobody gets back in. */
const FINAL: Bye[] = ["removed", "ended"];

export function Left({ view, link, again }: { view: View; link: Link; again: () => void }) {
  const { t } = useTranslation();
  const refused = view.problem && refusal(view.problem, t);
  const title = refused?.text ?? t(`left.${view.bye ?? "left"}`);
  return (
    <main className="flex min-h-full items-center justify-center p-6">
      <div className="card flex w-full max-w-md flex-col items-start gap-5 p-8">
        <Logo />
        <h1 className="text-2xl font-semibold">{title}</h1>
        {refused?.hint && <p className="text-dim">{refused.hint}</p>}
        {!(refused?.final ?? FINAL.includes(view.bye ?? "left")) && (
          <Button
            onPress={again}
            className="cursor-pointer rounded-lg bg-accent px-4 py-2.5 font-semibold text-ground"
          >
            {t(refused ? "refused.again" : "left.again")}
          </Button>
        )}
        {link.account && <LogOut link={link} />}
      </div>
    </main>
  );
}
