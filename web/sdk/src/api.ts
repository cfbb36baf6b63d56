/** The requests a page makes before a meeting: what the broker is, and how to get in. */

import type { Invitation, Problem, Role } from "./protocol.ts";

/** What `/v1/page` says. */
export interface PageFacts {
  version: string;
  brokers: string[];
  sessions: boolean;
  webrtc: boolean;
  /** The tenant whose meetings open to who logs in at `/v1/login`, if anybody can. */
  login: string | null;
}

export interface Named {
  tenant: string;
  session: string;
}

/** Where the HTTP interface has a session. */
export function pathOf({ tenant, session }: Named): string {
  return `/v1/sessions/${encodeURIComponent(tenant)}/${encodeURIComponent(session)}`;
}

async function call<T>(url: string, body?: object): Promise<T> {
  const init: RequestInit = body
    ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }
    : {};
  const answer = await fetch(url, { ...init, cache: "no-store" }).catch((error: unknown) => {
    throw { code: "line", error: String(error) } satisfies Problem;
  });
  const text = (await answer.json().catch(() => ({}))) as T & Partial<Problem>;
  if (answer.ok) return text;
  const { code = `http_${answer.status}`, error = answer.statusText, hint } = text;
  throw { code, error, ...(hint === undefined ? {} : { hint }) } satisfies Problem;
}

/** What the page's own broker is. */
export function facts(origin: string): Promise<PageFacts> {
  return call<PageFacts>(`${origin}/v1/page`);
}

/**
 * A token for a session where none is needed to make one, as with `sangam serve --dev`: whoever
 * comes first makes the session and leads it.
 */
export async function enter(
  origins: readonly string[], named: Named, identity: string, name: string,
): Promise<string> {
  let refused: Problem = { code: "no_session", error: "no session server" };
  for (const origin of origins) {
    try {
      const role = await made(origin, named);
      const url = `${origin}${pathOf(named)}/tokens`;
      return (await call<{ token: string }>(url, { identity, name, role })).token;
    } catch (problem) {
      refused = problem as Problem;
      // 404: no session server there.
      if (refused.code !== "http_404" && refused.code !== "line") break;
    }
  }
  throw refused;
}

async function made(origin: string, { tenant, session }: Named): Promise<Role> {
  try {
    await call(`${origin}/v1/sessions`, { tenant, name: session, title: session });
    return "chair";
  } catch (problem) {
    if ((problem as Problem).code === "exists") return "participant";
    throw problem;
  }
}

/**
 * What is told before joining; nothing while nobody tells, as where there is no such session yet.
 * `origins` are those of session servers, and others.
 */
export async function invitation(
  origins: readonly string[], named: Named, token: string | undefined,
): Promise<Invitation | undefined> {
  const headers: Record<string, string> = token ? { Authorization: `Bearer ${token}` } : {};
  for (const origin of origins) {
    // Where another server has the session, browsers would ask there without the token.
    const init: RequestInit = { headers, cache: "no-store", redirect: "error" };
    const answer = await fetch(`${origin}${pathOf(named)}/invitation`, init).catch(() => undefined);
    if (answer?.ok) return (await answer.json()) as Invitation;
  }
  return undefined;
}
