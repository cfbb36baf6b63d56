/** From a link to a meeting. */

import { enter, Meeting } from "@sangam/sdk";
import type { Ready } from "./prejoin/useDevice";
import type { Link } from "./route";
import { identity, type Settings } from "./settings";

export async function join(
  link: Link, brokers: string[], settings: Settings, ready: Ready,
): Promise<Meeting> {
  const name = settings.name.trim();
  const token = link.token ?? (await enter(brokers, link, identity(), name));
  const { tenant, session } = link;
  const simulcast = !settings.saveData;
  // The page's policy lets it call nobody else.
  const meeting = new Meeting({
    brokers, allowed: brokers, tenant, session, token, name, simulcast,
  });
  // Not before there is a way in: whoever is refused keeps what is open, for another try.
  for (const medium of ["audio", "video"] as const) {
    const track = ready[medium].take();
    if (track) meeting.send(medium, [track]);
  }
  // Whoever closes the window should not stay as a ghost for half a minute.
  addEventListener("pagehide", () => void meeting.leave(), { once: true });
  return meeting;
}
