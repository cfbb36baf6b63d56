//! From the broker to the players.

use std::collections::{HashMap, HashSet};

use sangam_client::Received;
use sangam_io::pool::Packet;
use sangam_model::{Class, Time};
use sangam_wire::{Event, Feedback};

use super::Seat;
use super::seat::Fate;
use super::track::{Now, Relayed};
use crate::limits::{EVENTS_MAX, OUTBOUND_HIGH};
use crate::pace::{interleave, wall};
use crate::player::State;
use crate::session::{Carrier, Sent, Session, Show};
use crate::turn::{Engine, Key};

/// Datagrams that wait for others to be sent with them.
const WAITING_MAX: usize = 4_096;
/// Bytes of events that are taken before what is due is sent: a burst fills no connection whose
/// player reads.
const TAKEN_MAX: usize = OUTBOUND_HIGH / 4;

/// Who was sent something, since what waits for them was sent on.
#[derive(Debug, Default)]
struct Touched {
    /// What goes by datagrams, by session, and how much that is.
    datagrams: HashMap<u64, Vec<Sent>>,
    waiting: usize,
    connections: HashSet<u64>,
    /// Bytes of events that were taken.
    taken: usize,
}

impl Engine {
    /// Takes what the broker sent, and sends it on.
    pub(crate) fn hear(&mut self, now: Time) {
        let Some(live) = &mut self.live else {
            return;
        };
        let now = Now {
            time: now,
            ntp: wall(),
        };
        let mut touched = Touched::default();
        live.has_more = true;
        for _ in 0..EVENTS_MAX {
            let received = self.live.as_mut().and_then(|live| live.client.try_recv());
            let Some(received) = received else {
                if let Some(live) = &mut self.live {
                    live.has_more = false;
                }
                break;
            };
            match received {
                Received::Event(packet) => {
                    touched.taken += packet.len();
                    self.relay(&packet, now, &mut touched);
                }
                other => self.told(other, now.time),
            }
            if touched.waiting >= WAITING_MAX || touched.taken >= TAKEN_MAX {
                self.send_on(std::mem::take(&mut touched), now.time);
            }
        }
        self.send_on(touched, now.time);
        self.tell_askers(now.time);
    }

    /// What is no event.
    fn told(&mut self, received: Received, now: Time) {
        let Some(live) = &mut self.live else {
            return;
        };
        match received {
            Received::Announce {
                stream,
                topic,
                media,
            } => {
                let returned = live.announce(stream, (topic, media), now);
                self.counts.live_returned.add(returned);
                self.set_timers();
            }
            Received::Retired(stream) => live.retire(stream, now),
            Received::Subscribed(filter) => {
                let mut watches = live.watches.values_mut();
                if let Some(watch) = watches.find(|watch| watch.filter == filter) {
                    watch.refused = None;
                }
            }
            Received::Refused { filter, reason } => {
                tracing::debug!(%filter, %reason, "the broker refuses a topic");
                let mut watches = live.watches.values_mut();
                if let Some(watch) = watches.find(|watch| watch.filter == filter) {
                    (watch.refused, watch.settles) = (Some(reason), None);
                }
            }
            Received::Token(Err(reason)) => tracing::warn!(%reason, "the broker refuses the token"),
            Received::Up(info) => {
                tracing::info!(?info, "the link to the broker is up");
                self.counts.live_links.one();
            }
            Received::Down(reason) => {
                tracing::warn!(%reason, "the link to the broker is down; connecting again");
                live.retire_all(now);
            }
            other => tracing::debug!(?other, "from the broker"),
        }
    }

    /// Has those answered who wait for announcements, when it is time.
    pub(super) fn set_timers(&mut self) {
        let Some(live) = &self.live else {
            return;
        };
        for (key, watch) in &live.watches {
            if let Some(settles) = watch.settles {
                self.wheel.set(Key::Watch(*key), settles);
            }
        }
    }

    /// Sends an event to all who play its stream.
    fn relay(&mut self, packet: &Packet, now: Now, touched: &mut Touched) {
        self.counts.live_events.one();
        let Ok(event) = Event::decode(packet) else {
            return self.counts.live_malformed.one();
        };
        let stream = event.header.stream;
        for turn in 0.. {
            let Some(live) = &mut self.live else {
                return;
            };
            let places = live.places.get(&stream);
            let Some((key, number)) = places.and_then(|places| places.get(turn)).copied() else {
                if turn == 0 {
                    self.counts.live_unwatched.one();
                }
                return;
            };
            let Some(watch) = live.watches.get_mut(&key) else {
                continue;
            };
            if event.header.class == Class::Rtcp {
                watch.report(number, event.payload, now);
                continue;
            }
            match watch.packet(number, &event, now) {
                Some(packet) => self.spread(key, &packet, touched),
                None => self.counts.live_malformed.one(),
            }
        }
    }

