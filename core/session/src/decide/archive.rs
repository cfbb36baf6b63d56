//! What a session asks of the archive: to be recorded, and to have a recording replayed.

use std::collections::BTreeSet;

use crate::limits::{CHAT_LEN_MAX, LEASE_MS, LENGTH_MS_MAX, MEMBERS_MAX};
use crate::recording::{is_name, is_recorder};
use crate::{
    Caller, Event, Gone, MAIN, Machine, Medium, Member, MemberId, Person, Played, Playing,
    RECORDER, REPLAYED, Refusal, Replay, Rights, Role, Said, State, text,
};

/// Who does something for a session, as long as it says so again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// Who; whoever says so first after another server has taken over.
    name: Option<String>,
    pub(crate) until_ms: u64,
}

impl Lease {
    /// For whoever did it before this server knew of it.
    pub(crate) const fn inherited(now_ms: u64) -> Self {
        Self {
            name: None,
            until_ms: now_ms + LEASE_MS,
        }
    }

    fn is_of(&self, name: &str) -> bool {
        self.name.as_deref().is_none_or(|holder| holder == name)
    }
}

/// Renews a lease, or takes one that nobody has; false if another has it.
fn renew(lease: &mut Option<Lease>, name: &str, now_ms: u64) -> bool {
    if lease.as_ref().is_some_and(|held| !held.is_of(name)) {
        return false;
    }
    *lease = Some(Lease {
        name: Some(name.to_owned()),
        until_ms: now_ms + LEASE_MS,
    });
    true
}

impl Machine {
    /// Whether this recorder is to record the session.
    #[must_use]
    pub fn is_recorded_by(&self, name: &str) -> bool {
        self.session.recording.is_some() && held(self.recorder.as_ref(), name)
    }

    /// Whether this player is to replay what is replayed here.
    #[must_use]
    pub fn is_played_by(&self, name: &str) -> bool {
        self.session.replay.is_some() && held(self.player.as_ref(), name)
    }

    /// Whether nobody records it, or replays in it, though somebody should; a session that is
    /// planned for later is recorded from its beginning on.
    #[must_use]
    pub fn awaits(&self, now_ms: u64) -> (bool, bool) {
        let session = &self.session;
        let start = session.plan.start_ms.unwrap_or_default();
        let soon = session.state != State::Created || start <= now_ms.saturating_add(LEASE_MS);
        (
            session.recording.is_some() && self.recorder.is_none() && soon,
            session.replay.is_some() && self.player.is_none(),
        )
    }

    pub(super) fn record(&mut self, caller: Caller, on: bool) -> Result<(), Refusal> {
        self.needs_chair(caller)?;
        if self.session.recording.is_some() == on {
            return Ok(());
        }
        if !on && self.session.state == State::Created && self.session.needs(RECORDER) {
            return Err(Refusal::NotNow(State::Created));
        }
        let member = member_of(caller);
        if !on {
            self.forget_recorder();
        }
        self.emit(Event::Recording { on, member });
        Ok(())
    }

    /// A recorder says that it is there for this session, and whether it records already.
    pub(crate) fn recorder(&mut self, name: &str, records: bool) -> Result<(), Refusal> {
        if !is_recorder(name) {
            return Err(RECORDER_NAME);
        }
        if self.session.recording.is_none() {
            return Err(Refusal::Range("the session is not to be recorded"));
        }
        if !renew(&mut self.recorder, name, self.now_ms) {
            return Err(Refusal::Forbidden("another recorder records the session"));
        }
        self.tell_recorded(records);
        self.begin();
        Ok(())
    }

    fn tell_recorded(&mut self, ready: bool) {
        if self.session.ready.contains(RECORDER) != ready {
            let name = RECORDER.to_owned();
            self.emit(Event::Service { name, ready });
        }
    }

    /// Nobody records it any more.
    pub(crate) fn forget_recorder(&mut self) {
        self.recorder = None;
        self.tell_recorded(false);
    }

    pub(super) fn replay(&mut self, caller: Caller, recording: String) -> Result<(), Refusal> {
        let room = self.presenting(caller)?;
        if !is_name(&recording) {
            return Err(Refusal::Text(
                "the recording",
                "is no number of a recording",
            ));
        }
        if self.session.state != State::Activated {
            return Err(Refusal::NotNow(self.session.state));
        }
        self.end_replay(Gone::Replaced);
        let replay = Replay {
            recording,
            room,
            member: member_of(caller),
            since_ms: self.now_ms,
            order: self.session.seq + 1,
            playing: true,
            position_ms: 0,
            at_ms: self.now_ms,
            length_ms: None,
            people: Vec::new(),
        };
        self.emit(Event::Replay {
            replay: Some(replay),
            why: None,
        });
        self.recall_unkept();
        Ok(())
    }

    pub(super) fn play(
        &mut self,
        caller: Caller,
        playing: bool,
        position_ms: Option<u64>,
    ) -> Result<(), Refusal> {
        self.presenting(caller)?;
        let mut replay = self.replayed()?;
        let Some(length) = replay.length_ms else {
            return Err(Refusal::Range("the recording is not found yet"));
        };
        let mut position = position_ms.unwrap_or_else(|| replay.position(self.now_ms));
        if position > length && position_ms.is_some() {
            return Err(Refusal::Range("the recording is not as long"));
        }
        if playing && position >= length {
            position = 0;
        }
        replay.order = self.session.seq + 1;
        (replay.playing, replay.position_ms) = (playing, position);
        self.show(replay);
        Ok(())
    }

