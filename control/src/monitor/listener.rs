//! Hears reports through any client of any broker.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sangam_client::{Client, ClientError, Received};
use sangam_model::{BrokerId, Filter, StreamId, Topic};
use sangam_wire::{Event, Refusal};

use super::parts::{Joiner, Part};
use super::report::{BrokerReport, parse_id};
use super::{AGGREGATES, MEASURED, MERGED, REPORTS};

/// Streams listened to at most: every broker's of a full [`super::Aggregate`], and aggregates.
const SOURCES_MAX: usize = 8_192;
/// Unfinished reports of one aggregate.
const UNFINISHED_MAX: usize = 256;

/// Networks of at most so many brokers are listened to in full.
pub const FULL_MAX: u64 = 32;
/// So many more they must have before that ends.
const FULL_SLACK: u64 = 16;
/// Brokers of an older version merge nothing; they are listened to in full after this long.
const MERGED_WITHIN: Duration = Duration::from_secs(2);

/// Which reports are listened to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reports {
    /// Those of all brokers in a small network, what cells merge in a large one.
    #[default]
    Auto,
    /// Those of all brokers.
    Full,
    /// What cells merge.
    Merged,
    /// How each broker's links are, each second: what a scheduler needs.
    Measured,
}

/// A client that subscribed to reports and aggregates.
#[derive(Debug)]
pub struct Listener {
    client: Client,
    sources: HashMap<StreamId, Source>,
    reports: Reports,
    /// Whether full reports are subscribed to.
    full: bool,
    /// When nothing that was merged is waited for any more.
    full_from: Option<Instant>,
}

/// Who publishes a stream of reports.
#[derive(Debug)]
struct Source {
    kind: Kind,
    joiners: HashMap<BrokerId, Joiner>,
    /// Brokers of the network, as the head of a cell counts them.
    told: u64,
}

#[derive(Debug)]
enum Kind {
    Broker(BrokerId),
    Aggregate(Arc<str>),
    /// By the broker that is its head.
    Cell(Arc<str>),
    Measured(BrokerId),
}

/// What a [`Listener`] hears.
#[derive(Debug)]
#[non_exhaustive]
pub enum Heard {
    /// A broker's report, and the aggregation node through which it came.
    Report(Box<BrokerReport>, Option<Arc<str>>),
    /// What the head of a cell merged, for [`sangam_digest::decode`], and who that is.
    Merged(Vec<u8>, Arc<str>),
    /// What a broker tells of its links, for [`sangam_digest::decode`], and which one that is.
    Measured(Vec<u8>, BrokerId),
    /// An event on a report's topic that is none.
    Nonsense,
    /// The link to the broker is up.
    Up,
    /// The link to the broker is down.
    Down(Refusal),
    /// The broker does not let this client listen.
    Refused(Refusal),
    /// Nothing to act on, such as a part of a report.
    Nothing,
}

impl Listener {
    /// Subscribes to reports of this kind and, but for [`Reports::Measured`], to what aggregation
    /// nodes merge.
    ///
    /// # Errors
    /// As [`Client::subscribe`].
    pub fn new(client: Client, reports: Reports) -> Result<Self, ClientError> {
        let of_kind: &[&str] = match reports {
            Reports::Auto | Reports::Merged => &[AGGREGATES, MERGED],
            Reports::Full => &[AGGREGATES],
            // Whoever wants nothing else does not want reports that are passed on either.
            Reports::Measured => &[MEASURED],
        };
        for topic in of_kind {
            client.subscribe(&all_of(topic))?;
        }
        let mut listener = Self {
            client,
            sources: HashMap::new(),
            reports,
            full: false,
            full_from: None,
        };
        listener.wait_for_merged();
        if reports == Reports::Full {
            listener.set_full(true)?;
        }
        Ok(listener)
    }

