//! Who hears what: the connections of a session's members.
//!
//! What everybody hears is encoded once and shared, however many they are. Telling 10,000 takes
//! some tenths of a second; what happens meanwhile is gathered and told as one frame.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use axum::extract::ws::Utf8Bytes;
use sangam_session::{ChatLine, Event, Gone, MemberId, Reach, Record, Session};
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use super::view;

/// What may wait for one connection; one that does not read is told the whole state instead.
pub const TOLD_MAX: usize = 256;
/// Connections from which on events are gathered: fewer are told within some milliseconds.
const GATHER_FROM: usize = 256;
/// How long nobody is told anything after a frame, for each connection that was told: about twice
/// what it takes, so that half the thread's time is left for those who come and ask (a frame
/// takes 0.17 s to 10,000, on two cores shared with them).
const GATHER_EACH: Duration = Duration::from_micros(30);

/// What is told to a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// A frame for the client, as it is.
    Frame(Utf8Bytes),
    /// Its topics are others now.
    Reach(Option<Reach>),
    /// It is over: why.
    Bye(&'static str),
}

/// One member's connection.
#[derive(Debug)]
struct Connection {
    number: u64,
    sink: Sender<Told>,
    /// It did not take everything and needs to be told the state.
    behind: bool,
    /// It has not been told anything yet, and is told the state with what is gathered.
    new: bool,
}

/// The connections of one session, one for each member.
#[derive(Debug, Default)]
pub(super) struct Hub {
    connections: BTreeMap<MemberId, Connection>,
    /// Those by which members joined, which may not be connected yet.
    begun: BTreeMap<MemberId, u64>,
    states: States,
    /// What has happened and is not told yet.
    gathered: Vec<Record>,
    /// Nothing is told before.
    rests_until: Option<Instant>,
}

/// What members of each room see of the session as it was after an event: many come at once.
#[derive(Debug, Default)]
struct States {
    seq: u64,
    by_room: BTreeMap<String, Utf8Bytes>,
}

/// Who may hear of an event.
#[derive(Debug, PartialEq, Eq)]
enum Audience {
    Nobody,
    /// Who is in a room; and whoever is in the lobby, if it is about itself or about everything.
    All,
    Room(String),
    Two(MemberId, MemberId),
}

impl Hub {
    /// Takes a connection, and the older ones of its member are over; or, if its member has a later
    /// one, this one is. Whether it was taken.
    pub(super) fn connect(&mut self, number: u64, member: MemberId, sink: Sender<Told>) -> bool {
        let known = self.connections.get(&member);
        if known.is_some_and(|known| known.number > number) {
            // One that was given up may wait longer to be let in than the one after it.
            let _ = sink.try_send(Told::Bye("replaced"));
            return false;
        }
        self.dismiss(member, "replaced");
        let connection = Connection {
            number,
            sink,
            behind: false,
            new: true,
        };
        self.connections.insert(member, connection);
        true
    }

    /// A member has joined by the connection of this number.
    pub(super) fn begins(&mut self, member: MemberId, number: u64) {
        self.begun.insert(member, number);
    }

    /// Whether this connection began after all others of a member.
    pub(super) fn is_newest(&self, member: MemberId, number: u64) -> bool {
        let connected = self.connections.get(&member).map(|one| one.number);
        let others = [connected, self.begun.get(&member).copied()];
        others.into_iter().flatten().all(|other| other < number)
    }

    /// Tells a new connection what it may reach and, unless others are about to hear what its state
    /// says already, the state.
    pub(super) fn greet(&mut self, session: &Session, member: MemberId) {
        if let Some(connection) = self.connections.get_mut(&member) {
            connection.send(Told::Reach(session.reach(member)));
        }
        if self.gathered.is_empty() {
            self.tell_state(session, member);
        }
    }

