/** The whiteboard, which is loaded when it is opened first. */

import type { Meeting, View } from "@sangam/sdk";
import { LoaderCircle } from "lucide-react";
import { lazy, Suspense } from "react";
import { useTranslation } from "react-i18next";
import { Guard } from "../ui/Guard";

const BoardView = lazy(() => import("../board/BoardView"));

export function Laid({ meeting, view }: { meeting: Meeting; view: View }) {
  return (
    <Guard part>
      <Suspense fallback={<Loading />}>
        <BoardView meeting={meeting} view={view} />
      </Suspense>
    </Guard>
  );
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
