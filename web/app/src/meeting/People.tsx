/** Who is there, who wants to be heard, who wants in; and what those who lead may do about it. */

import { holds, type Member, type View } from "@sangam/sdk";
import { Check, Hand, Mic, MicOff, Pencil, Video, VideoOff, X } from "lucide-react";
import { useTranslation } from "react-i18next";
import { IconButton } from "../ui/IconButton";
import { Ways } from "../ui/Ways";
import { Lead, Moderation } from "./Moderation";
import { Rooms, useRoomTitle } from "./Rooms";
import type { Tools } from "./useTools";
import { elsewhere, hands, inRoom, leading, lobby, me, place, together } from "./view";

export interface PeopleProps {
  view: View;
  tools: Tools;
}

export function People({ view, tools }: PeopleProps) {
  const { t } = useTranslation();
  const waiting = lobby(view);
  const titled = useRoomTitle();
  const raised = hands(view);
  const leads = leading(view);
  const own = me(view)?.room;
  const n = together(view).length;
  const rooms = view.session?.rooms ?? [];
  const here = rooms.length > 1 ? rooms.find((room) => room.name === own) : undefined;
  return (
    <div className="flex flex-1 flex-col gap-5 overflow-y-auto p-4" tabIndex={0} role="group"
      aria-label={t("people.title")}>
      {leads && <Lead view={view} tools={tools} />}
      {leads && waiting.length > 0 && (
        <List title={t("people.lobby")}>
          {waiting.map((one) => <Waiting key={one.id} member={one} tools={tools} />)}
        </List>
      )}
      <Queue medium="audio" view={view} tools={tools} />
      <Queue medium="board" view={view} tools={tools} />
      {raised.length > 0 && (
        <List title={t("people.hands")}>
          {raised.map((one) => {
            const away = rooms.find((room) => room.name === one.room && one.room !== own);
            const note = away ? { note: titled(away) } : {};
            return <Raised key={one.id} member={one} leads={leads} tools={tools} {...note} />;
          })}
        </List>
      )}
      <List title={here ? t("rooms.in", { room: titled(here), n }) : t("people.here", { n })}>
        {together(view).map((one) => <Row key={one.id} member={one} view={view} tools={tools} />)}
      </List>
      {elsewhere(view).map((room) => (
        <List key={room.name} title={t("rooms.in", { room: titled(room), n: inRoom(view, room.name).length })}>
          {inRoom(view, room.name).map((one) => <Row key={one.id} member={one} view={view} tools={tools} />)}
        </List>
      ))}
      {leads && <Rooms view={view} tools={tools} />}
      <Ways ways={view.session?.ways ?? []} heading="h3" />
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

/** What is asked for in turn: the pictures and words of each. */
const FLOORS = {
  audio: { icon: Mic, title: "people.queue", grant: "people.grant", refuse: "people.refuse" },
  board: { icon: Pencil, title: "people.board", grant: "people.board_grant", refuse: "people.board_refuse" },
} as const;
type Floored = keyof typeof FLOORS;

function Queue({ medium, view, tools }: PeopleProps & { medium: Floored }) {
  const { t } = useTranslation();
  const at = (one: Member) => place(view, one.id, medium);
  const queue = together(view).filter((one) => at(one) !== undefined);
  if (queue.length === 0) return null;
  queue.sort((a, b) => (at(a) ?? 0) - (at(b) ?? 0));
  return (
    <List title={t(FLOORS[medium].title)}>
      {queue.map((one) => (
        <Queued key={one.id} member={one} medium={medium} leads={leading(view)} tools={tools} />
      ))}
    </List>
  );
}

function Queued({ member, medium, leads, tools }: Of & { medium: Floored; leads: boolean }) {
  const { t } = useTranslation();
  const { id, name } = member;
  const { icon: Icon, grant, refuse } = FLOORS[medium];
  return (
    <li className="flex items-center gap-2">
      <Icon size={16} aria-hidden className="text-warn" />
      <Name member={member} />
      {leads && (
        <IconButton
          small look="on" icon={Check} label={t(grant, { name })}
          press={() => tools.ask({ do: "grant", medium, member: id })}
        />
      )}
      {leads && (
        <IconButton
          small icon={X} label={t(refuse, { name })}
          press={() => tools.ask({ do: "revoke", medium, member: id })}
        />
      )}
    </li>
  );
}

function Raised({ member, leads, note, tools }: Of & { leads: boolean; note?: string }) {
  const { t } = useTranslation();
  const { id, name } = member;
  return (
    <li className="flex items-center gap-2">
      <Hand size={16} aria-hidden className="text-warn" />
      <Name member={member} {...(note ? { note } : {})} />
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
      {leading(view) && !own && <Moderation member={member} view={view} tools={tools} />}
    </li>
  );
}
