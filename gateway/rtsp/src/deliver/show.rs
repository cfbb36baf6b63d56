//! A film that is sent by datagrams, as its front sees it.

use std::sync::Arc;
use std::time::Duration;

use sangam_archive::films::{self, Curve, PACKETS};
use sangam_model::Time;

use super::order::{Moment, Order, Pace, Play};
use crate::egress::Onset;
use crate::film::{Blocks, Film};
use crate::player::State;
use crate::session::{Reel, Session};

/// What a client may do to the pace.
pub(crate) const RATES: core::ops::RangeInclusive<f64> = 0.5..=1.5;
/// From an order until the first datagram is due: nodes read its block meanwhile.
const BEGIN: Duration = Duration::from_millis(20);
/// What a node that failed may not have sent before that was noticed.
const UNNOTICED: Duration = Duration::from_secs(1);
/// Numbers left out at a jump, so that none that was sent comes again.
const APART: u64 = 64;
/// A node that refused to take part is asked again after so long.
const SULK: Duration = Duration::from_secs(2);

/// A film and where it is.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) film: Arc<Film>,
    blocks: Arc<films::Film>,
    pub(crate) state: State,
    /// Each node sends what it has.
    pub(crate) is_direct: bool,
    pub(crate) by_rtx: bool,
    pub(crate) pace: Pace,
    curve: Option<Arc<Curve>>,
    /// By the client's messages, and by its wish.
    pub(crate) rate: f64,
    pub(crate) speed: f64,
    until: Option<Duration>,
    first: u64,
    last: u64,
    /// The global number of the film's first datagram.
    gsn: u32,
    base: (Time, Duration),
    /// Who sends.
    pub(crate) nodes: Vec<u32>,
    /// After how many changes of the disks they were chosen.
    pub(crate) changes: u64,
    /// Who refused, and when.
    refused: Vec<(u32, Time)>,
    /// What wound it last, as that may still read.
    pub(crate) wound: Option<Box<Reel>>,
}

/// What a client asked for when it played.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// `None`: where it is.
    pub(crate) from: Option<Duration>,
    /// The very datagram, of a client that has what is before it.
    pub(crate) first: Option<u64>,
    pub(crate) until: Option<Duration>,
    pub(crate) speed: f64,
    /// `None`: as before.
    pub(crate) pace: Option<Pace>,
}

impl Delivery {
    /// One that has not begun, and whose first number is `sequence`; `None` if this is no film in
    /// blocks.
    pub(crate) fn new(
        film: Arc<Film>,
        (is_direct, by_rtx): (bool, bool),
        sequence: u16,
    ) -> Option<Self> {
        let Blocks { film: blocks, .. } = film.blocks.as_ref()?;
        let blocks = blocks.clone();
        Some(Self {
            last: blocks.datagrams(),
            film,
            blocks,
            state: State::Ready,
            is_direct,
            by_rtx,
            pace: match is_direct {
                true => Pace::Clock,
                false => Pace::Smooth(super::requests::BUFFER),
            },
            curve: None,
            rate: 1.0,
            speed: 1.0,
            until: None,
            first: 0,
            gsn: sequence.into(),
            base: (Time::ZERO, Duration::ZERO),
            nodes: Vec::new(),
            changes: 0,
            refused: Vec::new(),
            wound: None,
        })
    }

    /// Plays from now on, sent by these nodes.
    pub(crate) fn start(&mut self, wish: Wish, (nodes, changes): (Vec<u32>, u64), now: Time) {
        let position = self.position(now);
        if let Some(from) = wish.from {
            let first = match wish.first {
                Some(first) => first.min(self.blocks.datagrams().saturating_sub(1)),
                None => self.blocks.index.start(from) / PACKETS as u64,
            };
            // The numbers go on where those of before end.
            let sent = self.gsn.wrapping_add(position as u32);
            let apart = if self.curve.is_some() { APART } else { 0 };
            let next = sent.wrapping_add(apart as u32);
            self.gsn = next.wrapping_sub(first as u32);
            self.first = first;
            self.rate = 1.0;
        } else {
            self.first = position;
        }
        self.pace = wish.pace.unwrap_or(self.pace);
        let curve = Arc::new(self.pace.curve(&self.blocks));
        let begin = match self.pace {
            // What was sent ahead of this place is sent now.
            Pace::Smooth(_) => self.blocks.index.at(self.first * PACKETS as u64),
            _ => curve.at(self.first),
        };
        (self.until, self.speed) = (wish.until, wish.speed);
        self.last = match wish.until {
            None => self.blocks.datagrams(),
            Some(until) => Curve::clock(self.blocks.clone())
                .datagram(until, self.blocks.datagrams())
                .max(self.first),
        };
        self.curve = Some(curve);
        self.base = (now + BEGIN, begin);
        (self.nodes, self.changes) = (nodes, changes);
        self.refused.clear();
        self.state = State::Playing;
    }

    /// Goes on with other nodes; from which datagram on they are to look what is theirs.
    pub(crate) fn share_out(&mut self, (nodes, changes): (Vec<u32>, u64), now: Time) -> u64 {
        (self.nodes, self.changes) = (nodes, changes);
        let before =
            Time::from_micros(now.as_micros().saturating_sub(UNNOTICED.as_micros() as u64));
        self.position(before)
    }

    /// A node does not want to.
    pub(crate) fn refuse(&mut self, node: u32, now: Time) {
        self.refused.push((node, now));
    }

