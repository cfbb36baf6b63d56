/** The way out of an account: what this window keeps of it goes first, then the provider is asked. */

import { useTranslation } from "react-i18next";
import { forget, logout, type Link } from "../route";

export function LogOut({ link }: { link: Link }) {
  const { t } = useTranslation();
  return (
    <a href={logout(link)} onClick={forget} className="self-start text-sm underline">{t("login.out")}</a>
  );
}
