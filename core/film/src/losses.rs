//! What is lost, by the local numbers of each node and by the global ones, and when to ask for it.
//!
//! A node numbers what it sends to one client without gaps. So a gap says at once that something is
//! lost, and who has it (Zimmermann et al. 2004, section 2.6). What a node sent last before others
//! went on shows in the global numbers only; so does what nobody can be asked for by a local
//! number, as its node is gone.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use sangam_model::Time;

use crate::numbers::Numbers;

/// Nodes of one session; beyond, packets are asked for by their global numbers only.
const NODES_MAX: usize = 256;
/// Packets of one node, or of all by their global numbers, that are waited for. Of a longer gap the
/// end is: what was lost first is too late first.
const HOLES_MAX: usize = 4_096;
/// A packet may be overtaken for so long before it counts as lost.
const OVERTAKEN: Duration = Duration::from_millis(10);
/// The same where only the global numbers tell: nodes send independently of each other, in bursts.
const APART: Duration = Duration::from_millis(150);
/// And while it is not played for so long, it is waited for: a full line may make its node late.
const NEAR: Duration = Duration::from_secs(2);
/// But no longer than so: of a film of 45 Mb/s 16 bits name what is up to 7 s old.
const LATE_MAX: Duration = Duration::from_secs(4);
/// Before an answer to a request was seen.
const ROUND_TRIP: Duration = Duration::from_millis(100);
/// Bounds of how long an answer is waited for before it is asked again.
const RETRY_MIN: Duration = Duration::from_millis(30);
const RETRY_MAX: Duration = Duration::from_millis(500);
/// Numbers in one request: one datagram, and what a node repeats at once.
const ASK_MAX: usize = 128;

/// A request to send again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The node, if the numbers are its own; `None`: global numbers, which every node knows.
    pub node: Option<u16>,
    /// Low 16 bits of the numbers, in order.
    pub numbers: Vec<u16>,
}

/// A packet that did not come.
#[derive(Clone, Copy, Debug)]
struct Hole {
    number: u64,
    /// When it was missed.
    since: Time,
    asked: Option<Time>,
    /// What was sent behind it is played then: it is worth nothing any more.
    until: Duration,
}

/// Numbers of one sequence.
#[derive(Debug)]
struct Sequence {
    next: u64,
    holes: VecDeque<Hole>,
}

/// What of one session is lost.
#[derive(Debug)]
pub struct Losses {
    nodes: BTreeMap<u16, Sequence>,
    global: Sequence,
    /// Smoothed time from a request to its answer.
    round_trip: Duration,
    asked: u64,
    repaired: u64,
    missed: u64,
}

impl Losses {
    /// Of a session whose first packet has this global number.
    #[must_use]
    pub const fn new(first: u64) -> Self {
        Self {
            nodes: BTreeMap::new(),
            global: Sequence::new(first),
            round_trip: ROUND_TRIP,
            asked: 0,
            repaired: 0,
            missed: 0,
        }
    }

    /// The film goes on elsewhere, with this global number. Nodes count on.
    pub fn restart(&mut self, first: u64) {
        self.global = Sequence::new(first);
        for node in self.nodes.values_mut() {
            node.holes.clear();
        }
    }

    /// Another session begins, with this global number: nodes count from 0 again.
    pub fn begin(&mut self, first: u64) {
        self.global = Sequence::new(first);
        self.nodes.clear();
    }