    /// Those of `alive` that take part.
    pub(crate) fn willing(&mut self, alive: &[u32], now: Time) -> Vec<u32> {
        self.refused.retain(|(_, since)| now.since(*since) < SULK);
        let refused = &self.refused;
        let is_willing = |node: &u32| refused.iter().all(|(sulks, _)| sulks != node);
        alive.iter().copied().filter(is_willing).collect()
    }

    /// The order to send, for the node that leads or for others.
    pub(crate) fn order(
        &self,
        session: &Session,
        (number, leads): (u64, bool),
        (since, now): (Option<u64>, Time),
    ) -> Option<Order> {
        let outlet = session.outlets.first()?;
        let play = Play {
            session: number,
            film: self.blocks.object.id,
            to: (session.peer, outlet.pair.0).into(),
            rtcp: outlet.pair.1,
            ssrc: outlet.stream.ssrc(),
            gsn: self.gsn,
            pace: self.pace,
            rate: self.rate * self.speed,
            first: self.first,
            until: self.last,
            now: self.moment(now),
            nodes: match self.is_direct {
                true => self.nodes.clone(),
                false => Vec::new(),
            },
            changes: self.changes,
            since,
            by_rtx: self.by_rtx,
            leads,
        };
        Some(Order::Play(Box::new(play)))
    }

    /// Goes at another rate from now on; which it is.
    pub(crate) fn set_rate(&mut self, rate: f64, now: Time) -> f64 {
        self.base = (now, self.place(now));
        self.rate = rate.clamp(*RATES.start(), *RATES.end());
        self.rate
    }

    /// Where it is on its curve.
    pub(crate) fn moment(&self, now: Time) -> Moment {
        let (due, at) = self.base;
        let ahead = match due > now {
            true => due.since(now).as_micros() as i64,
            false => -(now.since(due).as_micros() as i64),
        };
        Moment {
            at: u64::try_from(at.as_nanos()).unwrap_or(u64::MAX),
            ahead,
        }
    }

    /// Stops where it is.
    pub(crate) fn pause(&mut self, now: Time) {
        self.first = self.position(now);
        self.state = State::Paused;
    }

    /// The number of the packet behind all that was sent.
    pub(crate) fn next(&self, now: Time) -> u16 {
        let apart = if self.curve.is_some() { APART } else { 0 };
        let next = self.position(now) + apart;
        self.gsn.wrapping_add(next as u32) as u16
    }

    /// Was played by somebody else meanwhile: where it is now, and the number that comes next.
    pub(crate) fn rest(&mut self, state: State, (at, sequence): (Duration, u16)) {
        self.first = self.blocks.index.start(at) / PACKETS as u64;
        self.gsn = u32::from(sequence).wrapping_sub(self.first as u32);
        self.state = state;
    }

    /// It came to its end.
    pub(crate) fn end(&mut self) {
        self.first = self.last;
        self.state = State::Ended;
    }

    fn place(&self, now: Time) -> Duration {
        let (due, at) = self.base;
        let pace = self.rate * self.speed;
        match now >= due {
            true => at + now.since(due).mul_f64(pace),
            false => at.saturating_sub(due.since(now).mul_f64(pace)),
        }
    }

    /// The datagram that is due.
    pub(crate) fn position(&self, now: Time) -> u64 {
        match (&self.curve, self.state) {
            (Some(curve), State::Playing) => {
                let at = curve.datagram(self.place(now), self.last);
                at.clamp(self.first, self.last)
            }
            _ => self.first,
        }
    }

    /// Where the film is.
    pub(crate) fn at(&self, now: Time) -> Duration {
        self.time(self.position(now))
    }

    /// Where it began, or will.
    pub(crate) fn begins(&self) -> Duration {
        self.time(self.first)
    }

    fn time(&self, datagram: u64) -> Duration {
        self.blocks.index.at(datagram * PACKETS as u64)
    }

    /// What is played from here on.
    pub(crate) fn range(&self, at: Duration) -> String {
        crate::range::npt(at, self.until.unwrap_or(self.film.length))
    }

    /// Where it ends.
    pub(crate) fn ends(&self) -> Duration {
        self.until.unwrap_or(self.film.length)
    }

    /// The numbers of a datagram.
    fn onset(&self, datagram: u64) -> Onset {
        let ticks = self.time(datagram).as_nanos() * 90_000 / 1_000_000_000;
        Onset {
            sequence: self.gsn.wrapping_add(datagram as u32) as u16,
            timestamp: ticks as u32,
        }
    }

    /// Those of the first, and of the one behind the last.
    pub(crate) fn onsets(&self) -> (Onset, Onset) {
        (self.onset(self.first), self.onset(self.last))
    }

    /// What the header `Sangam-Play` has.
    pub(crate) fn numbers(&self) -> String {
        let gsn = self.gsn.wrapping_add(self.first as u32);
        let (first, rate) = (self.first, self.rate);
        format!("gsn={gsn};datagram={first};rate={rate:.3}")
    }

    /// Bits in a second that each node that takes part sends of it.
    pub(crate) fn bits(&self) -> u64 {
        super::bits_of(&self.blocks) / self.nodes.len().max(1) as u64
    }

    /// What the header `Sangam-Film` has.
    pub(crate) fn about(&self) -> String {
        let (all, block) = (self.blocks.datagrams(), self.blocks.in_block());
        let seconds = self.film.length.as_secs_f64();
        format!("datagrams={all};block={block};seconds={seconds:.3}")
    }
}
