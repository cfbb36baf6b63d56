/** What is done with a board, and what a person has to know of it. */

import type { Meeting } from "@sangam/sdk";
import {
  Circle, CircleAlert, Eraser, Hand, LoaderCircle, Minus, MousePointer2, MoveUpRight, Pencil, Square,
  Trash2, Type, X, type LucideIcon,
} from "lucide-react";
import { useState } from "react";
import { Button, Toolbar } from "react-aria-components";
import { useTranslation } from "react-i18next";
import { IconButton } from "../ui/IconButton";
import type { Standing } from "./useBoard";

const TOOLS = {
  selection: MousePointer2, hand: Hand, freedraw: Pencil, rectangle: Square, ellipse: Circle,
  arrow: MoveUpRight, line: Minus, text: Type, eraser: Eraser,
} as const satisfies Record<string, LucideIcon>;
export type Tool = keyof typeof TOOLS;

const PAINTS = { black: "#1e1e1e", red: "#e03131", green: "#2f9e44", blue: "#1971c2", orange: "#f08c00" } as const;
export type Paint = (typeof PAINTS)[keyof typeof PAINTS];

export interface BoardToolsProps {
  meeting: Meeting;
  may: Standing;
  live: boolean;
  tool: Tool;
  choose(tool: Tool): void;
  paint(paint: Paint): void;
  clear(): void;
  full: boolean;
  settle(): void;
}

export function BoardTools(props: BoardToolsProps) {
  const { meeting, may, live, tool, choose, paint, clear, full, settle } = props;
  const { t } = useTranslation();
  const [color, setColor] = useState<Paint>(PAINTS.black);
  const draws = may === "draws" && live;
  return (
    <header className="flex flex-wrap items-center gap-2 border-b border-line p-2">
      {draws && (
        <Toolbar aria-label={t("board.tools")} className="flex flex-wrap items-center gap-1.5">
          {(Object.keys(TOOLS) as Tool[]).map((one) => (
            <IconButton
              key={one} small icon={TOOLS[one]} label={t(`board.${one}`)} pressed={tool === one}
              look={tool === one ? "on" : "plain"} press={() => choose(one)}
            />
          ))}
          <span aria-hidden className="mx-1 h-6 w-px bg-line" />
          {Object.entries(PAINTS).map(([name, one]) => (
            <Button
              key={name} aria-label={t(`board.${name}`)} aria-pressed={color === one}
              onPress={() => {
                setColor(one);
                paint(one);
              }}
              className={`size-7 cursor-pointer rounded-full border-3 ${color === one ? "border-ink" : "border-raised"}`}
              style={{ backgroundColor: one }}
            />
          ))}
          <span aria-hidden className="mx-1 h-6 w-px bg-line" />
          <IconButton small icon={Trash2} label={t("board.clear")} press={clear} />
        </Toolbar>
      )}
      <div role="status" className="flex flex-wrap items-center gap-2 text-sm empty:hidden">
        {!live && (
          <p className="flex items-center gap-2 px-1">
            <LoaderCircle size={16} aria-hidden className="animate-spin text-warn" />
            {t("board.opening")}
          </p>
        )}
        {live && may === "looks" && <p className="px-1 text-dim">{t("board.look")}</p>}
        {live && may === "waits" && <p className="px-1 text-warn">{t("board.wait")}</p>}
        {full && (
          <p className="flex items-center gap-2 px-1 text-warn">
            <CircleAlert size={16} aria-hidden />
            {t("board.full")}
            <IconButton small icon={X} label={t("close")} press={settle} />
          </p>
        )}
      </div>
      {live && may === "asks" && (
        <Button
          onPress={() => void meeting.ask({ do: "request", medium: "board" }).catch(() => undefined)}
          className="cursor-pointer rounded-lg bg-accent px-3 py-1.5 text-sm font-semibold text-ground"
        >
          {t("board.ask")}
        </Button>
      )}
    </header>
  );
}
