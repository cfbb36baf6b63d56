/** A whiteboard, which is loaded when one is opened first. */

import type { Meeting, Replay, View } from "@sangam/sdk";
import { LoaderCircle } from "lucide-react";
import { lazy, Suspense, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { Guard } from "../ui/Guard";

const BoardView = lazy(() => import("../board/BoardView"));
const PastView = lazy(() => import("../board/PastView"));

export function Laid({ meeting, view }: { meeting: Meeting; view: View }) {
  return <Loaded><BoardView meeting={meeting} view={view} /></Loaded>;
}

/** The board of the recording that is watched. */
export function LaidPast({ meeting, replay }: { meeting: Meeting; replay: Replay }) {
  return <Loaded><PastView meeting={meeting} replay={replay} /></Loaded>;
}

function Loaded({ children }: { children: ReactNode }) {
  return <Guard part><Suspense fallback={<Loading />}>{children}</Suspense></Guard>;
}

function Loading() {
  const { t } = useTranslation();
  return (
    <p role="status" className="card flex size-full items-center justify-center gap-2">
      <LoaderCircle size={20} aria-hidden className="animate-spin text-accent" />
      {t("board.opening")}
    </p>
  );
}
