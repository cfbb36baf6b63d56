//! What a path does to packets, in one direction.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::trace::Trace;

/// The longest delay, jitter or hold-back of a path: what is in flight has a bound.
pub const DELAY_MAX: Duration = Duration::from_secs(10);
/// The smallest MTU in bytes: every IPv6 path carries so much (RFC 8200 section 5).
pub const MTU_MIN: usize = 1_280;
/// The MTU in bytes of an ordinary path, and of the sites' devices.
pub const MTU: usize = 1_500;

/// All properties of a directed path. The default is perfect: no delay, no loss, no limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Quality {
    /// One way, before jitter.
    pub delay: Delay,
    /// What is added to the delay.
    pub jitter: Option<Jitter>,
    /// Packets that vanish on the way.
    pub loss: Loss,
    /// Share of packets that arrive twice, 0 to 1.
    pub duplicates: f64,
    /// Packets that others overtake.
    pub reordering: Option<Reordering>,
    /// The bottleneck; `None`: as fast as the machine.
    pub rate: Option<Rate>,
    /// Largest IP packet in bytes, at least [`MTU_MIN`]. A larger one is answered by ICMP
    /// (RFC 1191, RFC 8201), also where IPv4 would permit fragments.
    pub mtu: usize,
    /// A larger one vanishes instead (RFC 2923 section 2.1).
    pub silent: bool,
    /// Whether packets pass at all.
    pub state: State,
}

/// One-way delay.
#[derive(Clone, Debug, PartialEq)]
pub enum Delay {
    /// Always the same.
    Constant(Duration),
    /// As recorded, over and over, from the moment the path gets this quality.
    Trace(Arc<Trace>),
}

/// Variation of the delay. Packets keep their order: one that would overtake waits, as in a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// How the values are distributed.
    pub shape: Shape,
    /// Half width, deviation or mean, as the shape says.
    pub spread: Duration,
    /// How long a value lasts: the correlation of two values falls to 1/e over this span. Zero:
    /// independent from packet to packet.
    pub memory: Duration,
}

/// A distribution of jitter. A delay never becomes negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Even within plus and minus the spread.
    Uniform,
    /// Normal, the spread being its deviation.
    Normal,
    /// Exponential, never negative, the spread being its mean: a queue somewhere on the way.
    Queue,
}

/// Loss at random. Loss by a full queue is [`Rate`]'s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// None.
    #[default]
    Never,
    /// Independent from packet to packet: its share, 0 to 1.
    Random(f64),
    /// In bursts (Gilbert, 1960): all packets of a burst are lost.
    Bursts {
        /// Share of all packets, 0 to below 1.
        share: f64,
        /// Mean length of a burst in packets, at least 1.
        length: f64,
    },
}

/// Packets that are held back, so that others overtake them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reordering {
    /// Their share, 0 to 1.
    pub share: f64,
    /// How long they are held back.
    pub by: Duration,
}

/// A bottleneck with a queue before it; what finds the queue full is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Bits per second, IP headers included.
    pub bits_per_s: u64,
    /// Room of the queue in bytes.
    pub queue: usize,
}

/// Whether packets pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// They do.
    #[default]
    Open,
    /// They vanish, those on their way too, and nobody is told.
    Blackhole,
    /// They vanish, those on their way too, and senders get "destination unreachable".
    Cut,
}

impl Default for Quality {
    fn default() -> Self {
        Self {
            delay: Delay::Constant(Duration::ZERO),
            jitter: None,
            loss: Loss::Never,
            duplicates: 0.0,
            reordering: None,
            rate: None,
            mtu: MTU,
            silent: false,
            state: State::Open,
        }
    }
}

impl Quality {
    /// A path that delays and is perfect otherwise.
    #[must_use]
    pub fn delayed(delay: Duration) -> Self {
        Self {
            delay: Delay::Constant(delay),
            ..Self::default()
        }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// [`Error::Quality`] with the first range that does not hold.
    pub fn check(&self) -> Result<(), Error> {
        let share = |share: f64| (0.0..=1.0).contains(&share);
        let jitter = self.jitter.map_or(Duration::ZERO, |jitter| jitter.spread);
        let reordering = self
            .reordering
            .map_or((0.0, Duration::ZERO), |r| (r.share, r.by));
        let constant = match self.delay {
            Delay::Constant(delay) => delay,
            Delay::Trace(_) => Duration::ZERO,
        };
        let loss = match self.loss {
            Loss::Never => true,
            Loss::Random(lost) => share(lost),
            Loss::Bursts { share, length } => (0.0..1.0).contains(&share) && length >= 1.0,
        };
        let wrong = if !loss {
            "loss lies between 0 and 1, and a burst has at least one packet"
        } else if !share(self.duplicates) || !share(reordering.0) {
            "shares of duplicates and of reordered packets lie between 0 and 1"
        } else if constant.max(jitter).max(reordering.1) > DELAY_MAX {
            "delay, jitter and hold-back are at most 10 s"
        } else if self.rate.is_some_and(|rate| rate.bits_per_s == 0) {
            "a rate of nothing is a blackhole"
        } else if self.mtu < MTU_MIN {
            "an MTU is at least 1280 bytes"
        } else {
            return Ok(());
        };
        Err(Error::Quality(wrong))
    }
}

impl Rate {
    /// A rate whose queue holds `longest` of it.
    #[must_use]
    pub fn with_queue_of(bits_per_s: u64, longest: Duration) -> Self {
        let bytes = bits_per_s as f64 / 8.0 * longest.as_secs_f64();
        Self {
            bits_per_s,
            // One full packet always fits; a queue without room would pass nothing.
            queue: (bytes as usize).max(MTU),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked() {
        assert!(Quality::default().check().is_ok());
        let wrong = [
            Quality {
                loss: Loss::Random(1.5),
                ..Quality::default()
            },
            Quality {
                loss: Loss::Random(f64::NAN),
                ..Quality::default()
            },
            Quality {
                mtu: 576,
                ..Quality::default()
            },
            Quality::delayed(Duration::from_secs(11)),
        ];
        for quality in wrong {
            assert!(quality.check().is_err(), "{quality:?}");
        }
    }

    #[test]
    fn a_queue_in_time_is_a_queue_in_bytes() {
        let rate = Rate::with_queue_of(8_000_000, Duration::from_millis(50));
        assert_eq!(rate.queue, 50_000);
    }
}
