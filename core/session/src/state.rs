//! A session as the fold of its log.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::limits::{ANNOTATIONS_MAX, AWAY_MS_MAX, BARRED_MAX, CHAT_KEPT};
use crate::{
    Annotation, Event, Floor, FloorRules, Holder, Key, MAIN, Medium, Member, MemberId, Record,
    Recording, Replay, SessionId, State, Way,
};

/// What is planned for a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What people call it.
    pub title: String,
    /// When it begins, in milliseconds since 1970; at once if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<u64>,
    /// When it ends, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ms: Option<u64>,
    /// Whether participants and observers wait to be let in.
    #[serde(default)]
    pub lobby: bool,
    /// Services without which it does not begin, such as a recorder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Other ways in than the page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<Way>,
    /// Whether it is recorded from its beginning on; it needs a recorder then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub record: bool,
}

/// A room with its floors: `main`, or a private one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// What people call it.
    pub title: String,
    /// One floor for each of [`Medium::ALL`], in that order.
    pub floors: [Floor; Medium::ALL.len()],
}

/// A line of chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatLine {
    /// Its number in the log.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// Who.
    pub from: MemberId,
    /// To whom alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<MemberId>,
    /// In which room; everywhere if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<String>,
    /// What.
    pub text: String,
}

/// What a session waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timer {
    /// Its time comes.
    Start,
    /// Its time is over.
    End,
    /// A floor has been given for so long only.
    Floor(String, Medium, MemberId),
    /// A member whose connection is gone is not waited for any longer.
    Away(MemberId),
    /// What is replayed ends.
    Replay,
}

/// A session. Changed by [`Self::apply`] alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub(crate) id: SessionId,
    pub(crate) plan: Plan,
    pub(crate) state: State,
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) changed_ms: u64,
    pub(crate) locked: bool,
    pub(crate) members: BTreeMap<MemberId, Member>,
    pub(crate) identities: BTreeMap<String, MemberId>,
    pub(crate) keys: BTreeMap<MemberId, Key>,
    pub(crate) rooms: BTreeMap<String, Room>,
    /// Services that are ready.
    pub(crate) ready: BTreeSet<String>,
    /// The oldest first.
    pub(crate) barred: VecDeque<String>,
    pub(crate) chat: VecDeque<ChatLine>,
    pub(crate) member_next: u32,
    pub(crate) timers: BTreeSet<(u64, Timer)>,
    #[serde(default)]
    pub(crate) recording: Option<Recording>,
    #[serde(default)]
    pub(crate) replay: Option<Replay>,
    /// What was said of what is replayed, in the order of places.
    #[serde(default)]
    pub(crate) annotations: Vec<Annotation>,
    /// What was said of any recording and is no part of it yet.
    #[serde(default)]
    pub(crate) unkept: Vec<Annotation>,
}

impl Plan {
    /// A session that begins at once.
    #[must_use]
    pub fn titled(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            ..Self::default()
        }
    }
}

impl Room {
    /// Microphones, cameras and the board are free, one screen at a time.
    pub(crate) fn new(title: String) -> Self {
        let rules = Medium::ALL.map(|medium| match medium {
            Medium::Screen => FloorRules::free(1),
            _ => FloorRules::free(crate::limits::HOLDERS_MAX),
        });
        Self {
            title,
            floors: rules.map(Floor::new),
        }
    }
}

/// The fold.
impl Session {
    /// The session that a log begins with; `None` if it begins otherwise.
    #[must_use]
    pub fn begin(record: &Record) -> Option<Self> {
        let Event::Created { session, plan } = &record.event else {
            return None;
        };
        let main = Room::new(String::new());
        let mut new = Self {
            id: session.clone(),
            plan: plan.clone(),
            state: State::Created,
            epoch: record.epoch,
            seq: record.seq,
            changed_ms: record.at_ms,
            locked: false,
            members: BTreeMap::new(),
            identities: BTreeMap::new(),
            keys: BTreeMap::new(),
            rooms: BTreeMap::from([(MAIN.to_owned(), main)]),
            ready: BTreeSet::new(),
            barred: VecDeque::new(),
            chat: VecDeque::new(),
            member_next: 1,
            timers: BTreeSet::new(),
            recording: None,
            replay: None,
            annotations: Vec::new(),
            unkept: Vec::new(),
        };
        new.heed_plan(record.at_ms);
        new.schedule();
        Some(new)
    }

