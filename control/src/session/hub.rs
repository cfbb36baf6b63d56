//! Who hears what: the connections of a session's members.
//!
//! What everybody hears is encoded once and shared, however many they are.

use std::collections::BTreeMap;

use axum::extract::ws::Utf8Bytes;
use sangam_session::{Event, Gone, MemberId, Reach, Record, Session};
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use super::view;

/// What may wait for one connection; one that does not read is told the whole state instead.
pub const TOLD_MAX: usize = 256;

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
}

/// The connections of one session, one for each member.
#[derive(Debug, Default)]
pub(super) struct Hub {
    connections: BTreeMap<MemberId, Connection>,
    /// Those by which members joined, which may not be connected yet.
    begun: BTreeMap<MemberId, u64>,
    states: States,
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

    /// Tells everybody what happened.
    pub(super) fn tell(&mut self, session: &Session, records: &[Record]) {
        for record in records {
            if let Event::Left { member, .. } = &record.event {
                self.begun.remove(member);
            }
        }
        if self.connections.is_empty() {
            return;
        }
        let mut rest = records;
        while let Some(first) = rest.first() {
            let audience = Audience::of(first);
            let run = rest.iter().take_while(|one| Audience::of(one) == audience);
            let (now, later) = rest.split_at(run.count());
            self.tell_run(session, &audience, now);
            rest = later;
        }
        for record in records {
            self.follow(session, &record.event);
        }
        if session.state().is_final() {
            let gone: Vec<_> = self.connections.keys().copied().collect();
            gone.into_iter().for_each(|one| self.dismiss(one, "ended"));
        }
    }

    fn tell_run(&mut self, session: &Session, audience: &Audience, records: &[Record]) {
        if *audience == Audience::Nobody {
            return;
        }
        let all = Told::Frame(frame(records));
        for (&member, connection) in &mut self.connections {
            let room = session.member(member).and_then(|one| one.room.as_deref());
            let hears = match (audience, room) {
                (Audience::All, Some(_)) => true,
                (Audience::All, None) => {
                    let own = records.iter().filter(|one| concerns(&one.event, member));
                    let own: Vec<_> = own.cloned().collect();
                    if !own.is_empty() {
                        connection.send(Told::Frame(frame(&own)));
                    }
                    false
                }
                (Audience::Room(of), Some(room)) => of == room,
                (Audience::Two(one, other), _) => member == *one || member == *other,
                _ => false,
            };
            if hears {
                connection.send(all.clone());
            }
        }
    }

    /// What an event means for the connections of whom it is about.
    fn follow(&mut self, session: &Session, event: &Event) {
        match event {
            Event::Left { member, why } => self.dismiss(*member, why_bye(*why)),
            Event::Moved { member, .. } => {
                let state = self.states.of(session, *member);
                if let Some(connection) = self.connections.get_mut(member) {
                    connection.send(Told::Reach(session.reach(*member)));
                    // Whoever comes out of the lobby has not seen anything yet.
                    connection.send(Told::Frame(state));
                }
            }
            _ => {}
        }
    }

    /// Tells the state to those who are behind and read again.
    pub(super) fn catch_up(&mut self, session: &Session) {
        let behind = self.connections.iter_mut().filter(|(_, one)| one.behind);
        for (member, connection) in behind {
            if connection.sink.capacity() > TOLD_MAX / 2 {
                connection.behind = false;
                connection.send(Told::Reach(session.reach(*member)));
                connection.send(Told::Frame(self.states.of(session, *member)));
            }
        }
    }

    /// What a member sees of the whole session.
    pub(super) fn state(&mut self, session: &Session, member: MemberId) -> Utf8Bytes {
        self.states.of(session, member)
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

fn frame(records: &[Record]) -> Utf8Bytes {
    let seq = records.last().map_or(0, |last| last.seq);
    let events: Vec<Value> = records.iter().map(view::record).collect();
    json!({ "type": "events", "seq": seq, "events": events })
        .to_string()
        .into()
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
            Some(room) if session.chat().all(|line| line.to.is_none()) => {
                self.by_room.entry(room).or_insert_with(write).clone()
            }
            _ => write(),
        }
    }
}
