//! The thread that sends.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Weak};
use std::time::Duration;

use sangam_archive::films::{Curve, Film, Films};
use sangam_io::clock;
use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::timer::Wheel;
use sangam_io::udp::{SendBatch, UdpSocket};
use sangam_io::wake::{Sleeper, Waker};
use sangam_model::Time;

use super::gate::Gate;
use super::order::{Order, Pace, Play, local_source};
use super::outbox::{Destination, Outbox};
use super::reads::{Got, Reads};
use super::repeat::{Lost, Repeated, Repeats};
use super::stream::Stream;
use super::{Ended, Key, Totals};
use crate::pace::wall;

/// Timers fire up to this late.
const TICK: Duration = Duration::from_millis(2);
/// Packets gathered before they are sent.
const GATHER: usize = 512;
/// The films of a front that is not heard of for so long stop: it is gone.
const FRONT_WAIT: Duration = Duration::from_secs(3);
const SWEEP: Duration = Duration::from_millis(500);
/// Films sent at once by one node; beyond, orders are refused.
pub(super) const STREAMS_MAX: usize = 16_384;

/// Lost packets that are looked for before films have their turn again: a client that asks for very
/// many delays nobody.
const LOOKS: usize = 1_024;

/// Whether there is more to be heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    All,
    Some,
    End,
}

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Command {
    /// By a front: its number, its address as the client knows it if it is this node, and what.
    Order(u32, Option<IpAddr>, Box<Order>),
    /// A front is there.
    Heard(u32),
    /// A client lost packets of a source.
    Lost(IpAddr, u32, Vec<u16>),
    /// A block was read.
    Got(Got),
    /// That was all.
    End,
}

/// A timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Timer {
    Stream(Key),
    Sweep,
}

/// Sockets of one family.
#[derive(Clone, Debug)]
pub(crate) struct Sockets {
    pub(crate) rtp: Arc<UdpSocket>,
    pub(crate) rtcp: Arc<UdpSocket>,
}

/// All that the thread owns.
pub(super) struct Work {
    pub(super) films: Arc<Films>,
    pub(super) sockets: Vec<Sockets>,
    pub(super) inbox: Receiver<Command>,
    pub(super) ended: (Sender<Ended>, Waker),
    pub(super) totals: Arc<Totals>,
    pub(super) reads: Reads,
    pub(super) sleeper: Sleeper,
    poller: Poller,
    wheel: Wheel<Timer>,
    streams: HashMap<Key, (Stream, Repeats)>,
    /// Whose the numbers of a source are.
    sources: HashMap<u32, (Key, bool)>,
    curves: HashMap<(u64, Pace), Weak<Curve>>,
    fronts: HashMap<u32, Time>,
    batch: SendBatch,
    out: Outbox,
    /// Packets and bytes of `out` that the gate knows of.
    passed: (usize, usize),
    gate: Gate,
    /// Films that wait for the gate, the one that is due first first.
    waiting: BinaryHeap<(Reverse<Time>, Key)>,
}

/// What a [`Work`] is made of.
pub(super) struct Parts {
    pub(super) films: Arc<Films>,
    pub(super) sockets: Vec<Sockets>,
    /// Bits in a second that are sent at most.
    pub(super) limit: Option<u64>,
    pub(super) inbox: Receiver<Command>,
    pub(super) ended: (Sender<Ended>, Waker),
    pub(super) totals: Arc<Totals>,
    pub(super) reads: Reads,
    pub(super) sleeper: Sleeper,
}