    /// The session that a whole log amounts to; `None` if it does not begin with a creation.
    #[must_use]
    pub fn replay<'a>(log: impl IntoIterator<Item = &'a Record>) -> Option<Self> {
        let mut log = log.into_iter();
        let mut session = Self::begin(log.next()?)?;
        for record in log {
            session.apply(record);
        }
        Some(session)
    }

    /// Takes the next event. False, and nothing changes, if it is not the next one, or was written
    /// by a holder that had been fenced off.
    pub fn apply(&mut self, record: &Record) -> bool {
        if record.seq != self.seq + 1 || record.epoch < self.epoch {
            return false;
        }
        (self.seq, self.epoch) = (record.seq, record.epoch);
        self.changed_ms = record.at_ms;
        match &record.event {
            Event::Created { .. } | Event::Fenced | Event::Reacted { .. } => {}
            Event::Planned { plan } => {
                self.plan = plan.clone();
                self.heed_plan(record.at_ms);
                self.schedule();
            }
            Event::State { state } => {
                self.state = *state;
                if state.is_final() {
                    self.recording = None;
                }
                self.schedule();
            }
            Event::Service { name, ready } => {
                if *ready {
                    self.ready.insert(name.clone());
                } else {
                    self.ready.remove(name);
                }
                self.schedule();
            }
            Event::Locked { locked } => self.locked = *locked,
            Event::Barred { identity } => {
                if self.barred.len() >= BARRED_MAX {
                    self.barred.pop_front();
                }
                self.barred.push_back(identity.clone());
            }
            Event::Opened { room, title } => {
                self.rooms.insert(room.clone(), Room::new(title.clone()));
            }
            Event::Closed { room } => {
                self.rooms.remove(room);
            }
            Event::Chat {
                from,
                to,
                room,
                text,
            } => self.remember(ChatLine {
                seq: record.seq,
                at_ms: record.at_ms,
                from: *from,
                to: *to,
                room: room.clone(),
                text: text.clone(),
            }),
            event => {
                self.apply_to_floor(event);
                self.apply_to_member(event, record.at_ms);
                self.apply_to_archive(event, record.at_ms);
            }
        }
        true
    }

    fn apply_to_member(&mut self, event: &Event, at_ms: u64) {
        match event {
            Event::Joined { person } => {
                self.member_next = self.member_next.max(person.id.0 + 1);
                self.identities.insert(person.identity.clone(), person.id);
                self.members.insert(person.id, person.clone());
            }
            Event::Keyed { member, key } => {
                self.keys.insert(*member, key.clone());
            }
            Event::Left { member, .. } => {
                self.keys.remove(member);
                if let Some(left) = self.members.remove(member) {
                    self.identities.remove(&left.identity);
                    self.stop_waiting(&left);
                }
            }
            Event::Away { member } => self.change(*member, |one| one.away_ms = Some(at_ms)),
            Event::Back { member } => {
                if let Some(back) = self.members.get(member).cloned() {
                    self.stop_waiting(&back);
                }
                self.change(*member, |one| one.away_ms = None);
            }
            Event::Named { member, name } => self.change(*member, |one| one.name.clone_from(name)),
            Event::Role { member, role } => self.change(*member, |one| one.role = *role),
            Event::Moved { member, room } => {
                self.change(*member, |one| one.room = Some(room.clone()));
            }
            Event::Muted {
                member,
                medium,
                muted,
            } => self.change(*member, |one| {
                if *muted {
                    one.muted.insert(*medium);
                } else {
                    one.muted.remove(medium);
                }
            }),
            Event::Hand { member, raised } => {
                self.change(*member, |one| one.hand_ms = raised.then_some(at_ms));
            }
            _ => {}
        }
        if let Event::Away { member } = event {
            self.timers
                .insert((at_ms + AWAY_MS_MAX, Timer::Away(*member)));
        }
    }

    fn apply_to_floor(&mut self, event: &Event) {
        let (room, medium, member) = match event {
            Event::Floor {
                room,
                medium,
                rules,
            } => {
                if let Some(floor) = self.floor_mut(room, *medium) {
                    floor.rules = *rules;
                }
                return;
            }
            Event::Requested {
                room,
                medium,
                member,
            }
            | Event::Withdrawn {
                room,
                medium,
                member,
                ..
            }
            | Event::Granted {
                room,
                medium,
                member,
                ..
            }
            | Event::Released {
                room,
                medium,
                member,
                ..
            } => (room, *medium, *member),
            _ => return,
        };
        let Some(floor) = self.floor_mut(room, medium) else {
            return;
        };
        floor.queue.retain(|one| *one != member);
        let held = floor.holders.iter().position(|one| one.member == member);
        let held = held.map(|at| floor.holders.remove(at));
        let timer = || Timer::Floor(room.clone(), medium, member);
        let mut begun = None;
        match event {
            Event::Requested { .. } => floor.queue.push(member),
            Event::Granted { until_ms, .. } => {
                let until_ms = *until_ms;
                floor.holders.push(Holder { member, until_ms });
                begun = until_ms;
            }
            _ => {}
        }
        if let Some(at) = held.and_then(|held| held.until_ms) {
            self.timers.remove(&(at, timer()));
        }
        if let Some(at) = begun {
            self.timers.insert((at, timer()));
        }
    }

    fn apply_to_archive(&mut self, event: &Event, at_ms: u64) {
        match event {
            Event::Recording { on, member } => {
                let (member, since_ms) = (*member, at_ms);
                self.recording = on.then_some(Recording { member, since_ms });
            }
            Event::Replay { replay, .. } => self.follow(replay.as_ref()),
            Event::Annotated { annotation, .. } => {
                self.annotate(annotation);
                self.unkept.push(annotation.clone());
            }
            Event::Recalled { annotations } => {
                annotations.iter().for_each(|one| self.annotate(one));
            }
            Event::Kept { number } => self.unkept.retain(|one| one.number != *number),
            _ => {}
        }
    }

    fn change(&mut self, member: MemberId, change: impl FnOnce(&mut Member)) {
        if let Some(member) = self.members.get_mut(&member) {
            change(member);
        }
    }

    /// A session that is planned to be recorded is, until somebody ends that.
    fn heed_plan(&mut self, since_ms: u64) {
        if self.plan.record && self.recording.is_none() {
            self.recording = Some(Recording {
                member: None,
                since_ms,
            });
        }
    }

    fn follow(&mut self, replay: Option<&Replay>) {
        self.timers
            .retain(|(_, timer)| !matches!(timer, Timer::Replay));
        if let Some(end) = replay.and_then(Replay::ends_ms) {
            self.timers.insert((end, Timer::Replay));
        }
        let turns = |replay: &Replay| (replay.since_ms, replay.recording.clone());
        if replay.map(turns) != self.replay.as_ref().map(turns) {
            self.annotations = Vec::new();
        }
        self.replay = replay.cloned();
    }

    /// Takes note of what was said of what is replayed, in its place.
    fn annotate(&mut self, said: &Annotation) {
        let replay = self.replay.as_ref();
        let is_of = replay.is_some_and(|replay| replay.recording == said.recording);
        let known = self.annotations.iter().any(|one| one.key() == said.key());
        if is_of && !known && self.annotations.len() < ANNOTATIONS_MAX {
            let before = |one: &Annotation| (one.position_ms, one.key());
            let place = before(said);
            let at = self.annotations.partition_point(|one| before(one) < place);
            self.annotations.insert(at, said.clone());
        }
    }

    fn stop_waiting(&mut self, member: &Member) {
        if let Some(since) = member.away_ms {
            self.timers
                .remove(&(since + AWAY_MS_MAX, Timer::Away(member.id)));
        }
    }

    fn floor_mut(&mut self, room: &str, medium: Medium) -> Option<&mut Floor> {
        let room = self.rooms.get_mut(room)?;
        Some(&mut room.floors[medium as usize])
    }

    fn remember(&mut self, line: ChatLine) {
        if self.chat.len() >= CHAT_KEPT {
            self.chat.pop_front();
        }
        self.chat.push_back(line);
    }

    /// Whether every service is ready without which it does not begin.
    pub(crate) fn is_served(&self) -> bool {
        self.plan.needs.iter().all(|name| self.ready.contains(name))
    }

    /// Sets the timers of the plan anew. A session that lacks a service waits for that alone.
    fn schedule(&mut self) {
        self.timers
            .retain(|(_, timer)| !matches!(timer, Timer::Start | Timer::End));
        if self.state == State::Created && self.is_served() {
            let start = self.plan.start_ms.unwrap_or_default();
            self.timers.insert((start, Timer::Start));
        }
        if let Some(end) = self.plan.end_ms.filter(|_| !self.state.is_final()) {
            self.timers.insert((end, Timer::End));
        }
    }
}
