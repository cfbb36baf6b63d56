/** When the page itself is at fault: words and a way out instead of nothing. */

import { Component, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { Logo } from "./Logo";

export class Guard extends Component<{ children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override render() {
    return this.state.failed ? <Sorry /> : this.props.children;
  }
}

function Sorry() {
  const { t } = useTranslation();
  return (
    <main className="flex min-h-full flex-col items-center justify-center gap-6 p-6 text-center">
      <Logo />
      <h1 className="text-xl">{t("fault.title")}</h1>
      <a href="" className="rounded-lg bg-accent px-4 py-2.5 font-semibold text-ground">{t("fault.again")}</a>
    </main>
  );
}
