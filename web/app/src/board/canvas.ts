/** What every board takes of Excalidraw, be it drawn on or looked at. */

import { CaptureUpdateAction, restoreElements, type Excalidraw } from "@excalidraw/excalidraw";
import type { KeyboardEvent } from "react";
import type { Shape } from "./element";
import type { Shared } from "./shared";

export type Api = Parameters<NonNullable<React.ComponentProps<typeof Excalidraw>["excalidrawAPI"]>>[0];

export const OPTIONS = {
  canvasActions: {
    changeViewBackgroundColor: false, clearCanvas: false, export: false, loadScene: false,
    saveToActiveFile: false, toggleTheme: false, saveAsImage: false,
  },
  tools: { image: false },
} as const;
/** Keys of Excalidraw for what is not here: help, files, search, other views, pictures and frames. */
const IDLE = /^[?9fgiks]$/i;
const IDLE_CTRL = /^[efkops/']$/i;
const IDLE_ALT = /^[rsz/]$/i;
/** A board is white on every screen: what is drawn looks the same to all. */
export const START = { appState: { viewBackgroundColor: "#ffffff", showWelcomeScreen: false } } as const;

/** Keeps keys from Excalidraw that would open what is not here; not those of a text. */
export function idle(event: KeyboardEvent): void {
  if (event.target instanceof HTMLTextAreaElement) return;
  const { ctrlKey, metaKey, altKey, key } = event;
  const keys = ctrlKey || metaKey ? IDLE_CTRL : altKey ? IDLE_ALT : IDLE;
  if (keys.test(key)) event.stopPropagation();
}

/** Shapes as Excalidraw has them. */
export function restored(shapes: Shape[]) {
  return restoreElements(shapes as unknown as Parameters<typeof restoreElements>[0], null);
}

/** Shows what is shared, and nothing else. */
export function reset(api: Api, shared: Shared): void {
  api.updateScene({ elements: restored(shared.shapes()), captureUpdate: CaptureUpdateAction.NEVER });
}
