//! What is to be measured.

use std::time::Duration;

use crate::args::Receivers;
use crate::load::Media;
use crate::process::Queuing;

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The load of every publisher.
    pub(crate) media: Media,
    /// Brokers in a chain; of no account in a world of its own.
    pub(crate) brokers: usize,
    /// Delivery shards of each.
    pub(crate) shards: usize,
    /// How they queue.
    pub(crate) queuing: Queuing,
    /// Who meets where.
    pub(crate) meetings: Vec<Meeting>,
    /// What passive participants do.
    pub(crate) receivers: Receivers,
    /// How long is measured.
    pub(crate) span: Duration,
}

/// One publisher and its receivers.
#[derive(Clone, Debug)]
pub(crate) struct Meeting {
    /// The place where it is published, from 0: a broker, unless the world says otherwise.
    pub(crate) publisher: usize,
    /// Receivers at each place, measured ones included.
    pub(crate) users: Vec<usize>,
    /// The measured ones.
    pub(crate) probes: Vec<Probe>,
}

/// A measured receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Probe {
    /// Its place, from 0.
    pub(crate) broker: usize,
    /// Where in the order of subscription.
    pub(crate) place: Place,
}

/// A place in the order in which a meeting's receivers subscribe at a broker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    /// Before all passive ones.
    First,
    /// Behind this share of the passive ones.
    Inside(f64),
    /// Behind all passive ones.
    Last,
}

impl Place {
    /// The share of passive receivers that subscribe before.
    pub(crate) fn share(self) -> f64 {
        match self {
            Self::First => 0.0,
            Self::Inside(share) => share,
            Self::Last => 1.0,
        }
    }
}

impl Plan {
    /// All receivers.
    pub(crate) fn participants(&self) -> usize {
        self.meetings
            .iter()
            .flat_map(|meeting| &meeting.users)
            .sum()
    }
}

impl Meeting {
    /// A meeting whose receivers are spread over the brokers, first and last of each measured.
    pub(crate) fn measured(publisher: usize, users: Vec<usize>) -> Self {
        let ends = |broker| [Place::First, Place::Last].map(|place| Probe { broker, place });
        let probes = (0..users.len())
            .filter(|b| users[*b] > 0)
            .flat_map(ends)
            .collect();
        Self {
            publisher,
            users,
            probes,
        }
    }

    /// A meeting of which the last of each place is measured.
    pub(crate) fn measured_once(publisher: usize, users: Vec<usize>) -> Self {
        let last = |broker| Probe {
            broker,
            place: Place::Last,
        };
        let probes = (0..users.len())
            .filter(|b| users[*b] > 0)
            .map(last)
            .collect();
        Self {
            publisher,
            users,
            probes,
        }
    }

    /// A meeting that only makes load.
    pub(crate) fn passive(publisher: usize, users: Vec<usize>) -> Self {
        Self {
            publisher,
            users,
            probes: Vec::new(),
        }
    }

    /// Passive receivers at a broker.
    pub(crate) fn passive_at(&self, broker: usize) -> usize {
        let probes = self
            .probes
            .iter()
            .filter(|probe| probe.broker == broker)
            .count();
        self.users[broker].saturating_sub(probes)
    }
}
