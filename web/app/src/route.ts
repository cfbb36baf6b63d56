/** The meeting that a link names: `/m/TENANT/SESSION?token=...`. */

import type { Named } from "@sangam/sdk";

export interface Link extends Named {
  token?: string;
}

/** One level of a topic, as docs/spec/xgsp.md has it. */
const LEVEL = /^[A-Za-z0-9_.-]{1,48}$/;

export function read(url: URL): Link | undefined {
  const [, m, tenant, session, ...rest] = url.pathname.split("/").map(decodeURIComponent);
  if (m !== "m" || rest.some((one) => one !== "") || !tenant || !session) return undefined;
  if (!LEVEL.test(tenant) || !LEVEL.test(session)) return undefined;
  const token = url.searchParams.get("token");
  return token ? { tenant, session, token } : { tenant, session };
}

/** A name as people type it, as a level of a topic; empty if nothing is left. */
export function level(text: string): string {
  const plain = text.normalize("NFKD").replace(/\p{M}/gu, "").trim();
  return plain.replace(/[^A-Za-z0-9_.-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 48);
}
