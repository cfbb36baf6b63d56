//! Counters: each belongs to one thread, which alone writes it, so that counting is a plain store.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sangam_broker::DropReason;
use sangam_io::port::Delivery;
use sangam_model::Class;

/// A number that one thread raises and any thread reads.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Raises the number; only its own thread may.
    pub(crate) fn add(&self, n: u64) {
        // A load and a store instead of fetch_add: no locked instruction, as nobody else writes.
        self.0.store(self.0.load(Relaxed) + n, Relaxed);
    }

    /// Lowers a number that stands for what is there now.
    pub(crate) fn sub(&self, n: u64) {
        self.0.store(self.0.load(Relaxed) - n, Relaxed);
    }

    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Traffic of one kind.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) packets: Counter,
    pub(crate) messages: Counter,
    pub(crate) bytes: Counter,
}

/// Groups that neighbours of a segment have.
#[derive(Debug, Default)]
pub(crate) struct LinkGroups {
    /// Groups in use, and neighbours that hear one, each as often as it hears one.
    pub(crate) groups: Counter,
    pub(crate) listeners: Counter,
    /// Events sent to groups, and as how many they were heard.
    pub(crate) packets: Counter,
    pub(crate) deliveries: Counter,
    /// Events taken from groups, and those of groups that are not believed.
    pub(crate) received: Counter,
    pub(crate) ignored: Counter,
    /// Times a neighbour stopped hearing a group, and events that went to it once more.
    pub(crate) falls: Counter,
    pub(crate) again: Counter,
    /// Events that could not be kept for that as long as they might have been asked for.
    pub(crate) forgotten: Counter,
    /// Sets of neighbours for which there was no group left.
    pub(crate) refusals: Counter,
}

/// What one thread counts.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Counters {
    /// Events taken from clients, legs and neighbours, by class.
    pub(crate) received: [Counter; Class::ALL.len()],
    /// Events sent to neighbours.
    pub(crate) relayed: Traffic,
    /// Events sent to local subscribers.
    pub(crate) delivered: Traffic,
    /// Link frames received.
    pub(crate) frames: Counter,
    /// Events nobody here or beyond wants.
    pub(crate) unwanted: Counter,
    /// NACKed events answered from the cache.
    pub(crate) repaired: Counter,
    /// Groups in use, and clients that hear one, each as often as it hears one.
    pub(crate) groups: Counter,
    pub(crate) group_listeners: Counter,
    /// Events sent to groups, and as how many they were heard.
    pub(crate) group_packets: Counter,
    pub(crate) group_deliveries: Counter,
    /// Times a client stopped hearing a group.
    pub(crate) group_falls: Counter,
    /// Streams or clients for which there was no group left.
    pub(crate) group_refusals: Counter,
    /// The same of links, boxed as only the lane has any.
    pub(crate) link_groups: Box<LinkGroups>,
    /// Peers now.
    pub(crate) peers: Counter,
    /// Times the thread went to sleep.
    pub(crate) sleeps: Counter,
    drops: [Counter; DropReason::ALL.len()],
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            received: Default::default(),
            relayed: Traffic::default(),
            delivered: Traffic::default(),
            frames: Counter::default(),
            unwanted: Counter::default(),
            repaired: Counter::default(),
            groups: Counter::default(),
            group_listeners: Counter::default(),
            group_packets: Counter::default(),
            group_deliveries: Counter::default(),
            group_falls: Counter::default(),
            group_refusals: Counter::default(),
            link_groups: Box::default(),
            peers: Counter::default(),
            sleeps: Counter::default(),
            drops: [const { Counter(AtomicU64::new(0)) }; DropReason::ALL.len()],
        }
    }
}

impl Counters {
    pub(crate) fn dropped(&self, reason: DropReason) {
        self.dropped_many(reason, 1);
    }

    pub(crate) fn dropped_many(&self, reason: DropReason, n: u64) {
        self.drops[reason as usize].add(n);
    }

    pub(crate) fn delivery(&self, done: &Delivery) {
        self.delivered.packets.add(done.packets);
        self.delivered.messages.add(done.messages);
        self.delivered.bytes.add(done.bytes);
        self.dropped_many(DropReason::PeerQueueFull, done.peer_full);
        self.dropped_many(DropReason::SendError, done.errors);
    }

    pub(crate) fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize].get()
    }
}

/// One measured value, in Prometheus' terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Metric name, such as `sangam_delivered_packets_total`.
    pub name: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// Whether the value only rises.
    pub counter: bool,
    /// Label names and values.
    pub labels: Vec<(&'static str, String)>,
    /// The value now.
    pub value: f64,
}
