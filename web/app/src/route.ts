/** The meeting that a link names: `/m/TENANT/SESSION#token=...`. */

import type { Named } from "@sangam/sdk";

/** Why a login came to nothing, as the server says it. */
const FAULTS = ["refused", "invalid", "unreachable", "problem"] as const;

export interface Link extends Named {
  token?: string;
  fault?: (typeof FAULTS)[number];
  /** Whether the token came from a login, which can be ended. */
  account?: boolean;
  /** Whether somebody has just logged out. */
  parted?: boolean;
}

/** What the window's store calls tokens, and marks of those that came from a login. */
const TOKEN = "sangam.token.";
const ACCOUNT = "sangam.account.";

/** One level of a topic, as docs/spec/xgsp.md has it. */
const LEVEL = /^[A-Za-z0-9_.-]{1,48}$/;

export function read(url: URL): Link | undefined {
  // Names need no escapes, so that a path with one names no meeting.
  const [, m, tenant, session, ...rest] = url.pathname.split("/");
  if (m !== "m" || rest.some((one) => one !== "") || !tenant || !session) return undefined;
  if (!LEVEL.test(tenant) || !LEVEL.test(session)) return undefined;
  // Browsers send no fragment, so that no log on the way has the token.
  const fragment = new URLSearchParams(url.hash.slice(1));
  const [token, login] = [fragment.get("token"), fragment.get("login")];
  const fault = FAULTS.find((one) => one === login);
  return {
    tenant, session, ...(token ? { token } : {}), ...(fault ? { fault } : {}),
    ...(token && login === "done" ? { account: true } : {}),
    ...(login === "left" ? { parted: true } : {}),
  };
}

/** Where somebody without a token logs in, and comes back from with one. */
export function login({ tenant, session }: Named): string {
  return `/v1/login?to=${encodeURIComponent(`/m/${tenant}/${session}`)}`;
}

/** Where somebody logs out, and comes back from as a stranger. */
export function logout({ tenant, session }: Named): string {
  return `/v1/logout?to=${encodeURIComponent(`/m/${tenant}/${session}`)}`;
}

/** Throws away what this window keeps of logins, whichever meetings they opened. */
export function forget(): void {
  try {
    const all = Array.from({ length: sessionStorage.length }, (_, n) => sessionStorage.key(n) ?? "");
    for (const key of all.filter((one) => one.startsWith(ACCOUNT))) {
      sessionStorage.removeItem(key);
      sessionStorage.removeItem(TOKEN + key.slice(ACCOUNT.length));
    }
  } catch {
    // There is no store, and nothing in it.
  }
}

/** Whether a token was good once. What cannot be read is for the server to judge. */
export function isOver(token: string, now = Date.now()): boolean {
  try {
    const claims = (token.split(".")[1] ?? "").replace(/-/g, "+").replace(/_/g, "/");
    const { exp } = JSON.parse(atob(claims)) as { exp?: number };
    return exp !== undefined && exp * 1_000 < now;
  } catch {
    return false;
  }
}

/**
 * The link of this page. Its token leaves the address, which is remembered, copied and shown; after
 * the page was loaded again it comes from the window's own store.
 */
export function here(): Link | undefined {
  const link = read(new URL(location.href));
  if (!link) return undefined;
  const { token, fault, account, parted } = link;
  const meeting = `${link.tenant}/${link.session}`;
  if (token || fault || parted) {
    history.replaceState(history.state, "", location.pathname + location.search);
  }
  try {
    if (token) {
      sessionStorage.setItem(TOKEN + meeting, token);
      if (account) sessionStorage.setItem(ACCOUNT + meeting, "yes");
      else sessionStorage.removeItem(ACCOUNT + meeting);
    }
    const kept = sessionStorage.getItem(TOKEN + meeting);
    if (!kept) return link;
    return { ...link, token: kept, ...(sessionStorage.getItem(ACCOUNT + meeting) ? { account: true } : {}) };
  } catch {
    return link;
  }
}

/** A name as people type it, as a level of a topic; empty if nothing is left. */
export function level(text: string): string {
  const plain = text.normalize("NFKD").replace(/\p{M}/gu, "").trim();
  return plain.replace(/[^A-Za-z0-9_.-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 48);
}