    pub(super) fn stop(&mut self, caller: Caller) -> Result<(), Refusal> {
        self.presenting(caller)?;
        self.replayed()?;
        self.end_replay(Gone::Taken);
        Ok(())
    }

    /// A player says that it is there for this session, and what comes of it.
    pub(crate) fn played(&mut self, name: &str, playing: Playing) -> Result<(), Refusal> {
        if !is_recorder(name) {
            return Err(RECORDER_NAME);
        }
        let mut replay = self.replayed()?;
        if !playing.is_sound() {
            return Err(Refusal::Range("a player tells too much at once"));
        }
        if !renew(&mut self.player, name, self.now_ms) {
            return Err(Refusal::Forbidden("another player replays here"));
        }
        if playing.failed {
            self.end_replay(Gone::Lost);
            return Ok(());
        }
        self.recall(playing.recalled);
        if playing.order != replay.order {
            return Ok(());
        }
        if let Some((length, people)) = playing.found
            && replay.length_ms.is_none()
        {
            replay.length_ms = Some(length.max(1));
            replay.people = self.bring_in(&replay.room, &people);
            self.show(replay);
        } else if let Some(position) = playing.position_ms
            && replay.playing
        {
            replay.position_ms = position.min(replay.length_ms.unwrap_or(LENGTH_MS_MAX));
            self.show(replay);
        }
        self.tell_said(playing.said);
        Ok(())
    }

    /// It is at its end, and stays there.
    pub(crate) fn replay_ends(&mut self) {
        if let Some(mut replay) = self.session.replay.clone() {
            replay.position_ms = replay.length_ms.unwrap_or_default();
            replay.playing = false;
            self.show(replay);
        }
    }

    /// Whoever was replayed leaves.
    pub(crate) fn end_replay(&mut self, why: Gone) {
        let Some(replay) = self.session.replay.clone() else {
            return;
        };
        self.player = None;
        for one in &replay.people {
            self.leave(one.member, Gone::Ended);
        }
        self.emit(Event::Replay {
            replay: None,
            why: Some(why),
        });
    }

    fn show(&mut self, replay: Replay) {
        let replay = Replay {
            at_ms: self.now_ms,
            ..replay
        };
        self.emit(Event::Replay {
            replay: Some(replay),
            why: None,
        });
    }

    pub(super) fn replayed(&self) -> Result<Replay, Refusal> {
        let replay = self.session.replay.clone();
        replay.ok_or(Refusal::Range("no recording is replayed here"))
    }

    /// Lets those through who may show something to all, and says in which room.
    fn presenting(&self, caller: Caller) -> Result<String, Refusal> {
        let Caller::Member(member) = caller else {
            return Ok(MAIN.to_owned());
        };
        let known = self.known(member)?;
        if known.role != Role::Presenter && !known.leads() {
            let why = "only a chair or presenter may do this";
            return Err(Refusal::Forbidden(why));
        }
        self.room_of(member)
    }

    /// Those of a recording become members, with the floors of what there is of them.
    fn bring_in(&mut self, room: &str, people: &[Person]) -> Vec<Played> {
        let mut brought: Vec<Played> = Vec::new();
        for one in people {
            let identity = format!("{REPLAYED}:{}", one.source);
            let known = self.session.identities.contains_key(&identity);
            if known || self.session.members.len() >= MEMBERS_MAX {
                continue;
            }
            let name = text::name("the name", &one.name).unwrap_or_else(|_| one.source.to_string());
            let id = MemberId(self.session.member_next);
            let media: BTreeSet<_> = one.media.iter().copied().collect();
            self.emit(Event::Joined {
                person: Member {
                    id,
                    identity,
                    name,
                    role: Role::Participant,
                    capabilities: [REPLAYED.to_owned()].into(),
                    rights: Rights {
                        publish: media.clone(),
                        subscribe: false,
                        chat: true,
                        admin: false,
                    },
                    room: Some(room.to_owned()),
                    muted: BTreeSet::default(),
                    hand_ms: None,
                    joined_ms: self.now_ms,
                    away_ms: None,
                },
            });
            for medium in media.into_iter().filter(|one| *one != Medium::Board) {
                self.lend((room, medium), id);
            }
            let source = one.source;
            brought.push(Played { source, member: id });
        }
        brought
    }

    fn tell_said(&mut self, said: Vec<Said>) {
        for Said { source, text } in said {
            let replay = self.session.replay.as_ref();
            let from = replay.and_then(|replay| replay.stands_for(source));
            // A chair may have sent it away.
            let from = from.filter(|from| self.session.members.contains_key(from));
            let fits = !text.trim().is_empty() && text.len() <= CHAT_LEN_MAX;
            let plain = text::printable("a message", &text).is_ok();
            let (Some(from), true) = (from, fits && plain) else {
                continue;
            };
            let room = self.session.replay.as_ref().map(|one| one.room.clone());
            self.emit(Event::Chat {
                from,
                to: None,
                room,
                text,
            });
        }
    }
}

const RECORDER_NAME: Refusal = Refusal::Text(
    "a recorder's name",
    "has 1 to 32 of a-z, A-Z, 0-9, '-', '_' and '.'",
);

fn held(lease: Option<&Lease>, name: &str) -> bool {
    lease.is_some_and(|lease| lease.name.as_deref() == Some(name))
}

const fn member_of(caller: Caller) -> Option<MemberId> {
    match caller {
        Caller::Member(member) => Some(member),
        Caller::Operator => None,
    }
}
