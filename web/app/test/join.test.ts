import { afterEach, expect, test, vi } from "vitest";
import { join } from "../src/join";
import type { Settings } from "../src/settings";

afterEach(() => vi.unstubAllGlobals());

test("whoever is refused keeps the devices that are open", async () => {
  const problem = { code: "forbidden", error: "not you" };
  vi.stubGlobal("sessionStorage", { getItem: () => "guest-1", setItem: () => undefined });
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify(problem), { status: 403 }));
  const take = vi.fn();
  const settings = { name: "Anna", saveData: true } as Settings;
  const link = { tenant: "acme", session: "weekly" };
  const joining = join(link, ["https://a.example"], settings, { audio: { take }, video: { take } });
  await expect(joining).rejects.toEqual(problem);
  expect(take).not.toHaveBeenCalled();
});
