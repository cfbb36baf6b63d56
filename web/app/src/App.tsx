/** The way of a person: the link, the look into the mirror, the meeting, and out again. */

import { facts, invitation, Meeting, type Problem, type Way } from "@sangam/sdk";
import { useEffect, useState } from "react";
import { Home } from "./Home";
import { Left } from "./Left";
import { MeetingPage } from "./meeting/MeetingPage";
import { join } from "./join";
import { PreJoin } from "./prejoin/PreJoin";
import type { Ready } from "./prejoin/useDevice";
import { isOver, login, type Link } from "./route";
import { save, type Settings } from "./settings";

export function App({ kept, link }: { kept: Settings; link: Link | undefined }) {
  const [settings, setSettings] = useState(kept);
  const [meeting, setMeeting] = useState<Meeting>();
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const [tenant, setTenant] = useState<string | null>(null);
  const [ways, setWays] = useState<readonly Way[]>([]);
  const [brokers, setBrokers] = useState<string[]>();

  useEffect(() => {
    // Where the page may go on when its broker dies has to be known before.
    void (async () => {
      const known = await facts(location.origin).catch(() => undefined);
      const all = [location.origin, ...(known?.brokers ?? [])];
      setBrokers(all);
      setTenant(known?.login ?? null);
      if (!link || !known || isStranger(link, known.login)) return;
      setWays((await invitation(all, link, link.token))?.ways ?? []);
    })();
  }, [link]);
  useEffect(() => save(settings), [settings]);
  useEffect(() => {
    const name = link ? `${link.session} · Sangam` : "Sangam";
    document.title = name;
  }, [link]);

  if (!link) return <Home tenant={tenant ?? "meet"} />;
  const enter = async (ready: Ready) => {
    setBusy(true);
    setProblem(undefined);
    try {
      setMeeting(await join(link, brokers ?? [location.origin], settings, ready));
    } catch (refused) {
      setProblem(refused as Problem);
    } finally {
      setBusy(false);
    }
  };
  if (!meeting) {
    return (
      <PreJoin
        login={isStranger(link, tenant) ? login(link) : undefined} ways={ways}
        link={link} brokers={brokers} settings={settings} change={setSettings}
        busy={busy} problem={problem}
        enter={(ready) => void enter(ready)}
      />
    );
  }
  return (
    <MeetingPage
      meeting={meeting} settings={settings} change={setSettings}
      over={(view) => <Left view={view} link={link} again={() => setMeeting(undefined)} />}
    />
  );
}

/** Whether somebody has to log in first, where people log in for the meetings of `tenant`. */
function isStranger(link: Link, tenant: string | null): boolean {
  return link.tenant === tenant && (link.token === undefined || isOver(link.token));
}
