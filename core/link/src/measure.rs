//! What pings and pongs tell about a path: round trip, variation of the delay, loss, delivery.
//!
//! Whoever sends a ping or an echo remembers what was sent before it, and is told what had arrived
//! by then, so each pair measures all packets between it and the pair before, and no packet carries
//! a header for that.

use core::time::Duration;
use std::collections::VecDeque;

use sangam_model::Time;
use sangam_wire::{Heard, Traffic};

/// Pings whose answers are awaited: two seconds of them. Of older ones an answer says nothing.
const AWAITED_MAX: usize = 80;
/// Loss is that of this time and up to as much before it,
const LOSS_SPAN: Duration = Duration::from_secs(4);
/// and of at least so many packets: where a few pings are all that is sent, one that is lost says
/// little. At four a second this takes 25 s.
const LOSS_PACKETS: u64 = 100;
/// Pings were so far apart where they were fewest. What is smoothed forgets as fast, however far
/// apart they are,
const APART: Duration = Duration::from_millis(50);
/// up to this: a single one is to weigh no more than so many.
const WEIGHT_MAX: u128 = 4;
/// More packets that were only late are not believed.
const LATE_MAX: i64 = 1_024;
/// Packets of which the mean is longer may not pass a path that has become narrower.
const LONG: u64 = 1_000;
/// Sent since the last ping before the next one comes early: pings and their answers take 1.6 % of
/// it at most.
pub(crate) const BUSY_BYTES: u64 = 8_000;

/// What one answered ping says about the time since the answered ping before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// From the ping to its pong.
    pub rtt: Duration,
    /// From us to the peer in microseconds, by both clocks: only its changes mean something.
    pub one_way_us: i64,
    /// Between the two pings as they left.
    pub sent_over: Duration,
    /// Between the two pings as they arrived.
    pub delivered_over: Duration,
    /// Bytes that left between the two.
    pub sent: u64,
    /// Bytes that arrived between the two.
    pub delivered: u64,
    /// Packets that left between the two.
    pub packets: u64,
    /// Packets of them that did not arrive.
    pub lost: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) sent: Traffic,
    pub(crate) received: Traffic,
    /// Bytes of what was sent in long packets.
    pub(crate) long: u64,
    /// Bytes sent before the last ping.
    sent_at_ping: u64,
    awaited: VecDeque<Ping>,
    last: Option<Pair>,
    /// Where both ends ask and answer by echoes, in place of pings and pongs.
    pub(crate) echoes: Option<Echoes>,
    transit: Option<i64>,
    jitter_us: f64,
    loss: Loss,
    /// Of the last pong, until it is taken.
    pub(crate) sample: Option<Sample>,
}

/// A ping that left, or an echo.
#[derive(Clone, Copy, Debug)]
struct Ping {
    at: Time,
    sent: Traffic,
    /// It is to be answered at once.
    asks: bool,
}

/// What is kept to echo.
#[derive(Debug, Default)]
pub(crate) struct Echoes {
    /// The peer's latest, to be told of by our next.
    stamp: Option<Stamp>,
    /// It wants to be answered.
    owes: bool,
}

/// An echo that came.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    /// Its time, by the peer's clock.
    peer_us: u64,
    came: Time,
    /// What had come by then, it included.
    received: Traffic,
}

/// What the peer tells of a ping or an echo that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// When that had left.
    pub(crate) echo: Time,
    /// When it came, by the peer's clock.
    pub(crate) peer_us: u64,
    /// The answer left so much later.
    pub(crate) held: Duration,
    /// What had come by then, if the peer measures.
    pub(crate) received: Option<Arrived>,
}

/// What arrived at the peer, modulo 2^32.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    packets: u32,
    bytes: u32,
}

impl From<Traffic> for Arrived {
    fn from(traffic: Traffic) -> Self {
        Self {
            packets: traffic.packets as u32,
            bytes: traffic.bytes as u32,
        }
    }
}

impl From<Heard> for Arrived {
    fn from(heard: Heard) -> Self {
        Self {
            packets: heard.packets,
            bytes: heard.bytes,
        }
    }
}

/// A ping and its pong.
#[derive(Clone, Copy, Debug)]
struct Pair {
    ping: Ping,
    peer_us: u64,
    received: Arrived,
}

#[derive(Debug, Default)]
struct Loss {
    /// Zero or less: packets that were counted as lost and came after all, overtaken by a ping.
    /// The next losses are not counted for them.
    late: i64,
    /// `(packets, lost)` of this span and the one before.
    spans: [(u64, u64); 2],
    since: Time,
}

impl Meter {
    /// A packet left; whether so much did that a ping is due early.
    #[inline]
    pub(crate) fn sent(&mut self, packets: u64, bytes: u64) -> bool {
        self.sent.packets += packets;
        self.sent.bytes += bytes;
        if bytes > packets * LONG {
            self.long += bytes;
        }
        self.sent.bytes - self.sent_at_ping >= BUSY_BYTES
    }

    #[inline]
    pub(crate) fn received(&mut self, bytes: usize) {
        self.received.packets += 1;
        self.received.bytes += bytes as u64;
    }