    /// A connection is gone, or never came about; whether its member has no other.
    pub(super) fn disconnect(&mut self, number: u64, member: MemberId) -> bool {
        let known = self.connections.get(&member);
        if known.is_some_and(|known| known.number != number) {
            return false;
        }
        self.connections.remove(&member);
        true
    }

    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Ends the connections of a member.
    fn dismiss(&mut self, member: MemberId, why: &'static str) {
        if let Some(connection) = self.connections.remove(&member) {
            // One that does not read learns it when its channel closes.
            let _ = connection.sink.try_send(Told::Bye(why));
        }
    }

    /// Tells everybody what happened, now or in a moment.
    pub(super) fn tell(&mut self, session: &Session, records: &[Record], now: Instant) {
        for record in records {
            if let Event::Left { member, .. } = &record.event {
                self.begun.remove(member);
            }
        }
        if self.connections.is_empty() {
            return;
        }
        self.gathered.extend_from_slice(records);
        self.tell_gathered(session, now);
    }

    /// When [`Self::tell_gathered`] has something to do; `None` if nothing was gathered.
    pub(super) fn due(&self) -> Option<Instant> {
        self.rests_until.filter(|_| !self.gathered.is_empty())
    }

    /// Tells what was gathered, once a large session may be told something again.
    pub(super) fn tell_gathered(&mut self, session: &Session, now: Instant) {
        let rests = self.rests_until.is_some_and(|until| now < until);
        if rests || self.gathered.is_empty() {
            return;
        }
        let all = u32::try_from(self.connections.len()).unwrap_or(u32::MAX);
        let is_large = self.connections.len() >= GATHER_FROM;
        self.rests_until = is_large.then(|| now + GATHER_EACH * all);
        let records = std::mem::take(&mut self.gathered);
        self.tell_events(session, &records);
        for record in &records {
            self.follow(session, &record.event);
        }
        let new = self.connections.iter().filter(|(_, one)| one.new);
        let new: Vec<_> = new.map(|(member, _)| *member).collect();
        for member in new {
            self.tell_state(session, member);
        }
        if session.state().is_final() {
            let gone: Vec<_> = self.connections.keys().copied().collect();
            gone.into_iter().for_each(|one| self.dismiss(one, "ended"));
        }
    }

    fn tell_state(&mut self, session: &Session, member: MemberId) {
        let state = self.states.of(session, member);
        if let Some(connection) = self.connections.get_mut(&member) {
            connection.new = false;
            connection.send(Told::Frame(state));
        }
    }

    /// One frame for each connection that hears of any of it, the same for all of a room.
    fn tell_events(&mut self, session: &Session, records: &[Record]) {
        let audiences: Vec<_> = records.iter().map(Audience::of).collect();
        let all = || records.iter().zip(&audiences);
        let mut by_room: BTreeMap<&str, Option<Told>> = BTreeMap::new();
        let told = self.connections.iter_mut().filter(|(_, one)| !one.new);
        for (&member, connection) in told {
            let apart = audiences.iter().any(|one| one.is_two_with(member));
            let room = session.member(member).and_then(|one| one.room.as_deref());
            let frame = match room {
                None => frame(all().filter(|(record, audience)| {
                    audience.is_two_with(member)
                        || **audience == Audience::All && concerns(&record.event, member)
                })),
                Some(room) if apart => {
                    frame(all().filter(|(_, audience)| audience.holds(member, room)))
                }
                Some(room) => by_room
                    .entry(room)
                    .or_insert_with(|| frame(all().filter(|(_, one)| one.holds_room(room))))
                    .clone(),
            };
            if let Some(frame) = frame {
                connection.send(frame);
            }
        }
    }

    /// What an event means for the connections of whom it is about.
    fn follow(&mut self, session: &Session, event: &Event) {
        match event {
            Event::Left { member, why } => self.dismiss(*member, why_bye(*why)),
            Event::Moved { member, .. } => {
                if let Some(connection) = self.connections.get_mut(member) {
                    connection.send(Told::Reach(session.reach(*member)));
                }
                // Whoever comes out of the lobby has not seen anything yet.
                self.tell_state(session, *member);
            }
            _ => {}
        }
    }

