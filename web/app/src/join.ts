/** From a link to a meeting. */

import { enter, Meeting } from "@sangam/sdk";
import type { Ready } from "./prejoin/PreJoin";
import type { Link } from "./route";
import { identity, type Settings } from "./settings";

export async function join(
  link: Link, brokers: string[], settings: Settings, ready: Ready,
): Promise<Meeting> {
  const name = settings.name.trim();
  const token = link.token ?? (await enter(brokers, link, identity(), name));
  const { tenant, session } = link;
  const simulcast = !settings.saveData;
  const meeting = new Meeting({ brokers, tenant, session, token, name, simulcast });
  if (ready.audio) meeting.send("audio", [ready.audio]);
  if (ready.video) meeting.send("video", [ready.video]);
  // Whoever closes the window should not stay as a ghost for half a minute.
  addEventListener("pagehide", () => void meeting.leave(), { once: true });
  return meeting;
}
