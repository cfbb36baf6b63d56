//! What happens to a packet: pure, on whatever time is given.

use std::time::Duration;

use sangam_model::{Random, Time};

use crate::quality::{Delay, Jitter, Loss, Quality, Shape, State};
use crate::random::{below, path_random};

/// One directed path and its state.
#[derive(Clone, Debug)]
pub struct Path {
    quality: Quality,
    /// When it got this quality.
    since: Time,
    random: Random,
    /// The latest of the correlated standard normal values behind the jitter, and its time.
    mood: (f64, Time),
    /// Whether a burst of loss is going on.
    burst: bool,
    /// When the bottleneck has sent all that waits, in nanoseconds.
    free_ns: u64,
    /// Arrival of the last packet that kept its place.
    last: Time,
    /// What it did so far.
    pub counters: Counters,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Arrives {
        /// When.
        at: Time,
        /// Whether a second time as well.
        twice: bool,
    },
    /// It does not.
    Lost(Cause),
}

/// Why a packet does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// [`Quality::loss`], or the trace's.
    Loss,
    /// The bottleneck's queue was full.
    Queue,
    /// It is larger than [`Quality::mtu`]; its sender is told, unless [`Quality::silent`].
    TooBig,
    /// [`State::Blackhole`].
    Blackhole,
    /// [`State::Cut`]; its sender is told.
    Cut,
}

/// Packets of one path since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that came to it.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
    /// Packets that arrived, duplicates included.
    pub arrived: u64,
    /// Their bytes.
    pub arrived_bytes: u64,
    /// Packets that will arrive, or arrived, twice.
    pub duplicated: u64,
    /// Packets that were held back.
    pub reordered: u64,
    /// Lost at random.
    pub lost: u64,
    /// Dropped as the bottleneck's queue was full.
    pub queue_full: u64,
    /// Larger than the MTU.
    pub too_big: u64,
    /// Vanished in a blackhole.
    pub blackholed: u64,
    /// Dropped at a cut.
    pub cut: u64,
}

impl Path {
    /// A path of this quality. Equal seeds and numbers make equal fates.
    #[must_use]
    pub fn new(quality: Quality, seed: u64, number: u64) -> Self {
        let mut random = path_random(seed, number);
        let mood = random.normal();
        Self {
            quality,
            since: Time::ZERO,
            random,
            mood: (mood, Time::ZERO),
            burst: false,
            free_ns: 0,
            last: Time::ZERO,
            counters: Counters::default(),
        }
    }

    /// The quality it has.
    #[must_use]
    pub fn quality(&self) -> &Quality {
        &self.quality
    }

    /// Gives it another quality from now on. What is on its way arrives as it was decided,
    /// unless the path closes.
    pub fn set(&mut self, now: Time, quality: Quality) {
        if quality.delay != self.quality.delay {
            self.since = now;
        }
        self.quality = quality;
    }

    /// Decides about a packet of `len` bytes.
    pub fn handle(&mut self, now: Time, len: usize) -> Fate {
        self.counters.packets += 1;
        self.counters.bytes += len as u64;
        let fate = self.decide(now, len);
        match fate {
            Fate::Lost(cause) => self.count(cause),
            Fate::Arrives { twice, .. } => self.counters.duplicated += u64::from(twice),
        }
        fate
    }

    /// A packet is at the far end: whether it gets out there. A path that closed meanwhile
    /// swallows it.
    pub fn arrive(&mut self, len: usize) -> bool {
        if let Some(cause) = self.closed() {
            self.count(cause);
            return false;
        }
        self.counters.arrived += 1;
        self.counters.arrived_bytes += len as u64;
        true
    }