    /// Tells the state to those who are behind and read again.
    pub(super) fn catch_up(&mut self, session: &Session) {
        let behind = self.connections.iter_mut().filter(|(_, one)| one.behind);
        let reads = behind.filter(|(_, one)| one.sink.capacity() > TOLD_MAX / 2);
        let mut back = Vec::new();
        for (member, connection) in reads {
            (connection.behind, connection.new) = (false, true);
            back.push(*member);
        }
        back.into_iter()
            .for_each(|member| self.greet(session, member));
    }
}

impl Connection {
    fn send(&mut self, told: Told) {
        if self.behind {
            return;
        }
        match self.sink.try_send(told) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.behind = true,
            // Its task has ended and says so by itself.
            Err(TrySendError::Closed(_)) => {}
        }
    }
}

impl Audience {
    fn of(record: &Record) -> Self {
        match &record.event {
            Event::Keyed { .. } | Event::Fenced | Event::Barred { .. } => Self::Nobody,
            Event::Chat {
                from, to: Some(to), ..
            } => Self::Two(*from, *to),
            Event::Chat {
                room: Some(room), ..
            }
            | Event::Reacted {
                room: Some(room), ..
            } => Self::Room(room.clone()),
            _ => Self::All,
        }
    }

    /// Whether this is one of two who hear it alone.
    fn is_two_with(&self, member: MemberId) -> bool {
        matches!(self, Self::Two(one, other) if *one == member || *other == member)
    }

    /// Whether all of a room hear it.
    fn holds_room(&self, room: &str) -> bool {
        match self {
            Self::All => true,
            Self::Room(of) => of == room,
            Self::Nobody | Self::Two(..) => false,
        }
    }

    fn holds(&self, member: MemberId, room: &str) -> bool {
        self.is_two_with(member) || self.holds_room(room)
    }
}

/// Whether somebody who waits in the lobby may hear of it.
fn concerns(event: &Event, waiting: MemberId) -> bool {
    match event {
        Event::State { .. } | Event::Planned { .. } => true,
        Event::Moved { member, .. }
        | Event::Left { member, .. }
        | Event::Named { member, .. }
        | Event::Hand { member, .. }
        | Event::Role { member, .. } => *member == waiting,
        _ => false,
    }
}

const fn why_bye(why: Gone) -> &'static str {
    match why {
        Gone::Itself => "left",
        Gone::Replaced => "replaced",
        Gone::Lost => "lost",
        Gone::Ended => "ended",
        _ => "removed",
    }
}

/// What was heard, as one frame; none of nothing.
fn frame<'a>(heard: impl Iterator<Item = (&'a Record, &'a Audience)>) -> Option<Told> {
    let mut seq = 0;
    let events = heard.map(|(record, _)| {
        seq = record.seq;
        view::record(record)
    });
    let events: Vec<Value> = events.collect();
    let frame = json!({ "type": "events", "seq": seq, "events": events });
    (seq > 0).then(|| Told::Frame(frame.to_string().into()))
}

impl States {
    fn of(&mut self, session: &Session, member: MemberId) -> Utf8Bytes {
        let write = || {
            let shown = view::session_for(session, Some(member));
            json!({ "type": "state", "session": shown })
                .to_string()
                .into()
        };
        if self.seq != session.seq() {
            (self.seq, self.by_room) = (session.seq(), BTreeMap::new());
        }
        let room = session.member(member).and_then(|one| one.room.clone());
        match room {
            // Those of one room see the same, but for what was said to one of them alone.
            Some(room) if session.chat().all(|line| !is_between(line, member)) => {
                self.by_room.entry(room).or_insert_with(write).clone()
            }
            _ => write(),
        }
    }
}

/// Whether this member is one of two who read a line alone.
fn is_between(line: &ChatLine, member: MemberId) -> bool {
    line.to
        .is_some_and(|to| to == member || line.from == member)
}

#[cfg(test)]
mod tests {
    use sangam_model::Time;
    use sangam_session::{
        Answer, Caller, Command, Input, Joining, Machine, Plan, Refusal, SessionId,
    };
    use tokio::sync::mpsc::{Receiver, channel};

