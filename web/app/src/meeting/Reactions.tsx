/** Reactions: a few to choose from, and those that rise over the stage. */

import type { View } from "@sangam/sdk";
import { Smile } from "lucide-react";
import { Button, Dialog, DialogTrigger, Popover } from "react-aria-components";
import { useTranslation } from "react-i18next";
import type { Tools } from "./useTools";

const EMOJI = ["👍", "👏", "❤️", "😂", "🎉", "🤔"];

export function Reactions({ tools }: { tools: Tools }) {
  const { t } = useTranslation();
  return (
    <DialogTrigger>
      <Button
        aria-label={t("tool.react")}
        className="flex size-11 cursor-pointer items-center justify-center rounded-full bg-soft hover:bg-line"
      >
        <Smile size={20} aria-hidden />
      </Button>
      <Popover placement="top" className="card p-1.5 shadow-xl">
        <Dialog aria-label={t("tool.react")} className="flex gap-1 outline-none">
          {({ close }) => EMOJI.map((one) => (
            <Button
              key={one} aria-label={t("tool.react_with", { emoji: one })}
              onPress={() => {
                tools.react(one);
                close();
              }}
              className="size-10 cursor-pointer rounded-lg text-xl hover:bg-soft"
            >
              {one}
            </Button>
          ))}
        </Dialog>
      </Popover>
    </DialogTrigger>
  );
}

/** What was reacted just now. Read out as text, shown as a picture that rises. */
export function Rising({ view }: { view: View }) {
  const name = (id: string) => view.session?.members?.find((one) => one.id === id)?.name ?? "";
  return (
    <div role="status" className="pointer-events-none absolute bottom-4 left-6 flex gap-3">
      {view.reactions.map(({ seq, from, text }) => (
        <span key={seq} className="flex animate-rise flex-col items-center">
          <span className="text-4xl">{text}</span>
          <span dir="auto" className="max-w-28 truncate rounded bg-ground/80 px-1.5 text-xs">{name(from)}</span>
        </span>
      ))}
    </div>
  );
}
