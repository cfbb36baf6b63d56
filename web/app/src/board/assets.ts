/** Where Excalidraw finds its fonts: with this page, at its own origin. Has to come before it. */

declare global {
  interface Window {
    EXCALIDRAW_ASSET_PATH?: string;
  }
}

window.EXCALIDRAW_ASSET_PATH = `${location.origin}/assets/`;

export {};
