/** Sessions for tests. */

import type { Floor, Member, Medium, Session } from "../src/protocol.ts";

export function member(id: string, more: Partial<Member> = {}): Member {
  return {
    id, identity: id, name: id.toUpperCase(), role: "participant", capabilities: [], muted: [],
    rights: { publish: ["audio", "video", "screen", "board"], subscribe: true, chat: true, admin: false },
    room: "main", joined_ms: Number(id.slice(1)), ...more,
  };
}

export function floor(medium: Medium, holders: string[] = [], queue: string[] = []): Floor {
  return { medium, mode: "free", limit: 250, holders: holders.map((member) => ({ member })), queue };
}

export function session(members: Member[], floors: Floor[] = []): Session {
  const media = ["audio", "video", "screen", "board"] as const;
  const all = media.map((medium) => floors.find((one) => one.medium === medium) ?? floor(medium));
  return {
    tenant: "acme", name: "weekly", title: "Weekly", state: "activated", lobby: false, locked: false,
    seq: 10, members_total: members.length, waiting_total: 0, members, chat: [],
    rooms: [{ name: "main", title: "", floors: all }],
  };
}
