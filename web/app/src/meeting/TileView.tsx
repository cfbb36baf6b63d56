/** One member's picture, with its name and how it goes. */

import type { Meeting, View } from "@sangam/sdk";
import { Hand, MicOff, Pin, PinOff, Signal, SignalLow, SignalMedium } from "lucide-react";
import { useTranslation } from "react-i18next";
import { IconButton } from "../ui/IconButton";
import { Picture } from "./Picture";
import { useShown } from "./useShown";
import { hue, initials, isReplayed, type Tile } from "./view";

const BARS = {
  good: { icon: Signal, color: "text-accent" },
  fair: { icon: SignalMedium, color: "text-warn" },
  poor: { icon: SignalLow, color: "text-stop" },
} as const;

export interface TileProps {
  tile: Tile;
  view: View;
  meeting: Meeting;
  pinned: boolean;
  pin(): void;
  small?: boolean;
}

export function TileView({ tile, view, meeting, pinned, pin, small }: TileProps) {
  const { t } = useTranslation();
  const { member, own, kind } = tile;
  const track = trackOf(tile, view, meeting);
  const medium = kind === "screen" ? "screen" : "video";
  const seen = useShown(
    !own && tile.picture, kind === "screen",
    (height) => meeting.show(member.id, medium, height), `${member.id} ${medium}`,
  );
  const replayed = isReplayed(view, member.id);
  const name = own ? t("tile.you", { name: member.name })
    : replayed ? t("tile.replayed", { name: member.name }) : member.name;
  const label = kind === "screen" ? t("tile.screen", { name: member.name }) : name;
  const ring = tile.speaking ? "ring-3 ring-accent" : "ring-1 ring-line";
  return (
    <article
      ref={seen} aria-label={label} data-member={member.id} data-kind={kind} data-speaking={tile.speaking}
      className={`group relative size-full min-h-0 overflow-hidden rounded-xl bg-raised ${ring}`}
    >
      <Picture
        track={tile.picture ? track : undefined} whole={kind === "screen"} label={label}
        mirrored={own && kind === "camera"}
      />
      {!(tile.picture && track) && <Face tile={tile} small={small ?? false} />}
      {member.away_ms !== undefined && (
        <p className="absolute inset-0 flex items-center justify-center bg-ground/70">{t("tile.away")}</p>
      )}
      <footer className="absolute bottom-2 left-2 flex max-w-[calc(100%-1rem)] items-center gap-1.5
        rounded-lg bg-ground/80 px-2 py-1 text-sm">
        {!tile.microphone && kind === "camera" && (
          <MicOff size={14} className="shrink-0 text-warn" role="img" aria-label={t("tile.silent")} />
        )}
        <span dir="auto" className="truncate">{label}</span>
        {kind === "camera" && <Bars view={view} member={member.id} />}
      </footer>
      {member.hand_ms !== undefined && kind === "camera" && (
        <span className="absolute top-2 left-2 rounded-full bg-warn p-1.5 text-ground">
          <Hand size={16} role="img" aria-label={t("tile.hand")} />
        </span>
      )}
      <div className="absolute top-2 right-2 opacity-0 transition-opacity group-focus-within:opacity-100
        group-hover:opacity-100 [@media(hover:none)]:opacity-100">
        <IconButton
          small icon={pinned ? PinOff : Pin} press={pin}
          label={t(pinned ? "tile.unpin" : "tile.pin", { name: label })}
        />
      </div>
    </article>
  );
}

function trackOf({ own, kind, member }: Tile, view: View, meeting: Meeting) {
  if (own) {
    const medium = kind === "screen" ? "screen" : "video";
    return meeting.sends(medium).find((track) => track.kind === "video");
  }
  return view.received.get(member.id)?.[kind === "screen" ? "screen" : "video"];
}

function Face({ tile, small }: { tile: Tile; small: boolean }) {
  const { identity, name } = tile.member;
  const size = small ? "size-12 text-lg" : "size-24 text-4xl";
  return (
    <div aria-hidden className="absolute inset-0 flex items-center justify-center">
      <div
        className={`flex ${size} items-center justify-center rounded-full font-semibold text-white`}
        style={{ backgroundColor: `hsl(${hue(identity)} 42% 34%)` }}
      >
        {initials(name)}
      </div>
    </div>
  );
}

function Bars({ view, member }: { view: View; member: string }) {
  const { t } = useTranslation();
  const quality = view.quality.get(member);
  if (!quality) return null;
  const { icon: Icon, color } = BARS[quality];
  return (
    <span role="img" aria-label={t(`quality.${quality}`)} className="relative shrink-0">
      <Signal size={16} aria-hidden className="text-dim opacity-40" />
      <Icon size={16} aria-hidden className={`absolute inset-0 ${color}`} />
    </span>
  );
}
