//! Hears reports through any client of any broker.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sangam_client::{Client, ClientError, Received};
use sangam_model::{BrokerId, Filter, StreamId, Topic};
use sangam_wire::{Event, Refusal};

use super::parts::{Joiner, Part};
use super::report::{BrokerReport, parse_id};
use super::{AGGREGATES, REPORTS};

/// Streams listened to at most: every broker's of a full [`super::Aggregate`], and aggregates.
const SOURCES_MAX: usize = 8_192;
/// Unfinished reports of one aggregate.
const UNFINISHED_MAX: usize = 256;

/// A client that subscribed to reports and aggregates.
#[derive(Debug)]
pub struct Listener {
    client: Client,
    sources: HashMap<StreamId, Source>,
}

/// Who publishes a stream of reports.
#[derive(Debug)]
struct Source {
    kind: Kind,
    joiners: HashMap<BrokerId, Joiner>,
}

#[derive(Debug)]
enum Kind {
    Broker(BrokerId),
    Aggregate(Arc<str>),
}

/// What a [`Listener`] hears.
#[derive(Debug)]
#[non_exhaustive]
pub enum Heard {
    /// A broker's report, and the aggregation node through which it came.
    Report(Box<BrokerReport>, Option<Arc<str>>),
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
    /// Subscribes to every broker's reports, and to to what aggregation nodes merge.
    ///
    /// # Errors
    /// As [`Client::subscribe`].
    pub fn new(client: Client) -> Result<Self, ClientError> {
        for topic in [REPORTS, AGGREGATES] {
            let filter = Filter::new(&format!("{topic}/+")).expect("a topic and one wildcard");
            client.subscribe(&filter)?;
        }
        Ok(Self {
            client,
            sources: HashMap::new(),
        })
    }

    /// The client itself, for other wishes.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// The next thing, waited for up to `timeout`.
    pub fn next(&mut self, timeout: Duration) -> Option<Heard> {
        Some(match self.client.recv(timeout)? {
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
        let kind = if let Some(id) = name(REPORTS) {
            // Only the broker where it enters the network speaks of itself.
            let broker = parse_id(id).filter(|id| *id == stream.broker());
            broker.map(Kind::Broker)
        } else {
            name(AGGREGATES).map(|name| Kind::Aggregate(name.into()))
        };
        if let Some(kind) = kind {
            let joiners = HashMap::new();
            self.sources.insert(stream, Source { kind, joiners });
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
        Part::decode(event.payload).map_or(Heard::Nonsense, |part| source.take(part))
    }
}

impl Source {
    fn take(&mut self, part: Part) -> Heard {
        let broker = part.report.broker;
        let via = match &self.kind {
            Kind::Broker(known) if *known != broker => return Heard::Nonsense,
            Kind::Broker(_) => None,
            Kind::Aggregate(name) => Some(name.clone()),
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

    fn source(kind: Kind) -> Source {
        Source {
            kind,
            joiners: HashMap::new(),
        }
    }

    #[test]
    fn a_broker_speaks_of_itself_only() {
        let mut source = source(Kind::Broker(BrokerId(7)));
        assert!(matches!(heard(&mut source, 7), Heard::Report(_, None)));
        assert!(matches!(heard(&mut source, 8), Heard::Nonsense));
    }

    #[test]
    fn an_aggregation_node_speaks_of_many() {
        let mut source = source(Kind::Aggregate("east".into()));
        for broker in [7, 8] {
            let heard = heard(&mut source, broker);
            assert!(matches!(heard, Heard::Report(_, Some(via)) if &*via == "east"));
        }
        assert!(source.joiners.is_empty());
    }
}
