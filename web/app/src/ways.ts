/** What a page makes of another way in. No React. */

/** What answers there: a telephone, a room with SIP or H.323, or a stream to look at. */
export type Kind = "phone" | "room" | "player";

export interface Target {
  kind: Kind;
  /** What people read, copy and dial. */
  text: string;
  /** Where a browser can follow it; none where browsers know no such scheme, or it is not trusted. */
  href?: string;
  /** Whether following it would leave the page. */
  leaves: boolean;
}

const KINDS = new Map<string, Kind>([
  ["tel", "phone"], ["sip", "room"], ["sips", "room"], ["h323", "room"], ["rtsp", "player"],
  ["rtsps", "player"], ["https", "player"],
]);
/** Schemes for which browsers ask the system; H.323 and RTSP would only be an error to look at. */
const FOLLOWED = ["tel", "sip", "sips", "https"];

/** The server takes no other schemes; whatever does not look like one of them is only shown. */
export function target(uri: string): Target {
  const scheme = /^([a-z0-9]+):/i.exec(uri)?.[1]?.toLowerCase() ?? "";
  const kind = KINDS.get(scheme);
  if (!kind) return { kind: "player", text: uri, leaves: false };
  const text = kind === "phone" ? uri.slice("tel:".length) : uri;
  const href = FOLLOWED.includes(scheme) ? { href: uri } : {};
  return { kind, text, ...href, leaves: scheme === "https" };
}
