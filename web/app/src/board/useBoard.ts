/** The room's board in a page: the line to the broker, and when this member may draw. */

import { floorOf, holds, type Board, type Meeting, type Problem, type View } from "@sangam/sdk";
import { useEffect, useRef, useState } from "react";
import { Shared } from "./shared";

/** How often it is looked whether the state has to be told. */
const TEND_MS = 1_000;

/** `asks`: may ask for the floor. `waits`: has done so. */
export type Standing = "draws" | "asks" | "waits" | "looks";

export interface UsedBoard {
  shared: Shared;
  /** Grows with every change of others. */
  changes: number;
  live: boolean;
  /** Something did not fit. */
  full: boolean;
  settle(): void;
}

/** What this member may do with the board now. */
export function standing(view: View): Standing {
  const me = view.session?.members?.find((one) => one.id === view.me);
  if (!me || me.muted.includes("board")) return "looks";
  if (holds(view.session, me.id, "board")) return "draws";
  const floor = floorOf(view.session, me.room, "board");
  if (floor?.queue.includes(me.id)) return "waits";
  const may = me.role !== "observer" && me.rights.publish.includes("board");
  return may && view.session?.state === "activated" ? "asks" : "looks";
}

/** How many of those who draw come before this member. */
export function rank(view: View): number {
  const me = view.session?.members?.find((one) => one.id === view.me);
  const holders = floorOf(view.session, me?.room, "board")?.holders ?? [];
  const number = (id: string) => Number(id.slice(1));
  return holders.filter(({ member }) => number(member) < number(view.me ?? "")).length;
}

export function useBoard(meeting: Meeting, view: View): UsedBoard {
  const [changes, setChanges] = useState(0);
  const [live, setLive] = useState(false);
  const [full, setFull] = useState(false);
  const [life, setLife] = useState(0);
  const latest = useRef(view);
  latest.current = view;
  const [shared, setShared] = useState<Shared>(() => make());
  function make(): Shared {
    return new Shared({
      changed: () => setChanges((count) => count + 1),
      full: () => setFull(true),
    });
  }
  useEffect(() => {
    const one = life === 0 ? shared : make();
    setShared(one);
    const board: Board = meeting.board({
      event: (bytes) => one.receive(bytes),
      live: () => {
        one.live();
        setLive(true);
        setChanges((count) => count + 1);
      },
      line: (up) => {
        if (!up) {
          one.cut();
          setLive(false);
        }
      },
      refused: (problem: Problem) => {
        // What was drawn without the floor is nobody else's: the board as others have it.
        if (problem.code === "floor") setLife((now) => now + 1);
      },
    });
    one.attach(board);
    const timer = setInterval(() => {
      if (standing(latest.current) === "draws") one.tend(rank(latest.current));
    }, TEND_MS);
    return () => {
      clearInterval(timer);
      board.close();
      one.close();
      setLive(false);
    };
  }, [meeting, life]);
  useFloor(meeting, view);
  return { shared, changes, live, full: full || shared.crowded, settle: () => setFull(false) };
}

/** Asks for a free floor when the board opens, and gives it back when it closes. */
function useFloor(meeting: Meeting, view: View): void {
  const now = standing(view);
  const me = view.session?.members?.find((one) => one.id === view.me);
  const free = floorOf(view.session, me?.room, "board")?.mode === "free";
  const wants = now === "asks" && free && view.line;
  const gives = useRef(false);
  gives.current = free && (now === "draws" || now === "waits");
  useEffect(() => {
    // Whoever may not is told so beside the board.
    if (wants) meeting.ask({ do: "request", medium: "board" }).catch(() => undefined);
  }, [meeting, wants]);
  useEffect(() => () => {
    if (gives.current) meeting.ask({ do: "release", medium: "board" }).catch(() => undefined);
  }, [meeting]);
}
