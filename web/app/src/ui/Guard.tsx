/** When the page itself is at fault: words and a way out instead of nothing. */

import { Component, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { Logo } from "./Logo";

export interface GuardProps {
  children: ReactNode;
  /** Whether this is a part of a page that goes on without it. */
  part?: boolean;
}

export class Guard extends Component<GuardProps, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override render() {
    const { children, part } = this.props;
    if (!this.state.failed) return children;
    return part ? <Part /> : <Sorry />;
  }
}

function Part() {
  const { t } = useTranslation();
  return <p role="alert" className="card flex size-full items-center justify-center">{t("fault.title")}</p>;
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
