/** Without a link: a name of a meeting is enough to make one. */

import { useState, type FormEvent } from "react";
import { Button, Input, Label, TextField } from "react-aria-components";
import { useTranslation } from "react-i18next";
import { level } from "./route";
import { Logo } from "./ui/Logo";

export function Home({ tenant }: { tenant: string }) {
  const { t } = useTranslation();
  const [name, setName] = useState("");
  const go = (event: FormEvent) => {
    event.preventDefault();
    const session = level(name) || "meeting";
    location.assign(`/m/${tenant}/${session}`);
  };
  return (
    <main className="flex min-h-full items-center justify-center p-6">
      <form onSubmit={go} className="card flex w-full max-w-md flex-col gap-5 p-8">
        <Logo />
        <h1 className="text-2xl font-semibold">{t("home.title")}</h1>
        <TextField value={name} onChange={setName} className="flex flex-col gap-2">
          <Label className="text-sm text-dim">{t("home.name")}</Label>
          <Input
            placeholder={t("home.example")}
            className="rounded-lg border border-line bg-ground px-3 py-2.5 placeholder:text-dim"
          />
        </TextField>
        <Button
          type="submit"
          className="cursor-pointer rounded-lg bg-accent px-4 py-2.5 font-semibold text-ground"
        >
          {t("home.go")}
        </Button>
      </form>
    </main>
  );
}
