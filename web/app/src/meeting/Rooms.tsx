/** Private rooms: which there are, who is where, and what those who lead may do about it. */

import type { Room, View } from "@sangam/sdk";
import { DoorOpen, Plus, X } from "lucide-react";
import { useState, type FormEvent } from "react";
import { Input, Label, TextField } from "react-aria-components";
import { useTranslation } from "react-i18next";
import { IconButton } from "../ui/IconButton";
import type { Tools } from "./useTools";
import { MAIN, freeRoom, inRoom, me } from "./view";

/** By docs/spec/xgsp.md. */
const TITLE_MAX = 100;

/** What a room is called here. */
export function useRoomTitle(): (room: Room) => string {
  const { t } = useTranslation();
  return (room) => (room.name === MAIN ? t("rooms.main") : room.title);
}

/** Opens, closes and enters rooms; members are sent there by their own menus. */
export function Rooms({ view, tools }: { view: View; tools: Tools }) {
  const { t } = useTranslation();
  const [title, setTitle] = useState("");
  const rooms = view.session?.rooms ?? [];
  const room = freeRoom(rooms);
  const open = () => {
    if (title.trim() === "" || room === undefined) return;
    tools.ask({ do: "open", room, title: title.trim() });
    setTitle("");
  };
  const enter = (event: FormEvent) => {
    event.preventDefault();
    open();
  };
  return (
    <section aria-label={t("rooms.title")} className="flex flex-col gap-2">
      <h3 className="text-sm font-semibold text-dim">{t("rooms.title")}</h3>
      {rooms.length > 1 && (
        <ul className="flex flex-col gap-1.5">
          {rooms.map((one) => <Row key={one.name} room={one} view={view} tools={tools} />)}
        </ul>
      )}
      <form onSubmit={enter} className="flex items-center gap-2">
        <TextField value={title} onChange={setTitle} maxLength={TITLE_MAX} className="min-w-0 flex-1">
          <Label className="sr-only">{t("rooms.name")}</Label>
          <Input
            placeholder={t("rooms.name")} dir="auto"
            className="w-full rounded-lg border border-line bg-ground px-3 py-1.5 placeholder:text-dim"
          />
        </TextField>
        <IconButton small icon={Plus} label={t("rooms.open")} press={open} />
      </form>
    </section>
  );
}

function Row({ room, view, tools }: { room: Room; view: View; tools: Tools }) {
  const { t } = useTranslation();
  const own = me(view);
  const title = useRoomTitle()(room);
  return (
    <li className="flex items-center gap-2">
      <span dir="auto" className="min-w-0 flex-1 truncate">{title}</span>
      <span className="text-sm text-dim">{inRoom(view, room.name).length}</span>
      {own && own.room !== room.name && (
        <IconButton
          small icon={DoorOpen} label={t("rooms.go", { room: title })}
          press={() => tools.ask({ do: "move", member: own.id, room: room.name })}
        />
      )}
      {room.name !== MAIN && (
        <IconButton
          small look="off" icon={X} label={t("rooms.close", { room: title })}
          press={() => tools.ask({ do: "close", room: room.name })}
        />
      )}
    </li>
  );
}

/** Where this member is, unless it is where everybody begins. */
export function Where({ view }: { view: View }) {
  const { t } = useTranslation();
  const room = view.session?.rooms?.find((one) => one.name === me(view)?.room);
  if (!room || room.name === MAIN) return null;
  return (
    <p className="flex items-center gap-2 rounded-lg border border-line bg-raised px-3 py-1.5 text-sm">
      <DoorOpen size={16} aria-hidden className="text-accent" />
      <span dir="auto">{t("rooms.you", { room: room.title })}</span>
    </p>
  );
}