    fn decide(&mut self, now: Time, len: usize) -> Fate {
        if let Some(cause) = self.closed() {
            return Fate::Lost(cause);
        }
        if len > self.quality.mtu {
            return Fate::Lost(Cause::TooBig);
        }
        let Some(sent) = self.leave_queue(now, len) else {
            return Fate::Lost(Cause::Queue);
        };
        let (delay, more_loss) = match &self.quality.delay {
            Delay::Constant(delay) => (*delay, 0.0),
            Delay::Trace(trace) => {
                let step = trace.at(now - self.since);
                (step.delay, step.loss)
            }
        };
        // What is lost behind the bottleneck has used it.
        if self.is_lost() || self.random.chance(more_loss) {
            return Fate::Lost(Cause::Loss);
        }
        let delay = self.jittered(now, delay);
        let at = self.place(sent + delay);
        let twice = self.random.chance(self.quality.duplicates);
        Fate::Arrives { at, twice }
    }

    fn closed(&self) -> Option<Cause> {
        match self.quality.state {
            State::Open => None,
            State::Blackhole => Some(Cause::Blackhole),
            State::Cut => Some(Cause::Cut),
        }
    }

    /// When the bottleneck has sent the packet's last bit; `None` if its queue is full.
    fn leave_queue(&mut self, now: Time, len: usize) -> Option<Time> {
        let Some(rate) = self.quality.rate else {
            return Some(now);
        };
        let now_ns = now.as_micros() * 1_000;
        let waiting_ns = self.free_ns.saturating_sub(now_ns);
        let waiting = waiting_ns as f64 * rate.bits_per_s as f64 / 8e9;
        if waiting + len as f64 > rate.queue as f64 {
            return None;
        }
        let takes_ns = len as f64 * 8e9 / rate.bits_per_s as f64;
        self.free_ns = now_ns + waiting_ns + takes_ns as u64;
        Some(Time::from_micros(self.free_ns.div_ceil(1_000)))
    }

    fn is_lost(&mut self) -> bool {
        match self.quality.loss {
            Loss::Never => false,
            Loss::Random(share) => self.random.chance(share),
            Loss::Bursts { share, length } => {
                // The chain's share of lost packets is enter / (enter + leave).
                let leave = 1.0 / length;
                let enter = leave * share / (1.0 - share);
                self.burst = if self.burst {
                    !self.random.chance(leave)
                } else {
                    self.random.chance(enter)
                };
                self.burst
            }
        }
    }

    fn jittered(&mut self, now: Time, delay: Duration) -> Duration {
        let Some(jitter) = self.quality.jitter else {
            return delay;
        };
        let z = self.mood(now, jitter.memory);
        let more = jitter.spread.as_secs_f64() * jitter.deviation(z);
        Duration::from_secs_f64((delay.as_secs_f64() + more).max(0.0))
    }

    /// The next value of an Ornstein-Uhlenbeck process: correlated over time and not over
    /// packets, so that it is the same network for slow and fast senders.
    fn mood(&mut self, now: Time, memory: Duration) -> f64 {
        let (before, at) = self.mood;
        let kept = if memory.is_zero() {
            0.0
        } else {
            (-(now - at).as_secs_f64() / memory.as_secs_f64()).exp()
        };
        let z = kept * before + (1.0 - kept * kept).sqrt() * self.random.normal();
        self.mood = (z, now);
        z
    }

    /// Keeps the order, except for those that are to lose their place.
    fn place(&mut self, at: Time) -> Time {
        if let Some(reordering) = self.quality.reordering
            && self.random.chance(reordering.share)
        {
            self.counters.reordered += 1;
            return at.max(self.last) + reordering.by;
        }
        self.last = self.last.max(at);
        self.last
    }

    fn count(&mut self, cause: Cause) {
        let counters = &mut self.counters;
        *match cause {
            Cause::Loss => &mut counters.lost,
            Cause::Queue => &mut counters.queue_full,
            Cause::TooBig => &mut counters.too_big,
            Cause::Blackhole => &mut counters.blackholed,
            Cause::Cut => &mut counters.cut,
        } += 1;
    }
}

impl Jitter {
    /// The deviation, in spreads, that belongs to a standard normal value.
    fn deviation(&self, z: f64) -> f64 {
        match self.shape {
            Shape::Uniform => 2.0 * below(z) - 1.0,
            Shape::Normal => z,
            // `below` of the negative keeps the long tail's digits.
            Shape::Queue => -below(-z).max(f64::MIN_POSITIVE).ln(),
        }
    }
}