    /// Sends a packet to all who play a track.
    fn spread(&mut self, key: u64, packet: &Relayed<'_>, touched: &mut Touched) {
        let Self {
            live,
            sessions,
            connections,
            counts,
            ..
        } = self;
        let Some(watch) = live.as_ref().and_then(|live| live.watches.get(&key)) else {
            return;
        };
        let mut asks = packet.is_wanted;
        let mut out = Vec::new();
        for number in &watch.sessions {
            let Some(session) = sessions.get_mut(number) else {
                continue;
            };
            let mut connection = match session.carrier {
                Carrier::Udp => None,
                Carrier::Interleaved => connections.get_mut(&session.connection),
            };
            let has_room = match session.carrier {
                Carrier::Udp => true,
                Carrier::Interleaved => connection.as_ref().is_some_and(|one| one.has_room()),
            };
            match session.relay(packet, has_room, &mut out) {
                Fate::Sent | Fate::Unwanted => {}
                Fate::Malformed => counts.live_malformed.one(),
                Fate::Full => counts.live_unread.one(),
                Fate::Early(is_time) => {
                    counts.live_early.one();
                    asks |= is_time;
                }
            }
            if out.is_empty() {
                continue;
            }
            match &mut connection {
                Some(connection) => {
                    interleave(connection, &out, counts);
                    touched.connections.insert(session.connection);
                    out.clear();
                }
                None => touched.by_datagrams(*number, &mut out),
            }
        }
        if asks {
            self.ask(key, packet.number, packet.now);
        }
    }

    /// Sends what waits in connections and for datagrams.
    fn send_on(&mut self, touched: Touched, now: Time) {
        for (number, out) in touched.datagrams {
            let to = self.sessions.get(&number);
            if let Some(to) = to.map(|session| (session.peer, session.local)) {
                self.send((Carrier::Udp, 0), to, &out);
            }
        }
        for number in touched.connections {
            self.flush(number, now);
        }
    }

    /// Asks the publisher of a track for a key frame, unless that was just done.
    pub(super) fn ask(&mut self, watch: u64, number: usize, now: Time) {
        let Some(live) = &mut self.live else {
            return;
        };
        let watch = live.watches.get_mut(&watch);
        let track = watch.and_then(|watch| watch.track_mut(number));
        let Some(stream) = track.and_then(|track| track.ask(now)) else {
            return;
        };
        self.counts.live_key_frames.one();
        if let Err(error) = live.client.feedback(stream, 0, &Feedback::KeyFrame) {
            tracing::debug!(%error, "a key frame is not asked for");
        }
    }

    /// A player lost a picture: who takes its reports by this port or channel.
    pub(crate) fn picture_lost(&mut self, session: u64, rtcp: u16, now: Time) {
        let Some(session) = self.sessions.get(&session) else {
            return;
        };
        let Show::Live(Seat {
            watch,
            state: State::Playing,
        }) = session.show
        else {
            return;
        };
        let mut outlets = session.outlets.iter();
        let outlet = outlets.find(|outlet| outlet.pair.1 == rtcp);
        if let Some(number) = outlet.map(|outlet| outlet.number) {
            self.counts.live_pictures_lost.one();
            self.ask(watch, number, now);
        }
    }

    /// Says goodbye for streams that did not return, and ends what nobody needs.
    pub(crate) fn sweep_live(&mut self, now: Time) {
        let Some(live) = &mut self.live else {
            return;
        };
        live.token.show(&live.client);
        let mut played = HashSet::new();
        for session in self.sessions.values() {
            if let Show::Live(seat) = &session.show {
                let outlets = session.outlets.iter();
                played.extend(outlets.map(|outlet| (seat.watch, outlet.number)));
            }
        }
        self.counts.live_returned.add(live.hand_over(&played, now));
        let over = live.over(now);
        live.tidy(&played, now);
        let now = Now {
            time: now,
            ntp: wall(),
        };
        let mut touched = Touched::default();
        let mut ended = Vec::new();
        for (number, session) in &self.sessions {
            let Show::Live(seat) = &session.show else {
                continue;
            };
            let watch = seat.watch;
            let mut byes = byes(session, |track| over.contains(&(watch, track)), now);
            if byes.is_empty() || seat.state == State::Ready {
                continue;
            }
            self.counts.live_ended.add(byes.len() as u64);
            if byes.len() == session.outlets.len() {
                ended.push(*number);
            }
            match session.carrier {
                Carrier::Udp => touched.by_datagrams(*number, &mut byes),
                Carrier::Interleaved => {
                    if let Some(connection) = self.connections.get_mut(&session.connection) {
                        interleave(connection, &byes, &self.counts);
                        touched.connections.insert(session.connection);
                    }
                }
            }
        }
        self.send_on(touched, now.time);
        for number in ended {
            self.end_of_stream(number, now.time);
        }
    }
}

/// The ends of those tracks that are over.
fn byes(session: &Session, is_over: impl Fn(usize) -> bool, now: Now) -> Vec<Sent> {
    let outlets = session.outlets.iter();
    let over = outlets.filter(|outlet| is_over(outlet.number));
    over.map(|outlet| outlet.bye(now.at(), now.ntp)).collect()
}

impl Touched {
    /// Appends to what goes to a session by datagrams.
    fn by_datagrams(&mut self, session: u64, out: &mut Vec<Sent>) {
        self.waiting += out.len();
        self.datagrams.entry(session).or_default().append(out);
    }
}