    /// A ping of `bytes` leaves now, or an echo; what was sent, itself included.
    pub(crate) fn ping(&mut self, now: Time, bytes: usize, asks: bool) -> Traffic {
        self.sent(1, bytes as u64);
        if asks {
            self.sent_at_ping = self.sent.bytes;
        }
        if self.awaited.len() == AWAITED_MAX {
            self.awaited.pop_front();
        }
        self.awaited.push_back(Ping {
            at: now,
            sent: self.sent,
            asks,
        });
        self.sent
    }

    /// When the echo left of which these are the low bits; `None` if nothing is awaited of it.
    pub(crate) fn stamped(&self, echo_us: u32) -> Option<Time> {
        let mut stamps = self.awaited.iter().map(|ping| ping.at);
        stamps.find(|at| at.as_micros() as u32 == echo_us)
    }

    /// The answer to the ping of `echo` came, and says what had been received before it.
    pub(crate) fn answered(&mut self, now: Time, answer: &Answer, received: Arrived) {
        let &Answer { echo, peer_us, .. } = answer;
        let Some(index) = self.awaited.iter().position(|ping| ping.at == echo) else {
            return;
        };
        let Some(ping) = self.awaited.drain(..=index).next_back() else {
            return;
        };
        let pair = Pair {
            ping,
            peer_us,
            received,
        };
        let one_way_us = peer_us.wrapping_sub(echo.as_micros()).cast_signed();
        let weight = self.weight(echo);
        self.vary(one_way_us, weight);
        let Some(last) = self.last.replace(pair) else {
            return;
        };
        let packets = ping.sent.packets - last.ping.sent.packets;
        let arrived = received.packets.wrapping_sub(last.received.packets);
        let lost = self.loss.note(now, packets, arrived.into());
        let delivered = received.bytes.wrapping_sub(last.received.bytes);
        self.sample = Some(Sample {
            rtt: answer.rtt(now),
            one_way_us,
            sent_over: ping.at - last.ping.at,
            delivered_over: Duration::from_micros(peer_us.saturating_sub(last.peer_us)),
            sent: ping.sent.bytes - last.ping.sent.bytes,
            delivered: delivered.into(),
            packets,
            lost,
        });
    }

    /// How many of the usual pings the answer to the one of `echo` stands for.
    pub(crate) fn weight(&self, echo: Time) -> u32 {
        let apart = self.last.map_or(Duration::ZERO, |last| echo - last.ping.at);
        (apart.as_micros() / APART.as_micros()).clamp(1, WEIGHT_MAX) as u32
    }

    /// Since when the oldest question has been without an answer.
    pub(crate) fn awaits_since(&self) -> Option<Time> {
        let mut asked = self.awaited.iter().filter(|ping| ping.asks);
        asked.next().map(|ping| ping.at)
    }

    pub(crate) fn jitter(&self) -> Duration {
        Duration::from_micros(self.jitter_us as u64)
    }

    pub(crate) fn loss_ppm(&self) -> u32 {
        let [(packets, lost), (before, lost_before)] = self.loss.spans;
        let ppm = (lost + lost_before) * 1_000_000 / (packets + before).max(1);
        ppm.min(1_000_000) as u32
    }

    fn vary(&mut self, transit: i64, weight: u32) {
        if let Some(before) = self.transit.replace(transit) {
            let change = transit.abs_diff(before).min(10_000_000) as f64;
            for _ in 0..weight {
                self.jitter_us += (change - self.jitter_us) / 16.0;
            }
        }
    }
}

impl Echoes {
    /// An echo of the peer's came, and may want to be answered.
    pub(crate) fn came(&mut self, now: Time, peer_us: u64, (asks, received): (bool, Traffic)) {
        self.owes |= asks;
        if self.stamp.is_none_or(|last| peer_us > last.peer_us) {
            self.stamp = Some(Stamp {
                peer_us,
                came: now,
                received,
            });
        }
    }

    /// Whether an answer is due, which leaves now.
    pub(crate) fn pays(&mut self) -> bool {
        core::mem::take(&mut self.owes)
    }

    /// What an echo tells that leaves now.
    pub(crate) fn heard(&self, now: Time) -> Option<Heard> {
        let stamp = self.stamp?;
        Some(Heard {
            echo_us: stamp.peer_us as u32,
            held_us: u32::try_from((now - stamp.came).as_micros()).unwrap_or(u32::MAX),
            packets: stamp.received.packets as u32,
            bytes: stamp.received.bytes as u32,
        })
    }
}

impl Answer {
    /// From the ping to its answer, without what the peer held it.
    pub(crate) fn rtt(&self, now: Time) -> Duration {
        (now - self.echo).saturating_sub(self.held)
    }
}

impl Loss {
    /// Takes what left and what arrived of it; how many are lost.
    fn note(&mut self, now: Time, packets: u64, arrived: u64) -> u64 {
        if now - self.since >= LOSS_SPAN && self.spans[0].0 >= LOSS_PACKETS {
            self.spans = [(0, 0), self.spans[0]];
            self.since = now;
        }
        let missing = i64::try_from(packets).unwrap_or(i64::MAX / 4)
            - i64::try_from(arrived).unwrap_or(i64::MAX / 4);
        let owed = (self.late + missing).max(-LATE_MAX);
        self.late = owed.min(0);
        let lost = owed.max(0).unsigned_abs();
        self.spans[0].0 += packets;
        self.spans[0].1 += lost;
        lost
    }
}
