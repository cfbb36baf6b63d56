//! A bottleneck on virtual time, shared by links of ours and by modelled TCP flows; a run replays
//! from its seed.

// Each test file uses its own part.
#![allow(dead_code)]

mod ours;
mod tcp;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use ours::Ours;
use sangam_link::Mode;
use sangam_model::Time;
pub(crate) use tcp::Law;
use tcp::Tcp;

/// Bytes of a data packet.
pub(crate) const PACKET: u64 = 1_200;

/// What the way is like.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    /// Bits each second.
    pub(crate) rate: f64,
    /// Both directions together, without queues.
    pub(crate) rtt: Duration,
    /// Bytes that may wait.
    pub(crate) buffer: u64,
    /// Share of packets lost at random.
    pub(crate) loss: f64,
}

impl Way {
    /// A buffer of so many products of bandwidth and delay, of ten packets at least.
    pub(crate) fn new(mbps: f64, rtt_ms: u64, depth: f64) -> Self {
        let rtt = Duration::from_millis(rtt_ms);
        let product = mbps * 1e6 / 8.0 * rtt.as_secs_f64();
        Self {
            rate: mbps * 1e6,
            rtt,
            buffer: ((product * depth) as u64).max(10 * 1_500),
            loss: 0.0,
        }
    }
}

/// What travels.
#[derive(Clone, Debug)]
enum Load {
    Data(u64),
    Frame(Vec<u8>),
}

enum Event {
    /// At the receiver.
    Arrives(usize, Load, Time),
    /// Back at the sender.
    Returns(usize, Load),
    /// A flow wants to act.
    Wakes(usize),
    Begins(usize),
    Ends(usize),
    Changes(Way),
}

enum Flow {
    Ours(Box<Ours>),
    Tcp(Box<Tcp>),
}

/// One flow as it was.
#[derive(Default)]
pub(crate) struct Record {
    /// Bytes delivered in each second.
    pub(crate) delivered: Vec<u64>,
    /// How long each second's packets waited in the queue: the sum in microseconds, and how many.
    waited: Vec<(u64, u64)>,
    /// Of each second, the mode at its end.
    pub(crate) modes: Vec<Mode>,
}

pub(crate) struct Bottleneck {
    pub(crate) now: Time,
    way: Way,
    flows: Vec<(Flow, bool)>,
    pub(crate) records: Vec<Record>,
    events: BinaryHeap<Reverse<(Time, u64, usize)>>,
    slots: Vec<Option<Event>>,
    free: Vec<usize>,
    count: u64,
    /// When the last byte in the queue will have left.
    busy_until: Time,
    random: u64,
    /// The peers' clocks run so much faster, in millionths.
    pub(crate) drift: i64,
}

impl Bottleneck {
    pub(crate) fn new(way: Way, seed: u64) -> Self {
        Self {
            now: Time::from_millis(1_000),
            way,
            flows: Vec::new(),
            records: Vec::new(),
            events: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            count: 0,
            busy_until: Time::ZERO,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            drift: 0,
        }
    }

    /// One of ours that sends as much as it may.
    pub(crate) fn ours(&mut self, from: u64, to: u64) -> usize {
        self.limited(f64::INFINITY, from, to)
    }

    /// One of ours whose source makes so many bits each second.
    pub(crate) fn limited(&mut self, bps: f64, from: u64, to: u64) -> usize {
        let flow = Flow::Ours(Box::new(Ours::new(self.now, self.way.rtt, bps)));
        self.add(flow, from, to)
    }

    pub(crate) fn tcp(&mut self, law: Law, from: u64, to: u64) -> usize {
        self.add(Flow::Tcp(Box::new(Tcp::new(law))), from, to)
    }

    pub(crate) fn change(&mut self, second: u64, way: Way) {
        self.at(Time::from_millis(1_000 * (second + 1)), Event::Changes(way));
    }

    fn add(&mut self, flow: Flow, from: u64, to: u64) -> usize {
        let id = self.flows.len();
        self.flows.push((flow, false));
        self.records.push(Record::default());
        // Flows do not begin in step.
        let begin =
            Time::from_millis(1_000 * (from + 1)) + Duration::from_micros(7_919 * id as u64);
        self.at(begin, Event::Begins(id));
        self.at(Time::from_millis(1_000 * (to + 1)), Event::Ends(id));
        id
    }

    /// Runs up to a second, counted from the beginning.
    pub(crate) fn run(&mut self, second: u64) {
        self.run_to(Time::from_millis(1_000 * (second + 1)));
    }

    fn run_to(&mut self, end: Time) {
        while let Some(Reverse((at, _, slot))) = self.events.peek().copied() {
            if at > end {
                break;
            }
            self.events.pop();
            self.tick(at);
            self.now = at;
            if let Some(event) = self.slots[slot].take() {
                self.free.push(slot);
                self.happens(event);
            }
        }
        self.tick(end);
        self.now = end;
    }

    /// Mb/s of a flow between two seconds.
    pub(crate) fn rate(&self, id: usize, seconds: core::ops::Range<u64>) -> f64 {
        let range = seconds.start as usize..seconds.end as usize;
        let time = range.len() as f64;
        let bytes: u64 = range
            .map(|s| self.records[id].delivered.get(s).copied().unwrap_or(0))
            .sum();
        bytes as f64 * 8.0 / time / 1e6
    }

    /// Mean wait in the queue of a flow's packets between two seconds, in ms.
    pub(crate) fn wait(&self, id: usize, seconds: core::ops::Range<u64>) -> f64 {
        let range = seconds.start as usize..seconds.end as usize;
        let of = |s: usize| self.records[id].waited.get(s).copied().unwrap_or((0, 0));
        let (sum, count) = range.map(of).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        sum as f64 / 1_000.0 / (count.max(1) as f64)
    }

