import type { Meeting, View } from "@sangam/sdk";
import { useSyncExternalStore } from "react";

export function useMeeting(meeting: Meeting): View {
  return useSyncExternalStore(
    (changed) => meeting.subscribe(changed),
    () => meeting.view,
  );
}
