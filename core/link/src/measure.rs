//! What pings and pongs tell about a path: round trip, variation of the delay, loss, delivery.
//!
//! A ping says what was sent before it, its pong what had arrived by then, so each pair measures
//! all packets between it and the pair before, and no packet carries a header for that.

use core::time::Duration;
use std::collections::VecDeque;

use sangam_model::Time;
use sangam_wire::Traffic;

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
/// Sent since the last ping before the next one comes early: pings and their answers take 3 % of
/// it at most.
pub(crate) const BUSY_BYTES: u64 = 4_000;

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
    transit: Option<i64>,
    jitter_us: f64,
    loss: Loss,
    /// Of the last pong, until it is taken.
    pub(crate) sample: Option<Sample>,
}

/// A ping that left.
#[derive(Clone, Copy, Debug)]
struct Ping {
    at: Time,
    sent: Traffic,
}

/// A ping and its pong.
#[derive(Clone, Copy, Debug)]
struct Pair {
    ping: Ping,
    peer_us: u64,
    received: Traffic,
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

    /// A ping of `bytes` leaves now; what it says was sent, itself included.
    pub(crate) fn ping(&mut self, now: Time, bytes: usize) -> Traffic {
        self.sent(1, bytes as u64);
        self.sent_at_ping = self.sent.bytes;
        if self.awaited.len() == AWAITED_MAX {
            self.awaited.pop_front();
        }
        self.awaited.push_back(Ping {
            at: now,
            sent: self.sent,
        });
        self.sent
    }

    /// The answer to the ping of `echo` came: the peer wrote it at `peer_us` of its clock, after
    /// it had `received` so much.
    pub(crate) fn pong(&mut self, now: Time, echo: Time, (peer_us, received): (u64, Traffic)) {
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
        let arrived = received.packets.saturating_sub(last.received.packets);
        let lost = self.loss.note(now, packets, arrived);
        self.sample = Some(Sample {
            rtt: now - echo,
            one_way_us,
            sent_over: ping.at - last.ping.at,
            delivered_over: Duration::from_micros(peer_us.saturating_sub(last.peer_us)),
            sent: ping.sent.bytes - last.ping.sent.bytes,
            delivered: received.bytes.saturating_sub(last.received.bytes),
            packets,
            lost,
        });
    }

    /// How many of the usual pings the answer to the one of `echo` stands for.
    pub(crate) fn weight(&self, echo: Time) -> u32 {
        let apart = self.last.map_or(Duration::ZERO, |last| echo - last.ping.at);
        (apart.as_micros() / APART.as_micros()).clamp(1, WEIGHT_MAX) as u32
    }

    /// Since when the oldest ping has been without an answer.
    pub(crate) fn awaits_since(&self) -> Option<Time> {
        self.awaited.front().map(|ping| ping.at)
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