    /// Takes the numbers of a packet that is played at `at`.
    pub fn arrive(&mut self, now: Time, gsn: u64, numbers: Option<Numbers>, at: Duration) {
        let mut answered = None;
        if let Some(Numbers {
            node,
            lsn: Some(lsn),
        }) = numbers
        {
            let lsn = u64::from(lsn);
            let room = self.nodes.len() < NODES_MAX;
            if room || self.nodes.contains_key(&node) {
                // A node counts from 0: what is before its first packet is lost.
                let first = || Sequence::new(0);
                let sequence = self.nodes.entry(node).or_insert_with(first);
                let (found, fresh) = sequence.arrive(now, lsn, at);
                answered = found;
                self.missed += fresh;
            }
        }
        let (found, fresh) = self.global.arrive(now, gsn, at);
        if numbers.is_none() {
            self.missed += fresh;
        }
        let asked = answered.or(found).and_then(|hole| hole.asked);
        if let Some(asked) = asked {
            self.repaired += 1;
            self.round_trip = (self.round_trip * 7 + now.since(asked)) / 8;
        }
    }

    /// What is to be asked for now; the film is played to `head`.
    pub fn asks(&mut self, now: Time, head: Duration, mut ask: impl FnMut(Ask)) {
        let retry = (self.round_trip * 3 / 2).clamp(RETRY_MIN, RETRY_MAX);
        let mut asked = 0;
        let mut open = 0;
        for (node, sequence) in &mut self.nodes {
            let numbers = sequence.asks((now, head), (OVERTAKEN, retry), Duration::MAX);
            asked += numbers.len() as u64;
            open += sequence.holes.len();
            for part in numbers.chunks(ASK_MAX) {
                ask(Ask {
                    node: Some(*node),
                    numbers: part.to_vec(),
                });
            }
        }
        // What the nodes' own numbers show is asked for there; give that its time.
        let patience = if open > 0 { APART + retry * 2 } else { APART };
        let numbers = self.global.asks((now, head), (patience, retry), NEAR);
        asked += numbers.len() as u64;
        for part in numbers.chunks(ASK_MAX) {
            ask(Ask {
                node: None,
                numbers: part.to_vec(),
            });
        }
        self.asked += asked;
    }

    /// Packets that were missed, as local numbers tell, or global ones of those that have no other.
    #[must_use]
    pub const fn missed(&self) -> u64 {
        self.missed
    }

    /// Packets asked for, each time counted.
    #[must_use]
    pub const fn asked(&self) -> u64 {
        self.asked
    }

    /// Packets that came after they had been asked for.
    #[must_use]
    pub const fn repaired(&self) -> u64 {
        self.repaired
    }
}

impl Sequence {
    const fn new(next: u64) -> Self {
        Self {
            next,
            holes: VecDeque::new(),
        }
    }

    /// The hole that a packet fills, and how many it leaves before it.
    fn arrive(&mut self, now: Time, number: u64, at: Duration) -> (Option<Hole>, u64) {
        if number < self.next {
            let place = self.holes.binary_search_by_key(&number, |hole| hole.number);
            let hole = place.ok().and_then(|place| self.holes.remove(place));
            return (hole, 0);
        }
        let fresh = number - self.next;
        let first = self.next.max(number.saturating_sub(HOLES_MAX as u64));
        for missing in first..number {
            if self.holes.len() >= HOLES_MAX {
                self.holes.pop_front();
            }
            self.holes.push_back(Hole {
                number: missing,
                since: now,
                asked: None,
                until: at,
            });
        }
        self.next = number + 1;
        (None, fresh)
    }

    /// What is missing for long enough, is played within `near`, and was not asked for just now.
    fn asks(
        &mut self,
        (now, head): (Time, Duration),
        (patience, retry): (Duration, Duration),
        near: Duration,
    ) -> Vec<u16> {
        let mut numbers = Vec::new();
        if self.holes.is_empty() {
            return numbers;
        }
        self.holes.retain_mut(|hole| {
            if hole.until <= head {
                return false;
            }
            let is_due = match hole.asked {
                Some(asked) => now.since(asked) >= retry,
                None => {
                    let missed = now.since(hole.since);
                    let is_near = hole.until <= head.saturating_add(near) || missed >= LATE_MAX;
                    missed >= patience && is_near
                }
            };
            if is_due {
                hole.asked = Some(now);
                numbers.push(hole.number as u16);
            }
            true
        });
        numbers
    }
}
