/** How high a picture is on the screen, so that no more of it is sent. */

import { useEffect, useRef, type RefObject } from "react";

/**
 * Tells it in pixels of the screen whenever it changes, and 0 once it is not shown any more. Whoever
 * gets the reference holds one video.
 */
export function useShown(
  plays: boolean, whole: boolean, tell: (height: number) => void, key: string,
): RefObject<HTMLElement | null> {
  const box = useRef<HTMLElement>(null);
  const latest = useRef(tell);
  useEffect(() => {
    latest.current = tell;
  });
  useEffect(() => {
    const element = box.current;
    if (!element || !plays) return undefined;
    const say = latest.current;
    let visible: boolean | undefined;
    const measure = () => {
      if (visible !== undefined) say(visible ? height(element, whole) : 0);
    };
    const sight = new IntersectionObserver((entries) => {
      visible = entries.some((entry) => entry.isIntersecting);
      measure();
    });
    const size = new ResizeObserver(measure);
    sight.observe(element);
    size.observe(element);
    return () => {
      sight.disconnect();
      size.disconnect();
      // A camera that was turned off sends nothing, and begins at once where it was.
      if (!element.isConnected) say(0);
    };
  }, [plays, whole, key]);
  return box;
}

/** Of the picture, of which a part may be cut off. */
function height(box: HTMLElement, whole: boolean): number {
  const video = box.querySelector("video");
  const ratio = video && video.videoHeight > 0 ? video.videoWidth / video.videoHeight : 16 / 9;
  const { clientWidth: wide, clientHeight: high } = box;
  const shown = whole ? Math.min(high, wide / ratio) : Math.max(high, wide / ratio);
  return Math.ceil(shown * devicePixelRatio);
}