impl Work {
    pub(super) fn new(parts: Parts) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(parts.sleeper.fd(), 0, Interest::Read)?;
        let now = clock::now();
        let mut wheel = Wheel::with_tick(now, TICK);
        wheel.set(Timer::Sweep, now + SWEEP);
        Ok(Self {
            films: parts.films,
            sockets: parts.sockets,
            inbox: parts.inbox,
            ended: parts.ended,
            totals: parts.totals,
            reads: parts.reads,
            sleeper: parts.sleeper,
            poller,
            wheel,
            streams: HashMap::new(),
            sources: HashMap::new(),
            curves: HashMap::new(),
            fronts: HashMap::new(),
            batch: SendBatch::new(),
            out: Outbox::default(),
            passed: (0, 0),
            gate: Gate::new(parts.limit),
            waiting: BinaryHeap::new(),
        })
    }

    /// Until it is told to end.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(1);
        let mut due = Vec::new();
        loop {
            self.sleeper.arm();
            let heard = self.listen();
            let now = clock::now();
            let timeout = match heard {
                Heard::Some => Some(Duration::ZERO),
                _ => self.wakes().map(|at| at.since(now)),
            };
            let waited = self.poller.wait(&mut events, timeout);
            self.sleeper.disarm();
            if heard == Heard::End {
                return;
            }
            if let Err(error) = waited {
                tracing::error!(%error, "films are not sent any more");
                return;
            }
            let now = clock::now();
            self.wheel.expired(now, &mut due);
            for timer in due.drain(..) {
                match timer {
                    Timer::Stream(key) => self.turn(key, now),
                    Timer::Sweep => self.sweep(now),
                }
            }
            self.pass(now);
            self.flush();
        }
    }

    fn wakes(&self) -> Option<Time> {
        let gate = self.waiting.peek().map(|_| self.gate.opens());
        let timer = self.wheel.deadline();
        gate.into_iter().chain(timer).min()
    }

    /// Lets films that wait have their turn, as long as the gate is open.
    fn pass(&mut self, now: Time) {
        while self.gate.is_open(now)
            && let Some((_, key)) = self.waiting.pop()
        {
            if let Some((stream, _)) = self.streams.get_mut(&key) {
                stream.waits = false;
                self.send(key, now);
            }
        }
    }

    /// Does what it was told.
    fn listen(&mut self) -> Heard {
        let now = clock::now();
        let (mut heard, mut looks) = (Heard::All, 0);
        while let Ok(command) = self.inbox.try_recv() {
            match command {
                Command::Order(front, from, order) => self.order((front, from), *order, now),
                Command::Heard(front) => drop(self.fronts.insert(front, now)),
                Command::Lost(peer, source, numbers) => {
                    let count = numbers.len();
                    self.totals
                        .waiting
                        .fetch_sub(count as u64, Ordering::AcqRel);
                    self.lost(peer, source, &numbers, now);
                    looks += count;
                }
                Command::Got(got) => self.got(&got, now),
                Command::End => return Heard::End,
            }
            if looks >= LOOKS {
                heard = Heard::Some;
                break;
            }
        }
        self.flush();
        heard
    }

    fn order(&mut self, (front, from): (u32, Option<IpAddr>), order: Order, now: Time) {
        self.fronts.insert(front, now);
        match order {
            Order::Play(play) => {
                let key = (front, play.session);
                if let Err(error) = self.play(key, from, *play, now) {
                    self.totals.failed.one();
                    tracing::warn!(%error, "a film cannot be sent");
                }
            }
            Order::Rate {
                session,
                now: moment,
                rate,
            } => {
                let key = (front, session);
                if let Some((stream, _)) = self.streams.get_mut(&key) {
                    stream.set_pace(moment, rate, now);
                    self.totals.rates.one();
                    self.turn(key, now);
                }
            }
            Order::Pause { session } => {
                if let Some((stream, _)) = self.streams.get_mut(&(front, session)) {
                    stream.is_paused = true;
                }
            }
            Order::Stop { session } => self.stop((front, session)),
        }
    }

    fn play(
        &mut self,
        key: Key,
        from: Option<IpAddr>,
        play: Play,
        now: Time,
    ) -> Result<(), String> {
        let film = self
            .films
            .film(play.film)
            .map_err(|error| error.to_string())?;
        let view = self.films.view().map_err(|error| error.to_string())?;
        let curve = self.curve(&film, play.pace);
        let node = self.films.own_node();
        let parts = (film, curve, Arc::new(view));
        if !self.streams.contains_key(&key) && self.streams.len() >= STREAMS_MAX {
            return Err("too many films at once".to_owned());
        }
        self.sources.insert(play.ssrc, (key, false));
        self.sources
            .insert(local_source(play.ssrc, node), (key, true));
        match self.streams.get_mut(&key) {
            Some((stream, _)) => stream.change(play, parts, now),
            None => {
                let repeats = Repeats::new(play.ssrc as u16);
                let stream = Stream::new(play, parts, (node, from), now);
                self.streams.insert(key, (stream, repeats));
            }
        }
        self.turn(key, now);
        Ok(())
    }

    /// One curve for all who are sent a film by it.
    fn curve(&mut self, film: &Arc<Film>, pace: Pace) -> Arc<Curve> {
        let name = (film.object.id, pace);
        if let Some(curve) = self.curves.get(&name).and_then(Weak::upgrade) {
            return curve;
        }
        let curve = Arc::new(pace.curve(film));
        self.curves.retain(|_, curve| curve.strong_count() > 0);
        self.curves.insert(name, Arc::downgrade(&curve));
        curve
    }

    fn stop(&mut self, key: Key) {
        self.wheel.cancel(Timer::Stream(key));
        self.streams.remove(&key);
        self.sources.retain(|_, (owner, _)| *owner != key);
    }

    /// A film has its turn, now or when the gate is open.
    fn turn(&mut self, key: Key, now: Time) {
        if self.waiting.is_empty() && self.gate.is_open(now) {
            return self.send(key, now);
        }
        if let Some((stream, _)) = self.streams.get_mut(&key)
            && !std::mem::replace(&mut stream.waits, true)
        {
            self.waiting.push((Reverse(stream.due()), key));
        }
    }

    /// Sends what is due of a film.
    fn send(&mut self, key: Key, now: Time) {
        let Some((stream, _)) = self.streams.get_mut(&key) else {
            return;
        };
        if let Some(report) = stream.report(now, wall()) {
            say(&self.sockets, stream, &report, &mut self.batch);
        }
        let turn = stream.turn(now, &mut self.out);
        self.totals.late.add(u64::from(turn.late));
        if let Some((block, due)) = turn.wants {
            let wanted = stream.wish((key, block), due);
            if !self.reads.want(wanted) {
                stream.unask();
            }
        }
        if turn.ended {
            // The front knows before the client does: that may end its session at once.
            let (ended, waker) = &self.ended;
            let _ = ended.send(Ended { session: key.1 });
            waker.wake();
            let bye = stream.bye(now, wall());
            say(&self.sockets, stream, &bye, &mut self.batch);
        }
        self.wheel.set(Timer::Stream(key), stream.wakes());
        self.count(now);
        if self.out.len() >= GATHER {
            self.flush();
        }
    }

    /// Tells the gate what leaves.
    fn count(&mut self, now: Time) {
        let (packets, bytes) = self.passed;
        self.passed = (self.out.len(), self.out.bytes());
        let (datagrams, bytes) = (self.passed.0 - packets, self.passed.1 - bytes);
        self.gate.pass(now, datagrams, bytes);
    }

    fn got(&mut self, got: &Got, now: Time) {
        let Some((stream, repeats)) = self.streams.get_mut(&got.key) else {
            return;
        };
        let bytes = got.bytes.as_ref().map(|bytes| &bytes[..]);
        let repeated = repeats.take(stream, (got.block, bytes), &mut self.out);
        self.totals.repeated.add(repeated);
        let is_lost = stream.take(got.block, got.bytes.clone(), now);
        self.totals.failed.add(u64::from(is_lost));
        self.turn(got.key, now);
    }

    /// Sends again what a client lost, if it is the one to whom it was sent.
    fn lost(&mut self, peer: IpAddr, source: u32, numbers: &[u16], now: Time) {
        let found = self.sources.get(&source).copied();
        let stream = found.and_then(|(key, local)| {
            let stream = self.streams.get_mut(&key)?;
            Some((key, local, stream))
        });
        let Some((key, is_local, (stream, repeats))) = stream else {
            self.totals.refused.add(numbers.len() as u64);
            return;
        };
        if stream.play.to.ip().to_canonical() != peer {
            self.totals.refused.add(numbers.len() as u64);
            return;
        }
        let mut wanted: Vec<u64> = Vec::new();
        for number in numbers {
            let lost = match is_local {
                true => Lost::Local(*number),
                false => Lost::Global(*number),
            };
            match repeats.repeat(stream, lost, (now, &mut self.out)) {
                Repeated::Sent => self.totals.repeated.one(),
                Repeated::Refused => self.totals.refused.one(),
                Repeated::Wants(block) if wanted.contains(&block) => {}
                Repeated::Wants(block) => wanted.push(block),
            }
        }
        for block in wanted {
            // What is lost is late already.
            let wanted = stream.wish((key, block), now);
            if !self.reads.want(wanted) {
                repeats.take(stream, (block, None), &mut self.out);
            }
        }
    }

    fn sweep(&mut self, now: Time) {
        self.wheel.set(Timer::Sweep, now + SWEEP);
        let own = self.films.own_node();
        let fronts = &self.fronts;
        let is_gone = |front: u32| {
            let heard = fronts.get(&front).copied();
            front != own && heard.is_none_or(|heard| now.since(heard) > FRONT_WAIT)
        };
        let gone = self.streams.keys().filter(|key| is_gone(key.0));
        let gone: Vec<_> = gone.copied().collect();
        for key in gone {
            self.totals.orphaned.one();
            self.stop(key);
        }
        self.fronts
            .retain(|_, heard| now.since(*heard) <= FRONT_WAIT);
        let streams = self.streams.iter();
        let streams = streams.map(|(key, (stream, _))| (key.0, stream));
        self.totals.measure(own, streams);
    }

    fn flush(&mut self) {
        if self.out.len() == 0 {
            return;
        }
        self.count(clock::now());
        self.passed = (0, 0);
        let sockets: Vec<_> = self.sockets.iter().map(|pair| &*pair.rtp).collect();
        let report = self.out.send(&sockets, &mut self.batch);
        self.totals.packets.add(report.packets);
        self.totals.messages.add(report.messages);
        self.totals.bytes.add(report.bytes);
        self.totals.unsent_full.add(report.would_block);
        self.totals.unsent_failed.add(report.errors);
    }
}

/// Sends RTCP to a stream's client.
fn say(sockets: &[Sockets], stream: &Stream, compound: &[u8], batch: &mut SendBatch) {
    let play = &stream.play;
    let mut sockets = sockets.iter();
    let socket = sockets.find(|pair| pair.rtcp.local_addr().is_ipv6() == play.to.is_ipv6());
    if let Some(pair) = socket {
        let mut to = play.to;
        to.set_port(play.rtcp);
        let mut out = Outbox::default();
        out.raw(Destination::new(to, stream.from()), compound);
        out.send(&[&*pair.rtcp], batch);
    }
}
