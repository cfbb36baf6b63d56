//! What is seen of a session from outside.

use crate::{
    Annotation, ChatLine, Floor, Key, Medium, Member, MemberId, Plan, RECORDER, Recording, Replay,
    Room, Session, SessionId, State,
};

impl Session {
    /// Its name.
    #[must_use]
    pub const fn id(&self) -> &SessionId {
        &self.id
    }

    /// What is planned.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Where it stands.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Which holder wrote last.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of the last event.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// When the last event happened, in milliseconds since 1970.
    #[must_use]
    pub const fn changed_ms(&self) -> u64 {
        self.changed_ms
    }

    /// Whether nobody new may come.
    #[must_use]
    pub const fn is_locked(&self) -> bool {
        self.locked
    }

    /// Everybody, by number, the lobby included.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// So many of them.
    #[must_use]
    pub fn members_len(&self) -> usize {
        self.members.len()
    }

    /// One member.
    #[must_use]
    pub fn member(&self, member: MemberId) -> Option<&Member> {
        self.members.get(&member)
    }

    /// The member of this identity, if it is here.
    #[must_use]
    pub fn identified(&self, identity: &str) -> Option<&Member> {
        self.members.get(self.identities.get(identity)?)
    }

    /// The rooms by name; `main` is always there.
    pub fn rooms(&self) -> impl Iterator<Item = (&str, &Room)> {
        self.rooms.iter().map(|(name, room)| (name.as_str(), room))
    }

    /// One floor.
    #[must_use]
    pub fn floor(&self, room: &str, medium: Medium) -> Option<&Floor> {
        self.rooms
            .get(room)
            .map(|room| &room.floors[medium as usize])
    }

    /// The last lines of chat, the oldest first.
    pub fn chat(&self) -> impl Iterator<Item = &ChatLine> {
        self.chat.iter()
    }

    /// The services it needs, and whether they are ready.
    pub fn services(&self) -> impl Iterator<Item = (&str, bool)> {
        let needs = self.plan.needs.iter().map(String::as_str);
        // Whoever wants it recorded later, too, has to see whether it is.
        let wanted = self.recording.is_some() && !self.needs(RECORDER);
        let needs = needs.chain(wanted.then_some(RECORDER));
        needs.map(|name| (name, self.ready.contains(name)))
    }

    /// Whether it does not begin without a service.
    pub(crate) fn needs(&self, service: &str) -> bool {
        self.plan.needs.iter().any(|need| need == service)
    }

    /// The recording that is wanted of it.
    #[must_use]
    pub const fn recording(&self) -> Option<&Recording> {
        self.recording.as_ref()
    }

    /// What is replayed in it.
    #[must_use]
    pub const fn watched(&self) -> Option<&Replay> {
        self.replay.as_ref()
    }

    /// What was said of what is replayed, in the order of places.
    #[must_use]
    pub fn annotations(&self) -> &[Annotation] {
        &self.annotations
    }

    /// What was said of recordings and is to be written down.
    #[must_use]
    pub fn unkept(&self) -> &[Annotation] {
        &self.unkept
    }

    /// Whether a member stands for somebody of a recording.
    #[must_use]
    pub fn is_replayed(&self, member: MemberId) -> bool {
        let people = self.replay.iter().flat_map(|replay| &replay.people);
        people.into_iter().any(|one| one.member == member)
    }

    /// Whether a member is who a key says it is.
    #[must_use]
    pub fn is_key_of(&self, member: MemberId, key: &Key) -> bool {
        self.keys.get(&member) == Some(key)
    }
}