    /// The share of seconds that a flow was in a mode.
    pub(crate) fn share_of(&self, id: usize, mode: Mode, seconds: core::ops::Range<u64>) -> f64 {
        let range = seconds.start as usize..seconds.end as usize;
        let modes: Vec<_> = self.records[id]
            .modes
            .iter()
            .skip(range.start)
            .take(range.len())
            .collect();
        modes.iter().filter(|m| ***m == mode).count() as f64 / modes.len().max(1) as f64
    }

    /// The number of packets a flow found lost.
    pub(crate) fn mode(&self, id: usize) -> Option<Mode> {
        match &self.flows[id].0 {
            Flow::Ours(ours) => Some(ours.mode()),
            Flow::Tcp(_) => None,
        }
    }

    pub(crate) fn allowed(&self, id: usize) -> f64 {
        match &self.flows[id].0 {
            Flow::Ours(ours) => ours.allowed(),
            Flow::Tcp(_) => 0.0,
        }
    }

    /// Notes the modes at the end of each second that passes.
    fn tick(&mut self, to: Time) {
        let mut second = self.now.as_micros() / 1_000_000;
        while second < to.as_micros() / 1_000_000 {
            second += 1;
            for (record, (flow, _)) in self.records.iter_mut().zip(&self.flows) {
                if let Flow::Ours(ours) = flow {
                    record.modes.resize(second as usize - 1, ours.mode());
                }
            }
        }
    }

    fn at(&mut self, at: Time, event: Event) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(event);
        self.count += 1;
        self.events.push(Reverse((at, self.count, slot)));
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Begins(id) => {
                self.flows[id].1 = true;
                if let Flow::Ours(ours) = &mut self.flows[id].0 {
                    **ours = Ours::new(self.now, self.way.rtt, ours.source());
                }
                self.wake(id);
            }
            Event::Ends(id) => self.flows[id].1 = false,
            Event::Changes(way) => self.way = way,
            Event::Wakes(id) => self.wake(id),
            Event::Arrives(id, load, sent) => self.arrives(id, load, sent),
            Event::Returns(id, load) => {
                match (&mut self.flows[id].0, load) {
                    (Flow::Ours(ours), Load::Frame(bytes)) => ours.returned(self.now, &bytes),
                    (Flow::Tcp(tcp), Load::Data(number)) => tcp.acknowledged(self.now, number),
                    _ => {}
                }
                self.act(id);
            }
        }
    }

    fn wake(&mut self, id: usize) {
        if !self.flows[id].1 {
            return;
        }
        self.act(id);
        let next = match &mut self.flows[id].0 {
            Flow::Ours(ours) => ours.wakes(),
            Flow::Tcp(tcp) => tcp.wakes(self.now),
        };
        self.at(
            next.max(self.now + Duration::from_micros(1)),
            Event::Wakes(id),
        );
    }

    fn act(&mut self, id: usize) {
        if !self.flows[id].1 {
            return;
        }
        loop {
            let load = match &mut self.flows[id].0 {
                Flow::Ours(ours) => ours.next(self.now),
                Flow::Tcp(tcp) => tcp.next(self.now),
            };
            let Some(load) = load else { return };
            self.enqueue(id, load);
        }
    }

    fn enqueue(&mut self, id: usize, load: Load) {
        let bytes = match (&load, &self.flows[id].0) {
            (Load::Data(_), Flow::Ours(_)) => PACKET + 28,
            (Load::Data(_), Flow::Tcp(_)) => 1_500,
            (Load::Frame(bytes), _) => bytes.len() as u64 + 28,
        };
        let waits = self.busy_until - self.now;
        let queued = waits.as_secs_f64() * self.way.rate / 8.0;
        let lost = self.roll() < self.way.loss;
        if lost || queued + bytes as f64 > self.way.buffer as f64 {
            return;
        }
        let takes = Duration::from_secs_f64(bytes as f64 * 8.0 / self.way.rate);
        self.busy_until = self.busy_until.max(self.now) + takes;
        let arrives = self.busy_until + self.way.rtt / 2;
        self.at(arrives, Event::Arrives(id, load, self.now));
    }

    fn arrives(&mut self, id: usize, load: Load, sent: Time) {
        let half = self.way.rtt / 2;
        let bytes = match (&load, &self.flows[id].0) {
            (Load::Data(_), Flow::Ours(_)) => PACKET,
            (Load::Data(_), Flow::Tcp(_)) => 1_448,
            (Load::Frame(_), _) => 0,
        };
        let second = (self.now.as_micros() / 1_000_000 - 1) as usize;
        let record = &mut self.records[id];
        if record.delivered.len() <= second {
            record.delivered.resize(second + 1, 0);
            record.waited.resize(second + 1, (0, 0));
        }
        record.delivered[second] += bytes;
        if bytes > 0 {
            let waited = (self.now - sent).saturating_sub(half);
            record.waited[second].0 += waited.as_micros() as u64;
            record.waited[second].1 += 1;
        }
        let drift = self.drift;
        let answer = match (&mut self.flows[id].0, load) {
            (Flow::Ours(ours), Load::Data(_)) => {
                ours.arrived(self.now, drift);
                None
            }
            (Flow::Ours(ours), Load::Frame(bytes)) => ours.answer(self.now, drift, &bytes),
            (Flow::Tcp(_), load) => Some(load),
        };
        if let Some(load) = answer {
            self.at(self.now + half, Event::Returns(id, load));
        }
    }

    /// xorshift64*, from 0 to 1.
    fn roll(&mut self) -> f64 {
        let mut x = self.random;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random = x;
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Jain's index of fairness.
pub(crate) fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    sum * sum / (rates.len() as f64 * squares)
}
