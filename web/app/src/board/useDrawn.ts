/** Whether something was drawn on the board of the recording that is watched. */

import type { Meeting, Replay } from "@sangam/sdk";
import { useEffect, useState } from "react";

export function useDrawn(meeting: Meeting, replay: Replay | undefined): boolean {
  const [drawn, setDrawn] = useState<number>();
  const since = replay?.since_ms;
  const order = replay?.order;
  const found = replay?.length_ms !== undefined;
  const known = since !== undefined && drawn === since;
  useEffect(() => {
    if (since === undefined || order === undefined || !found || known) return undefined;
    const nothing = () => undefined;
    // It costs a line until the first event only; whoever shows the board has one of its own.
    const board = meeting.board(
      { event: () => setDrawn(since), live: nothing, line: nothing, refused: nothing },
      { since_ms: since, order },
    );
    return () => board.close();
  }, [meeting, since, order, found, known]);
  return known;
}
