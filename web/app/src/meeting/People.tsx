/** Who is there, who wants to be heard, who wants in; and what those who lead may do about it. */

import { holds, type Member, type View } from "@sangam/sdk";
import { Check, Hand, Mic, MicOff, Video, VideoOff, X } from "lucide-react";
import { useTranslation } from "react-i18next";
import { IconButton } from "../ui/IconButton";
import { Lead, Moderation } from "./Moderation";
import type { Tools } from "./useTools";
import { hands, leading, lobby, place, together } from "./view";

export interface PeopleProps {
  view: View;
  tools: Tools;
}

export function People({ view, tools }: PeopleProps) {
  const { t } = useTranslation();
  const waiting = lobby(view);
  const speakers = together(view).filter((one) => place(view, one.id) !== undefined);
  const raised = hands(view);
  const leads = leading(view);
  return (
    <div className="flex flex-1 flex-col gap-5 overflow-y-auto p-4" tabIndex={0} role="group"
      aria-label={t("people.title")}>
      {leads && <Lead view={view} tools={tools} />}
      {leads && waiting.length > 0 && (
        <List title={t("people.lobby")}>
          {waiting.map((one) => <Waiting key={one.id} member={one} tools={tools} />)}
        </List>
      )}
      {speakers.length > 0 && (
        <List title={t("people.queue")}>
          {speakers.sort((a, b) => (place(view, a.id) ?? 0) - (place(view, b.id) ?? 0))
            .map((one) => <Queued key={one.id} member={one} leads={leads} tools={tools} />)}
        </List>
      )}
      {raised.length > 0 && (
        <List title={t("people.hands")}>
          {raised.map((one) => <Raised key={one.id} member={one} leads={leads} tools={tools} />)}
        </List>
      )}
      <List title={t("people.here", { n: together(view).length })}>
        {together(view).map((one) => <Row key={one.id} member={one} view={view} tools={tools} />)}
      </List>
    </div>
  );
}

function List({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <section aria-label={title}>
      <h3 className="mb-2 text-sm font-semibold text-dim">{title}</h3>
      <ul className="flex flex-col gap-1.5">{children}</ul>
    </section>
  );
}

function Name({ member, note }: { member: Member; note?: string }) {
  return (
    <span className="flex min-w-0 flex-1 flex-col">
      <span dir="auto" className="truncate">{member.name}</span>
      {note && <span className="text-xs text-dim">{note}</span>}
    </span>
  );
}

type Of = { member: Member; tools: Tools };

function Waiting({ member, tools }: Of) {
  const { t } = useTranslation();
  const { id, name } = member;
  return (
    <li className="flex items-center gap-2">
      <Name member={member} />
      <IconButton
        small look="on" icon={Check} label={t("people.admit", { name })}
        press={() => tools.ask({ do: "admit", member: id })}
      />
      <IconButton
        small look="off" icon={X} label={t("people.deny", { name })}
        press={() => tools.ask({ do: "remove", member: id })}
      />
    </li>
  );
}

function Queued({ member, leads, tools }: Of & { leads: boolean }) {
  const { t } = useTranslation();
  const { id, name } = member;
  return (
    <li className="flex items-center gap-2">
      <Mic size={16} aria-hidden className="text-warn" />
      <Name member={member} />
      {leads && (
        <IconButton
          small look="on" icon={Check} label={t("people.grant", { name })}
          press={() => tools.ask({ do: "grant", medium: "audio", member: id })}
        />
      )}
      {leads && (
        <IconButton
          small icon={X} label={t("people.refuse", { name })}
          press={() => tools.ask({ do: "revoke", medium: "audio", member: id })}
        />
      )}
    </li>
  );
}

function Raised({ member, leads, tools }: Of & { leads: boolean }) {
  const { t } = useTranslation();
  const { id, name } = member;
  return (
    <li className="flex items-center gap-2">
      <Hand size={16} aria-hidden className="text-warn" />
      <Name member={member} />
      {leads && (
        <IconButton
          small icon={X} label={t("people.lower", { name })}
          press={() => tools.ask({ do: "hand", raised: false, member: id })}
        />
      )}
    </li>
  );
}

function Row({ member, view, tools }: Of & { view: View }) {
  const { t } = useTranslation();
  const speaks = holds(view.session, member.id, "audio");
  const shows = holds(view.session, member.id, "video");
  const own = member.id === view.me;
  const role = member.role === "participant" ? "" : t(`role.${member.role}`);
  const name = own ? { ...member, name: t("tile.you", { name: member.name }) } : member;
  return (
    <li className="flex items-center gap-2">
      <Name member={name} note={role} />
      {speaks
        ? <Mic size={16} role="img" aria-label={t("people.microphone")} className="text-accent" />
        : <MicOff size={16} role="img" aria-label={t("tile.silent")} className="text-dim" />}
      {shows
        ? <Video size={16} role="img" aria-label={t("people.camera")} className="text-accent" />
        : <VideoOff size={16} role="img" aria-label={t("people.dark")} className="text-dim" />}
      {leading(view) && !own && <Moderation member={member} tools={tools} />}
    </li>
  );
}
