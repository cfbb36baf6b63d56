/** A provider of OpenID Connect that is not ours, with a login page that asks for a name only. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import Provider from "oidc-provider";

export const SECRET = "a secret: of a test & of nobody else";

export interface Account {
  name: string;
  groups: string[];
}

export interface Identities {
  issuer: string;
  stop(): Promise<void>;
}

const PAGE = `<!doctype html><title>Log in</title><form method="post">
  <label>Account <input name="account"></label>
  <button>Continue</button><button name="cancel" value="yes">Cancel</button>
</form>`;

/** Knows these accounts, and the client `sangam` whose pages are at `pages`. */
export async function identities(
  [host, port]: [string, number], pages: string[], accounts: Record<string, Account>,
): Promise<Identities> {
  const redirect_uris = pages.map((page) => `${page}/v1/login/callback`);
  const post_logout_redirect_uris = pages.map((page) => `${page}/v1/logout/end`);
  const issuer = `http://${host}:${port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: "sangam", client_secret: SECRET, redirect_uris, post_logout_redirect_uris }],
    pkce: { required: () => true },
    claims: { openid: ["sub"], profile: ["name", "groups"] },
    conformIdTokenClaims: false,
    cookies: { keys: ["of a test"] },
    features: {
      devInteractions: { enabled: false },
      // The library's own page asks for a font elsewhere.
      rpInitiatedLogout: { enabled: true, logoutSource },
    },
    interactions: { url: (_: unknown, { uid }: { uid: string }) => `/enter/${uid}` },
    findAccount: (_: unknown, id: string) =>
      accounts[id] && { accountId: id, claims: () => ({ sub: id, ...accounts[id] }) },
    async loadExistingGrant({ oidc }: { oidc: Known }) {
      const grant = new provider.Grant({
        clientId: oidc.client.clientId, accountId: oidc.session.accountId,
      });
      grant.addOIDCScope("openid profile");
      await grant.save();
      return grant;
    },
  });
  const others = provider.callback();
  const server = createServer((request, response) => {
    if (!request.url?.startsWith("/enter/")) others(request, response);
    else if (request.method !== "POST") response.setHeader("Content-Type", "text/html").end(PAGE);
    else void entered(provider, request, response);
  });
  await new Promise<void>((resolve) => server.listen(port, host, resolve));
  const stop = () => {
    server.closeAllConnections();
    return new Promise<void>((resolve) => server.close(() => resolve()));
  };
  return { issuer, stop };
}

/** Asks whoever logs out; the library's form stands in it. */
async function logoutSource(context: { body: string }, form: string): Promise<void> {
  context.body = `<!doctype html><title>Log out</title>${form}
    <button form="op.logoutForm" name="logout" value="yes">Yes, sign me out</button>`;
}

interface Known {
  client: { clientId: string };
  session: { accountId: string };
}

async function entered(
  provider: Provider, request: IncomingMessage, response: ServerResponse,
): Promise<void> {
  let body = "";
  for await (const chunk of request) body += String(chunk);
  const form = new URLSearchParams(body);
  const result = form.has("cancel")
    ? { error: "access_denied" }
    : { login: { accountId: form.get("account") ?? "" } };
  await provider.interactionFinished(request, response, result);
}
