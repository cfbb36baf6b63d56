/** What those who lead may do: to one member, and to the meeting. */

import { floorOf, type Member, type Role, type View } from "@sangam/sdk";
import { MoreVertical } from "lucide-react";
import { Button, Menu, MenuItem, MenuTrigger, Popover, Switch } from "react-aria-components";
import { useTranslation } from "react-i18next";
import { useRoomTitle } from "./Rooms";
import type { Tools } from "./useTools";
import { me } from "./view";

const ROLES: Role[] = ["chair", "presenter", "participant", "observer"];
/** As many as a floor may have at most (docs/spec/xgsp.md). */
const HOLDERS_MAX = 250;

export function Moderation({ member, view, tools }: { member: Member; view: View; tools: Tools }) {
  const { t } = useTranslation();
  const titled = useRoomTitle();
  const rooms = (view.session?.rooms ?? []).filter((room) => room.name !== member.room);
  const { id, name } = member;
  const muted = member.muted.includes("audio");
  const dark = member.muted.includes("video");
  const still = member.muted.includes("board");
  const mute = (medium: "audio" | "video" | "board", on: boolean) =>
    () => tools.ask({ do: "mute", member: id, medium, muted: on });
  const items: [string, () => void][] = [
    [t(muted ? "lead.unmute" : "lead.mute"), mute("audio", !muted)],
    [t(dark ? "lead.camera_give" : "lead.camera_take"), mute("video", !dark)],
    [t(still ? "lead.board_give" : "lead.board_take"), mute("board", !still)],
    ...ROLES.filter((role) => role !== member.role).map((role): [string, () => void] =>
      [t("lead.role", { role: t(`role.${role}`) }), () => tools.ask({ do: "role", member: id, role })]),
    ...rooms.map((room): [string, () => void] =>
      [t("rooms.send", { room: titled(room) }), () => tools.ask({ do: "move", member: id, room: room.name })]),
    [t("lead.remove"), () => tools.ask({ do: "remove", member: id })],
  ];
  return (
    <MenuTrigger>
      <Button
        aria-label={t("lead.of", { name })}
        className="flex size-8 cursor-pointer items-center justify-center rounded-full hover:bg-line"
      >
        <MoreVertical size={16} aria-hidden />
      </Button>
      <Popover placement="bottom end" className="card max-h-96 min-w-52 overflow-y-auto p-1 shadow-xl">
        <Menu aria-label={t("lead.of", { name })} className="outline-none">
          {items.map(([text, act]) => (
            <MenuItem
              key={text} onAction={act}
              className="cursor-pointer rounded-md px-3 py-2 outline-none data-[focused]:bg-soft"
            >
              {text}
            </MenuItem>
          ))}
        </Menu>
      </Popover>
    </MenuTrigger>
  );
}

export function Lead({ view, tools }: { view: View; tools: Tools }) {
  const { t } = useTranslation();
  const { session } = view;
  const room = me(view)?.room ?? "main";
  if (!session) return null;
  const asked = (medium: "audio" | "board") => ({
    on: floorOf(session, room, medium)?.mode === "moderated",
    turn: (on: boolean) => tools.ask({
      do: "floor", room, medium, mode: on ? "moderated" : "free", limit: HOLDERS_MAX,
    }),
  });
  const hush = () => {
    for (const one of session.members ?? []) {
      const leads = one.role === "chair" || one.id === view.me;
      if (!leads && one.room === room) tools.ask({ do: "revoke", medium: "audio", member: one.id });
    }
  };
  return (
    <section aria-label={t("lead.meeting")} className="flex flex-col gap-2.5 border-b border-line pb-4">
      <Toggle
        label={t("lead.lock")} on={session.locked} turn={(locked) => tools.ask({ do: "lock", locked })}
      />
      <Toggle
        label={t("lead.lobby")} on={session.lobby} turn={(lobby) => tools.ask({ do: "plan", lobby })}
      />
      <Toggle label={t("lead.moderated")} {...asked("audio")} />
      <Toggle label={t("lead.drawing")} {...asked("board")} />
      <Button
        onPress={hush} className="cursor-pointer self-start rounded-lg bg-soft px-3 py-1.5 text-sm hover:bg-line"
      >
        {t("lead.hush")}
      </Button>
      <End tools={tools} />
    </section>
  );
}

/** Behind two presses, as nobody gets back in. */
function End({ tools }: { tools: Tools }) {
  const { t } = useTranslation();
  return (
    <MenuTrigger>
      <Button className="cursor-pointer self-start rounded-lg bg-soft px-3 py-1.5 text-sm text-warn hover:bg-line">
        {t("lead.end")}
      </Button>
      <Popover placement="bottom start" className="card p-1 shadow-xl">
        <Menu aria-label={t("lead.end")} className="outline-none">
          <MenuItem
            onAction={() => tools.ask({ do: "finish" })}
            className="cursor-pointer rounded-md px-3 py-2 outline-none data-[focused]:bg-soft"
          >
            {t("lead.end_all")}
          </MenuItem>
        </Menu>
      </Popover>
    </MenuTrigger>
  );
}

export function Toggle({ label, on, turn }: { label: string; on: boolean; turn(on: boolean): void }) {
  return (
    <Switch isSelected={on} onChange={turn} className="group flex cursor-pointer items-center justify-between gap-3">
      <span>{label}</span>
      <span className="flex h-6 w-10 shrink-0 items-center rounded-full bg-line p-0.5 transition-colors
        group-data-[focus-visible]:outline-3 group-data-[focus-visible]:outline-sky
        group-data-[selected]:bg-accent">
        <span className="size-5 rounded-full bg-white transition-transform group-data-[selected]:translate-x-4" />
      </span>
    </Switch>
  );
}
