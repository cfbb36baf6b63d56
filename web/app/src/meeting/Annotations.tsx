/** What people say of a recording while they watch it: marks beside the position, and a field. */

import type { Annotation, View } from "@sangam/sdk";
import { SendHorizontal } from "lucide-react";
import { useRef, useState } from "react";
import { Button, Input, Label, TextField } from "react-aria-components";
import { useTranslation } from "react-i18next";
import { IconButton } from "../ui/IconButton";
import type { Tools } from "./useTools";
import { clock, heard, me, shownAt } from "./view";

/** By docs/spec/xgsp.md in bytes; characters of any script have up to four. */
const SAID_MAX = 125;

export interface AnnotationsProps {
  view: View;
  tools: Tools;
  /** Where the recording is, and how long it is. */
  now: number;
  length: number;
}

/** A mark for each; those who may go elsewhere go there by it. */
export function Marks({ view, length, go }: Omit<AnnotationsProps, "tools" | "now"> & {
  go: ((position: number) => void) | undefined;
}) {
  const { t } = useTranslation();
  const all = view.session?.annotations ?? [];
  if (all.length === 0) return null;
  const words = ({ name, position_ms, text }: Annotation) =>
    t("replay.mark", { name, time: clock(position_ms), text });
  // As large as a finger needs it, and painted narrow.
  const look = `absolute top-0 size-6 -translate-x-1/2 after:absolute after:top-1 after:left-2 after:h-3
    after:w-2 after:rounded-sm after:bg-sky`;
  return (
    <ul aria-label={t("replay.marks")} className="absolute inset-x-0 top-0 h-6">
      {all.map((one) => (
        <li key={`${one.said_ms}-${one.number}`} className="contents">
          {go ? (
            <Button
              aria-label={words(one)} onPress={() => go(one.position_ms)} className={`${look} cursor-pointer`}
              style={{ left: `${(100 * one.position_ms) / length}%` }}
            />
          ) : (
            <span
              role="img" aria-label={words(one)} className={look}
              style={{ left: `${(100 * one.position_ms) / length}%` }}
            />
          )}
        </li>
      ))}
    </ul>
  );
}

/** What is said of this moment, and the field for saying more. */
export function Annotations({ view, tools, now, length }: AnnotationsProps) {
  const { t } = useTranslation();
  const [text, setText] = useState("");
  const place = useRef(0);
  const type = (typed: string) => {
    // Of the moment at which somebody began to write, not of that at which it was written.
    if (text === "") place.current = Math.min(now, length);
    setText(typed);
  };
  const send = () => {
    const said = heard(text);
    if (said === "") return;
    tools.ask({ do: "annotate", text: said, position_ms: place.current });
    setText("");
  };
  return (
    <div className="flex basis-full flex-wrap items-center gap-3">
      <div role="status" className="min-w-0 flex-1 text-sm">
        {shownAt(view.session?.annotations ?? [], now).map((one) => (
          <p key={`${one.said_ms}-${one.number}`} className="truncate">
            <span dir="auto" className="font-semibold">{one.name}</span>{" "}
            <span dir="auto">{one.text}</span>
          </p>
        ))}
      </div>
      {me(view)?.rights.chat && (
        <form
          className="flex min-w-0 flex-1 items-center gap-2"
          onSubmit={(event) => {
            event.preventDefault();
            send();
          }}
        >
          <TextField value={text} onChange={type} maxLength={SAID_MAX} className="min-w-0 flex-1">
            <Label className="sr-only">{t("replay.say")}</Label>
            <Input
              placeholder={t("replay.say")} dir="auto"
              className="w-full rounded-lg border border-line bg-ground px-3 py-1.5 text-sm
                placeholder:text-dim"
            />
          </TextField>
          <IconButton small icon={SendHorizontal} label={t("replay.send")} press={send} />
        </form>
      )}
    </div>
  );
}
