/** Chat of one's room, or to one member alone. */

import type { ChatLine, View } from "@sangam/sdk";
import { SendHorizontal } from "lucide-react";
import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { Label, TextArea, TextField } from "react-aria-components";
import { useTranslation } from "react-i18next";
import { Choice } from "../ui/Choice";
import { IconButton } from "../ui/IconButton";
import type { Tools } from "./useTools";
import { me, together } from "./view";

/** By docs/spec/xgsp.md, in bytes; characters of any script have up to four. */
const LINE_MAX = 500;
const ALL = "all";

export function Chat({ view, tools }: { view: View; tools: Tools }) {
  const { t } = useTranslation();
  const [text, setText] = useState("");
  const [to, setTo] = useState(ALL);
  const end = useRef<HTMLDivElement>(null);
  const lines = view.session?.chat ?? [];
  useEffect(() => {
    void end.current?.scrollIntoView({ block: "end" });
  }, [lines.length]);
  const others = together(view).filter((one) => one.id !== view.me);
  const send = () => {
    if (text.trim() === "") return;
    tools.ask({ do: "chat", text: text.trim(), ...(to === ALL ? {} : { to }) });
    setText("");
  };
  const press = (event: KeyboardEvent) => {
    const types = event.target instanceof HTMLTextAreaElement && !event.nativeEvent.isComposing;
    if (!types || event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    send();
  };
  return (
    <>
      <div
        role="log" aria-label={t("chat.lines")} tabIndex={0}
        className="flex flex-1 flex-col gap-3 overflow-y-auto p-4"
      >
        {lines.length === 0 && <p className="m-auto text-center text-dim">{t("chat.empty")}</p>}
        {lines.map((line) => <Line key={line.seq} line={line} view={view} />)}
        <div ref={end} />
      </div>
      {me(view)?.rights.chat && (
        <div className="flex flex-col gap-2 border-t border-line p-3">
          <Choice
            label={t("chat.to")} value={others.some((one) => one.id === to) ? to : ALL} choose={setTo}
            options={[{ id: ALL, name: t("chat.all") }, ...others.map(({ id, name }) => ({ id, name }))]}
          />
          <div className="flex items-end gap-2" onKeyDownCapture={press}>
            <TextField value={text} onChange={setText} maxLength={LINE_MAX} className="min-w-0 flex-1">
              <Label className="sr-only">{t("chat.text")}</Label>
              <TextArea
                rows={2} placeholder={t("chat.text")} dir="auto"
                className="w-full resize-none rounded-lg border border-line bg-ground px-3 py-2
                  placeholder:text-dim"
              />
            </TextField>
            <IconButton icon={SendHorizontal} label={t("chat.send")} look="on" press={send} />
          </div>
        </div>
      )}
    </>
  );
}

function Line({ line, view }: { line: ChatLine; view: View }) {
  const { t, i18n } = useTranslation();
  const name = (id: string) => view.session?.members?.find((one) => one.id === id)?.name ?? t("chat.gone");
  const time = new Date(line.at_ms).toLocaleTimeString(i18n.language, { hour: "numeric", minute: "2-digit" });
  return (
    <div className="flex flex-col gap-0.5">
      <p className="flex items-baseline gap-2 text-sm">
        <span dir="auto" className="truncate font-semibold">{name(line.from)}</span>
        {line.to && <span className="text-warn">{t("chat.private", { name: name(line.to) })}</span>}
        <time className="text-xs text-dim">{time}</time>
      </p>
      <p dir="auto" className="break-words whitespace-pre-wrap">{line.text}</p>
    </div>
  );
}
