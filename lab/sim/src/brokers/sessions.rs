//! Sessions: who publishes, who listens, and what each listener is owed.

use std::collections::BTreeSet;

use sangam_model::limits::HOP_LIMIT;
use sangam_model::{Filter, Random, StreamId, Topic};

use super::broker::index_of;
use super::network::Network;

/// A stream that a client of a broker publishes.
#[derive(Clone, Debug)]
pub struct Published {
    /// The client's broker.
    pub broker: usize,
    /// The stream.
    pub stream: StreamId,
    /// Its topic.
    pub topic: Topic,
}

/// Sessions spread over a network.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    /// All streams.
    pub published: Vec<Published>,
    next: u32,
}

impl Sessions {
    /// Adds so many sessions: each with one or two publishers and two to five listeners, nine of
    /// ten of them in one region, the others anywhere.
    pub fn add(
        &mut self,
        network: &mut Network,
        members: &[Vec<usize>],
        count: usize,
        random: &mut Random,
    ) {
        let members: Vec<&Vec<usize>> = members.iter().filter(|of| !of.is_empty()).collect();
        for _ in 0..count {
            let home = members[random.below(members.len())];
            let place = |random: &mut Random| {
                if random.chance(0.9) {
                    home[random.below(home.len())]
                } else {
                    random.below(network.brokers.len())
                }
            };
            let publishers: BTreeSet<usize> =
                (0..1 + random.below(2)).map(|_| place(random)).collect();
            let listeners: BTreeSet<usize> =
                (0..2 + random.below(4)).map(|_| place(random)).collect();
            self.open(network, &publishers, &listeners);
        }
    }

    /// Opens one session with these brokers.
    pub fn open(
        &mut self,
        network: &mut Network,
        publishers: &BTreeSet<usize>,
        listeners: &BTreeSet<usize>,
    ) {
        self.next += 1;
        let name = format!("t{}/s{}", self.next % 50, self.next);
        if let Ok(all) = Filter::new(&format!("{name}/#")) {
            for broker in listeners {
                network.subscribe(*broker, &all);
            }
        }
        for broker in publishers {
            if let Ok(topic) = Topic::new(&format!("{name}/audio/{broker}")) {
                self.publish(network, *broker, &topic);
            }
        }
    }

    /// Publishes one more stream.
    pub fn publish(&mut self, network: &mut Network, broker: usize, topic: &Topic) {
        if !network.brokers[broker].alive {
            return;
        }
        let stream = network.publish(broker, topic);
        self.published.extend(stream.map(|stream| Published {
            broker,
            stream,
            topic: topic.clone(),
        }));
    }

    /// Forgets the streams of a broker that died.
    pub fn lose(&mut self, broker: usize) {
        self.published.retain(|each| each.broker != broker);
    }
}

/// Brokers that shall get a stream's events: they want it, can be reached by the ways that all
/// have chosen, and are near enough. The stream's own broker is one if it wants it.
#[must_use]
pub fn listeners(network: &Network, published: &Published) -> BTreeSet<usize> {
    owed(network, published, &depths(network, published.broker)).0
}

/// The same from known depths, and how many want it and are too far.
pub(crate) fn owed(
    network: &Network,
    published: &Published,
    depths: &[Option<usize>],
) -> (BTreeSet<usize>, u64) {
    let mut owed = (BTreeSet::new(), 0);
    for (broker, depth) in depths.iter().enumerate() {
        let Some(hops) = depth.filter(|_| network.brokers[broker].wants(&published.topic)) else {
            continue;
        };
        if hops < usize::from(HOP_LIMIT) {
            owed.0.insert(broker);
        } else {
            owed.1 += 1;
        }
    }
    owed
}

/// Links from each broker to the source by the ways chosen; `None` without one, or with a loop.
#[must_use]
pub fn depths(network: &Network, source: usize) -> Vec<Option<usize>> {
    let mut depths = vec![None; network.brokers.len()];
    depths[source] = network.brokers[source].alive.then_some(0);
    let id = network.brokers[source].id;
    for broker in 0..depths.len() {
        let mut way = Vec::new();
        let mut at = broker;
        let alive = |at: usize| network.brokers[at].alive;
        while depths[at].is_none() && way.len() <= depths.len() && alive(at) {
            let parent = network.brokers[at].routing.parent(id);
            let Some(next) = parent.and_then(|link| network.peer(at, link)) else {
                break;
            };
            way.push(at);
            at = next;
        }
        if let Some(mut hops) = depths[at] {
            for at in way.into_iter().rev() {
                hops += 1;
                depths[at] = Some(hops);
            }
        }
    }
    depths
}

/// The place of the broker where a stream enters the network.
#[must_use]
pub const fn origin(stream: StreamId) -> usize {
    index_of(stream.broker())
}