    /// Whether full reports are listened to.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full
    }

    fn set_full(&mut self, full: bool) -> Result<(), ClientError> {
        if full != self.full {
            let reports = all_of(REPORTS);
            match full {
                true => self.client.subscribe(&reports)?,
                false => self.client.unsubscribe(&reports)?,
            }
            self.full = full;
        }
        Ok(())
    }

    /// Listens in the way that suits a network of so many brokers.
    fn suit(&mut self, brokers: u64) {
        self.full_from = None;
        let full = match self.full {
            true => brokers <= FULL_MAX + FULL_SLACK,
            false => brokers <= FULL_MAX,
        };
        if let Err(error) = self.set_full(full) {
            tracing::debug!(%error, "cannot listen in another way");
        }
    }

    fn wait_for_merged(&mut self) {
        let auto = self.reports == Reports::Auto;
        self.full_from = auto.then(|| Instant::now() + MERGED_WITHIN);
    }

    fn give_up_merged(&mut self) {
        match self.client.up() {
            Some(_) => self.suit(0),
            None => self.wait_for_merged(),
        }
    }

    /// The client itself, for other wishes.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// The next thing, waited for up to `timeout`.
    pub fn next(&mut self, timeout: Duration) -> Option<Heard> {
        let wait = self.full_from.map_or(timeout, |from| {
            timeout.min(from.saturating_duration_since(Instant::now()))
        });
        let received = self.client.recv(wait);
        if self.full_from.is_some_and(|from| from <= Instant::now()) {
            self.give_up_merged();
        }
        let Some(received) = received else {
            return (wait < timeout).then_some(Heard::Nothing);
        };
        Some(match received {
            Received::Event(packet) => self.event(&packet),
            Received::Announce { stream, topic, .. } => {
                self.announced(stream, &topic);
                Heard::Nothing
            }
            Received::Retired(stream) => {
                self.sources.remove(&stream);
                Heard::Nothing
            }
            Received::Up(_) => {
                // What is not announced anew is gone.
                self.sources.clear();
                self.wait_for_merged();
                Heard::Up
            }
            Received::Down(reason) => Heard::Down(reason),
            Received::Refused { reason, .. } => Heard::Refused(reason),
            _ => Heard::Nothing,
        })
    }

    fn announced(&mut self, stream: StreamId, topic: &Topic) {
        if self.sources.len() >= SOURCES_MAX {
            return;
        }
        let name = |of: &str| topic.as_str().strip_prefix(of)?.strip_prefix('/');
        // Only the broker where it enters the network speaks of itself.
        let own = |id: &str| parse_id(id).filter(|id| *id == stream.broker());
        let kind = if let Some(id) = name(REPORTS) {
            own(id).map(Kind::Broker)
        } else if let Some(id) = name(MEASURED) {
            own(id).map(Kind::Measured)
        } else if name(MERGED).is_some() {
            Some(Kind::Cell(stream.broker().to_string().into()))
        } else {
            name(AGGREGATES).map(|name| Kind::Aggregate(name.into()))
        };
        if let Some(kind) = kind {
            self.sources.insert(stream, Source::new(kind));
        }
    }

    fn event(&mut self, bytes: &[u8]) -> Heard {
        let Ok(event) = Event::decode(bytes) else {
            return Heard::Nonsense;
        };
        let Some(source) = self.sources.get_mut(&event.header.stream) else {
            // Its announcement follows.
            return Heard::Nothing;
        };
        if let Kind::Measured(broker) = source.kind {
            return Heard::Measured(event.payload.to_vec(), broker);
        }
        if let Kind::Cell(head) = &source.kind {
            let head = Arc::clone(head);
            let Some(brokers) = sangam_digest::brokers(event.payload) else {
                return Heard::Nonsense;
            };
            source.told = brokers;
            if self.reports == Reports::Auto {
                // A head that knows a part of the network only must not outshout the others.
                let told = self.sources.values().map(|source| source.told);
                self.suit(told.max().unwrap_or(brokers));
            }
            return Heard::Merged(event.payload.to_vec(), head);
        }
        Part::decode(event.payload).map_or(Heard::Nonsense, |part| source.take(part))
    }
}

impl Source {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            joiners: HashMap::new(),
            told: 0,
        }
    }

    fn take(&mut self, part: Part) -> Heard {
        let broker = part.report.broker;
        let via = match &self.kind {
            Kind::Broker(known) | Kind::Measured(known) if *known != broker => {
                return Heard::Nonsense;
            }
            Kind::Broker(_) | Kind::Measured(_) => None,
            Kind::Aggregate(name) | Kind::Cell(name) => Some(name.clone()),
        };
        if self.joiners.len() >= UNFINISHED_MAX && !self.joiners.contains_key(&broker) {
            // Parts were lost; what follows brings newer ones.
            self.joiners.clear();
        }
        let joiner = self.joiners.entry(broker).or_default();
        let whole = joiner.join(part);
        if joiner.is_empty() {
            self.joiners.remove(&broker);
        }
        whole.map_or(Heard::Nothing, |report| {
            Heard::Report(Box::new(report), via)
        })
    }
}

fn all_of(topic: &str) -> Filter {
    Filter::new(&format!("{topic}/+")).expect("a topic and one wildcard")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::parts::cut;

    fn heard(source: &mut Source, broker: u32) -> Heard {
        let report = BrokerReport {
            broker: BrokerId(broker),
            ..BrokerReport::default()
        };
        source.take(Part::decode(&cut(&report)[0]).unwrap())
    }

    #[test]
    fn a_broker_speaks_of_itself_only() {
        let mut source = Source::new(Kind::Broker(BrokerId(7)));
        assert!(matches!(heard(&mut source, 7), Heard::Report(_, None)));
        assert!(matches!(heard(&mut source, 8), Heard::Nonsense));
    }

    #[test]
    fn an_aggregation_node_speaks_of_many() {
        let mut source = Source::new(Kind::Aggregate("east".into()));
        for broker in [7, 8] {
            let heard = heard(&mut source, broker);
            assert!(matches!(heard, Heard::Report(_, Some(via)) if &*via == "east"));
        }
        assert!(source.joiners.is_empty());
    }
}
