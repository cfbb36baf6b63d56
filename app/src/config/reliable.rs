//! What a broker keeps of reliable topics.

use std::path::PathBuf;
use std::time::Duration;

use sangam_node::{ReliableConfig, ReliableLimits};
use serde::{Deserialize, Serialize};

/// Name of the store in the broker's data folder.
const STORE: &str = "reliable.redb";
/// The most records, and MiB, that may be kept of one topic.
const KEEP_EVENTS_MAX: usize = 1_000_000;
const MEMORY_MIB_MAX: usize = 65_536;

/// Reliable topics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Reliable {
    pub(crate) keep: bool,
    pub(crate) durable: bool,
    pub(crate) keep_events: usize,
    pub(crate) keep_seconds: u64,
    pub(crate) topic_mib: usize,
    pub(crate) memory_mib: usize,
    pub(crate) topics: usize,
    pub(crate) gap_seconds: u64,
}

impl Default for Reliable {
    fn default() -> Self {
        let limits = ReliableLimits::default();
        Self {
            keep: true,
            durable: false,
            keep_events: limits.keep_events,
            keep_seconds: limits.keep_for.as_secs(),
            topic_mib: limits.topic_bytes >> 20,
            memory_mib: limits.broker_bytes >> 20,
            topics: limits.topics,
            gap_seconds: limits.gap_after.as_secs(),
        }
    }
}

impl Reliable {
    /// What does not fit, as (key, what to do).
    pub(super) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        let bounds = [
            ("keep_events", self.keep_events, KEEP_EVENTS_MAX),
            ("topic_mib", self.topic_mib, self.memory_mib),
            ("memory_mib", self.memory_mib, MEMORY_MIB_MAX),
            ("topics", self.topics, 1 << 20),
        ];
        for (key, value, max) in bounds {
            if value == 0 || value > max {
                faults.push((key, format!("lies between 1 and {max}")));
            }
        }
        faults
    }

    /// In the broker's words.
    ///
    /// # Errors
    /// Records are to be written, and there is no folder for them.
    pub(crate) fn config(&self, data_dir: Option<&PathBuf>) -> Result<ReliableConfig, String> {
        let store = data_dir.map(|folder| folder.join(STORE));
        if self.durable && store.is_none() {
            return Err("reliable.durable writes to broker.data_dir: name a folder there".into());
        }
        Ok(ReliableConfig {
            keep: self.keep,
            limits: ReliableLimits {
                keep_events: self.keep_events,
                keep_for: Duration::from_secs(self.keep_seconds),
                topic_bytes: self.topic_mib << 20,
                broker_bytes: self.memory_mib << 20,
                topics: self.topics,
                gap_after: Duration::from_secs(self.gap_seconds),
            },
            store: store.filter(|_| self.durable),
        })
    }
}
