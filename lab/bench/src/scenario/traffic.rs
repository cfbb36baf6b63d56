//! Everything that was sent, by three accounts: the brokers', the generator's, the kernel's.

use std::sync::atomic::Ordering;

use super::joining::Crowd;
use crate::crowd::{Publishers, Tally};
use crate::error::Error;
use crate::process::{Broker, Metrics, UdpCounters};

/// The three accounts at a moment, or between two.
pub(super) struct Snapshot {
    /// Of each broker.
    pub(super) brokers: Vec<Metrics>,
    /// Messages the generator sent.
    pub(super) messages: u64,
    /// Link frames among them.
    pub(super) frames: u64,
    /// Events that passive participants read.
    pub(super) counted: u64,
    /// The kernel's.
    pub(super) kernel: UdpCounters,
}

impl Snapshot {
    /// Reads all accounts, as close together as it goes.
    ///
    /// # Errors
    /// [`Error::Broker`] if a broker does not answer.
    pub(super) fn take(
        brokers: &[Broker],
        crowd: &Crowd,
        publishers: &Publishers,
    ) -> Result<Self, Error> {
        let brokers = brokers
            .iter()
            .map(Broker::metrics)
            .collect::<Result<_, _>>()?;
        let tallies = || {
            let listeners = crowd.passive.iter().chain([&crowd.probes]);
            listeners
                .map(|listener| &*listener.tally)
                .chain([&*publishers.tally])
        };
        let passive = crowd.passive.iter().map(|listener| &listener.tally.events);
        let counted = passive.map(|events| events.load(Ordering::Relaxed)).sum();
        let sum = |pick: fn(&Tally) -> u64| tallies().map(pick).sum();
        Ok(Self {
            brokers,
            messages: sum(|tally| tally.messages.load(Ordering::Relaxed)),
            frames: sum(|tally| tally.frames.load(Ordering::Relaxed)),
            counted,
            kernel: UdpCounters::now(),
        })
    }

    /// What was sent since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let brokers = self.brokers.iter().zip(&before.brokers);
        Self {
            brokers: brokers.map(|(now, before)| now.since(before)).collect(),
            messages: self.messages - before.messages,
            frames: self.frames - before.frames,
            counted: self.counted - before.counted,
            kernel: self.kernel.since(&before.kernel),
        }
    }

    /// A counter of all brokers together.
    pub(super) fn sum(&self, name: &str) -> f64 {
        self.brokers
            .iter()
            .map(|metrics| metrics.sum(name, ""))
            .sum()
    }
}
