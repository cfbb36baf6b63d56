/** What is watched together: where it is, and the controls for those who may show something. */

import { positionOf, type View } from "@sangam/sdk";
import { LoaderCircle, Pause, PenLine, Play, Square } from "lucide-react";
import { useEffect, useReducer, useState } from "react";
import { Slider, SliderThumb, SliderTrack } from "react-aria-components";
import { useTranslation } from "react-i18next";
import { IconButton } from "../ui/IconButton";
import { Annotations, Marks } from "./Annotations";
import type { Tools } from "./useTools";
import { clock, presents, watched } from "./view";

/** How often the position is shown anew. */
const TICK_MS = 250;

export interface ReplayBarProps {
  view: View;
  tools: Tools;
  /** Whether the board of the recording is shown. */
  past: boolean;
  /** Shows it or not; none if nothing was drawn there. */
  look: ((past: boolean) => void) | undefined;
}

export function ReplayBar({ view, tools, past, look }: ReplayBarProps) {
  const { t } = useTranslation();
  const [, tick] = useReducer((n: number) => n + 1, 0);
  const [dragged, setDragged] = useState<number>();
  useEffect(() => {
    const timer = setInterval(tick, TICK_MS);
    return () => clearInterval(timer);
  }, []);
  const replay = watched(view);
  if (!replay) return null;
  const { playing, length_ms: length } = replay;
  const may = presents(view);
  const now = dragged ?? Math.round(positionOf(replay, Date.now() + view.ahead));
  const seek = (position_ms: number) => {
    setDragged(undefined);
    tools.ask({ do: "play", playing, position_ms });
  };
  return (
    <section
      aria-label={t("replay.title")} data-playing={playing} data-position={now}
      className="mx-3 flex flex-wrap items-center gap-x-3 gap-y-2 rounded-xl border border-line bg-raised px-3 py-2"
    >
      {length === undefined && (
        <p role="status" className="flex flex-1 items-center gap-2">
          <LoaderCircle size={16} aria-hidden className="animate-spin text-accent" />
          {t("replay.seeks")}
        </p>
      )}
      {length !== undefined && (
        <>
          {may && (
            <IconButton
              small icon={playing ? Pause : Play} label={t(playing ? "replay.pause" : "replay.play")}
              press={() => tools.ask({ do: "play", playing: !playing })}
            />
          )}
          <span className="text-sm tabular-nums">{clock(now)}</span>
          <div className={`relative min-w-0 flex-1 ${view.session?.annotations?.length ? "pt-5" : ""}`}>
            <Slider
              aria-label={t("replay.position")} minValue={0} maxValue={length} step={100} value={now}
              isDisabled={!may} onChange={setDragged} onChangeEnd={seek}
            >
              <SliderTrack className="relative h-6 w-full before:absolute before:top-1/2 before:h-1.5
                before:w-full before:-translate-y-1/2 before:rounded-full before:bg-line">
                <SliderThumb
                  className="top-1/2 size-5 rounded-full border-2 border-ground bg-accent
                    data-[disabled]:bg-dim data-[focus-visible]:outline-3
                    data-[focus-visible]:outline-sky"
                />
              </SliderTrack>
            </Slider>
            <Marks view={view} length={length} go={may ? seek : undefined} />
          </div>
          <span className="text-sm text-dim tabular-nums">{clock(length)}</span>
        </>
      )}
      {look && (
        <IconButton
          small icon={PenLine} label={t("replay.board")} pressed={past} look={past ? "on" : "plain"}
          press={() => look(!past)}
        />
      )}
      {may && (
        <IconButton small icon={Square} label={t("replay.stop")} press={() => tools.ask({ do: "stop" })} />
      )}
      {length !== undefined && <Annotations view={view} tools={tools} now={now} length={length} />}
    </section>
  );
}