    use super::*;

    /// A session, and what its members are told.
    struct Meeting {
        machine: Machine,
        hub: Hub,
        told: Vec<Receiver<Told>>,
        now: Instant,
    }

    impl Meeting {
        fn of(members: usize) -> Self {
            let id = SessionId::new("acme", "weekly").unwrap();
            let plan = Plan::titled("Weekly");
            let machine = Machine::create(Time::from_millis(1_000), id, plan, 1);
            let mut meeting = Self {
                machine: machine.unwrap(),
                hub: Hub::default(),
                told: Vec::new(),
                now: Instant::now(),
            };
            for number in 0..members {
                meeting.join(&format!("p{number}"));
                meeting.later(Duration::from_secs(1));
            }
            for told in &mut meeting.told {
                while told.try_recv().is_ok() {}
            }
            meeting
        }

        fn take(&mut self, input: Input) -> Result<Answer, Refusal> {
            let done = self.machine.handle(Time::from_millis(1_000), input);
            let records: Vec<_> = std::iter::from_fn(|| self.machine.poll()).collect();
            self.hub.tell(self.machine.session(), &records, self.now);
            done
        }

        fn join(&mut self, name: &str) {
            let Ok(Answer::Joined(member)) = self.take(Input::Join(Joining::named(name))) else {
                panic!("{name} does not get in");
            };
            let (sink, told) = channel(TOLD_MAX);
            self.hub.connect(self.told.len() as u64, member, sink);
            self.hub.greet(self.machine.session(), member);
            self.told.push(told);
        }

        fn lock(&mut self, locked: bool) {
            let command = Command::Lock { locked };
            self.take(Input::Command(Caller::Operator, command))
                .unwrap();
        }

        fn later(&mut self, time: Duration) {
            self.now += time;
            self.hub.tell_gathered(self.machine.session(), self.now);
        }

        /// The frames that a member was told since it was asked last.
        fn frames(&mut self, member: usize) -> Vec<Value> {
            let told = &mut self.told[member];
            let told = std::iter::from_fn(|| told.try_recv().ok());
            let frame = |told| match told {
                Told::Frame(text) => serde_json::from_str(&text).ok(),
                _ => None,
            };
            told.filter_map(frame).collect()
        }
    }

    #[test]
    fn a_large_session_is_told_together_what_follows_a_frame() {
        let mut meeting = Meeting::of(GATHER_FROM);
        meeting.later(Duration::from_secs(1));
        meeting.lock(true);
        assert_eq!(meeting.frames(7).len(), 1, "the first at once");
        meeting.lock(false);
        meeting.lock(true);
        assert_eq!(meeting.frames(7), [Value::Null; 0]);
        let due = meeting.hub.due().expect("something is gathered");
        let wait = due - meeting.now;
        assert_eq!(wait, GATHER_EACH * GATHER_FROM as u32);
        meeting.later(wait);
        let frames = meeting.frames(7);
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0]["events"].as_array().unwrap().len(), 2);
        assert_eq!(meeting.hub.due(), None);
    }

    #[test]
    fn who_comes_while_events_are_gathered_sees_them_once() {
        let mut meeting = Meeting::of(GATHER_FROM);
        meeting.lock(true);
        meeting.lock(false);
        meeting.join("late");
        let late = GATHER_FROM;
        assert_eq!(meeting.frames(late), [Value::Null; 0]);
        meeting.later(Duration::from_secs(1));
        let frames = meeting.frames(late);
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0]["type"], "state");
        let seq = meeting.machine.session().seq();
        assert_eq!(frames[0]["session"]["seq"], seq);
        assert_eq!(meeting.frames(7).last().unwrap()["seq"], seq);
    }

    #[test]
    fn a_small_session_is_told_each_event_at_once() {
        let mut meeting = Meeting::of(3);
        for locked in [true, false, true] {
            meeting.lock(locked);
            assert_eq!(meeting.frames(2).len(), 1);
        }
        assert_eq!(meeting.hub.due(), None);
    }
}
