/** The board of a room: Excalidraw's canvas under tools of our own. */

import "./assets";
import "@excalidraw/excalidraw/index.css";
import "./board.css";
import { CaptureUpdateAction, Excalidraw, reconcileElements } from "@excalidraw/excalidraw";
import type { Meeting, View } from "@sangam/sdk";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { BoardTools, type Paint, type Tool } from "./BoardTools";
import { idle, OPTIONS, reset, restored, START, type Api } from "./canvas";
import type { Kept } from "./element";
import { ELEMENTS_MAX, type Shared } from "./shared";
import { standing, useBoard } from "./useBoard";

type Elements = ReturnType<Api["getSceneElementsIncludingDeleted"]>;

/** How long changes are gathered before they are told. */
const GATHER_MS = 100;
/** Characters of what is pasted; more is not even looked at. */
const PASTE_MAX = 1_000_000;
export default function BoardView({ meeting, view }: { meeting: Meeting; view: View }) {
  const { t, i18n } = useTranslation();
  const board = useBoard(meeting, view);
  const { shared, changes, live } = board;
  const [api, setApi] = useState<Api>();
  const [tool, setTool] = useState<Tool>("selection");
  const [pasted, setPasted] = useState(false);
  const may = standing(view);
  const draws = may === "draws" && live;
  const [told, setTold] = useState(0);
  const put = usePut(api, shared, draws, () => setTold((times) => times + 1));
  useEffect(() => {
    // Excalidraw speaks one language here, and says so of the whole document.
    document.documentElement.lang = i18n.language;
  }, [api, i18n.language]);
  useEffect(() => {
    if (api) reset(api, shared);
  }, [api, shared]);
  useEffect(() => {
    if (api) show(api, shared);
  }, [api, shared, changes]);
  useEffect(() => {
    if (!draws) return;
    api?.setActiveTool({ type: tool, locked: tool !== "selection" && tool !== "text" });
  }, [api, tool, draws]);
  const paint = useCallback((one: Paint) => {
    api?.updateScene({ appState: { currentItemStrokeColor: one } });
  }, [api]);
  const change = useCallback((elements: Elements, state: { activeTool: { type: string } }) => {
    setTool(state.activeTool.type as Tool);
    put(elements);
  }, [put]);
  const paste = useCallback((data: { text?: string; elements?: readonly unknown[] }) => {
    const large = (data.text?.length ?? 0) > PASTE_MAX || (data.elements?.length ?? 0) > ELEMENTS_MAX;
    if (large) {
      shared.tooMuch();
      setPasted(true);
    }
    return !large;
  }, [shared]);
  const count = useMemo(() => shared.shapes().length, [shared, changes, live, told]);
  const full = board.full || pasted;
  return (
    <section
      aria-label={t("board.title")} data-keys="own" data-shapes={count} data-live={live} data-may={may}
      className="card flex size-full min-h-0 flex-col overflow-hidden"
    >
      <BoardTools
        meeting={meeting} may={may} live={live} tool={tool} choose={setTool} paint={paint}
        clear={() => api && clear(api)} full={full}
        settle={() => {
          setPasted(false);
          board.settle();
          if (api) show(api, shared);
        }}
      />
      <div
        className="sangam-board min-h-0 flex-1"
        onKeyDownCapture={idle}
        onContextMenuCapture={(event) => {
          event.preventDefault();
          event.stopPropagation();
        }}
      >
        <Excalidraw
          excalidrawAPI={setApi} initialData={START} onChange={change} onPaste={paste}
          viewModeEnabled={!draws} zenModeEnabled UIOptions={OPTIONS} validateEmbeddable={false}
          aiEnabled={false} handleKeyboardGlobally={false} theme="light" langCode="en"
        />
      </div>
    </section>
  );
}

/** Tells what changed here, not with every move of the hand. */
function usePut(api: Api | undefined, shared: Shared, draws: boolean, told: () => void) {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const last = useRef<Elements>([]);
  useEffect(() => () => {
    clearTimeout(timer.current);
    timer.current = undefined;
  }, [shared, draws]);
  return useCallback((elements: Elements) => {
    last.current = elements;
    if (!draws || timer.current !== undefined) return;
    timer.current = setTimeout(() => {
      timer.current = undefined;
      const fits = shared.put(last.current as unknown as readonly Kept[]);
      // The board as others have it.
      if (!fits && api) reset(api, shared);
      told();
    }, GATHER_MS);
  }, [api, shared, draws]);
}

/** Puts what others drew beside what is being drawn here. */
function show(api: Api, shared: Shared): void {
  const shapes = shared.shapes();
  const there = new Set(shapes.map((one) => one.id));
  const local = api.getSceneElementsIncludingDeleted();
  const busy = busyWith(api);
  const kept = local.map((one) =>
    // Somebody has deleted it, or it was never told.
    there.has(one.id) || one.isDeleted || busy.has(one.id) || !shared.knew(one.id)
      ? one : { ...one, isDeleted: true, version: one.version + 1 });
  type Remote = Parameters<typeof reconcileElements>[1];
  const elements = reconcileElements(kept, restored(shapes) as unknown as Remote, api.getAppState());
  api.updateScene({ elements, captureUpdate: CaptureUpdateAction.NEVER });
}

function busyWith(api: Api): ReadonlySet<string> {
  const { newElement, editingTextElement, resizingElement } = api.getAppState();
  const all = [newElement, editingTextElement, resizingElement];
  return new Set(all.flatMap((one) => (one ? [one.id] : [])));
}

function clear(api: Api): void {
  const gone = api.getSceneElementsIncludingDeleted().map((one) =>
    one.isDeleted ? one : { ...one, isDeleted: true, version: one.version + 1 });
  api.updateScene({ elements: gone, captureUpdate: CaptureUpdateAction.IMMEDIATELY });
}
