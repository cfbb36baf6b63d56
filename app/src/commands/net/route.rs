//! `sangam net route`: who wants a topic, and the way events should take to them.

use sangam_control::monitor::{BrokerView, Graph, Network, Tree};
use sangam_model::{BrokerId, Filter, StreamId, Topic};
use serde::Serialize;

/// A way that costs more than this besides twice the shortest is left at once.
const KEPT_MOST: u32 = 200;

/// A topic in the network.
#[derive(Serialize)]
pub(super) struct Routes {
    topic: String,
    /// Brokers with subscribers of their own.
    wanted_by: Vec<String>,
    /// Brokers that listed fewer filters than they have: they may want it, too.
    perhaps: Vec<String>,
    streams: Vec<Stream>,
}

#[derive(Serialize)]
struct Stream {
    id: String,
    origin: String,
    /// To each broker that wants it.
    ways: Vec<Way>,
}

#[derive(Serialize)]
struct Way {
    to: String,
    /// Both ends included; empty if there is no way.
    brokers: Vec<String>,
    cost: Option<u32>,
    /// By which methods its steps are chosen: `link-state`, that of a scheduler, or both.
    by: Vec<String>,
}

/// Of ways that no scheduler has planned.
const LINK_STATE: &str = "link-state";

/// Looks a topic up in what brokers report.
pub(super) fn of(network: &Network, topic: &Topic) -> Routes {
    let graph = Graph::of(network);
    let fresh = || network.brokers.iter().filter(|view| !view.stale);
    let wanting: Vec<BrokerId> = fresh()
        .filter(|view| wants(view, topic))
        .map(|view| view.report.broker)
        .collect();
    let listed_less = |view: &&BrokerView| {
        view.report.filters > view.report.interest.len() as u64 && !wants(view, topic)
    };
    let stream = |origin: BrokerId, id: &str| {
        let tree = graph.tree(origin);
        let way = |to: &BrokerId| {
            let way = tree.way(*to);
            Way {
                to: network.label(*to),
                brokers: way.iter().map(|at| network.label(*at)).collect(),
                cost: tree.cost(*to),
                by: methods(network, &tree, &way),
            }
        };
        Stream {
            id: id.to_owned(),
            origin: network.label(origin),
            ways: wanting.iter().map(way).collect(),
        }
    };
    let streams = fresh().flat_map(|view| {
        let here = view
            .report
            .origins
            .iter()
            .filter(|one| one.topic == topic.as_str());
        here.map(|one| stream(view.report.broker, &one.id))
    });
    Routes {
        topic: topic.to_string(),
        wanted_by: wanting.iter().map(|id| network.label(*id)).collect(),
        perhaps: fresh()
            .filter(listed_less)
            .map(|view| network.label(view.report.broker))
            .collect(),
        streams: streams.collect(),
    }
}

/// By which methods the brokers of a way get what comes by it, its beginning left out.
fn methods(network: &Network, tree: &Tree, way: &[BrokerId]) -> Vec<String> {
    let method = |at: &BrokerId| {
        let view = network.brokers.iter().find(|one| one.report.broker == *at);
        let planned = view.filter(|_| tree.is_planned(*at));
        let named = planned.and_then(|view| view.report.routing.clone());
        named.unwrap_or_else(|| LINK_STATE.to_owned())
    };
    let mut methods: Vec<String> = way.iter().skip(1).map(method).collect();
    methods.sort_unstable();
    methods.dedup();
    methods
}

fn wants(view: &BrokerView, topic: &Topic) -> bool {
    let filters = view.report.interest.iter();
    filters
        .filter_map(|text| Filter::new(text).ok())
        .any(|filter| filter.matches(topic))
}

/// What a trace says about the computed way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// The way of the computed tree.
    AsComputed,
    /// Another one that costs no more.
    AsShort,
    /// A dearer one that brokers may keep for up to a minute: each step leads nearer to the source.
    Kept,
    /// A dearer one than that, or over a link that nobody reports.
    Longer,
    /// The network does not report enough to tell.
    Unknown,
}

/// Compares the way an event took with the tree of its origin.
pub(super) fn judge(graph: &Graph, stream: StreamId, way: &[BrokerId]) -> Verdict {
    let (Some(first), Some(last)) = (way.first(), way.last()) else {
        return Verdict::Unknown;
    };
    let tree = graph.tree(stream.broker());
    let Some(best) = tree.cost(*last).filter(|_| *first == stream.broker()) else {
        return Verdict::Unknown;
    };
    if tree.way(*last) == way {
        return Verdict::AsComputed;
    }
    let step = |pair: &[BrokerId]| {
        let mut onward = graph.neighbours(pair[0]);
        onward
            .find(|(peer, _)| *peer == pair[1])
            .map(|(_, cost)| cost)
    };
    let cost: Option<u32> = way.windows(2).map(step).sum();
    // What each broker on the way may keep: see "The map" in wire.md, section 5. Where ways are
    // planned, costs of the tree are not those of the map.
    let map = graph.shortest(stream.broker());
    let may_keep = |pair: &[BrokerId]| {
        let (Some(before), Some(shortest)) = (map.cost(pair[0]), map.cost(pair[1])) else {
            return false;
        };
        let by_it = step(pair).map(|step| before + step);
        before < shortest && by_it.is_some_and(|cost| cost - shortest <= shortest + KEPT_MOST)
    };
    match cost {
        Some(cost) if cost <= best => Verdict::AsShort,
        Some(_) if way.windows(2).all(may_keep) => Verdict::Kept,
        _ => Verdict::Longer,
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::AsComputed => "as computed",
            Self::AsShort => "another way, as short",
            Self::Kept => "longer than computed, kept for a while as it leads nearer at each step",
            Self::Longer => "LONGER than computed",
            Self::Unknown => "not to be checked",
        })
    }
}

impl std::fmt::Display for Routes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |names: &[String]| match names {
            [] => "nobody".to_owned(),
            names => names.join(", "),
        };
        writeln!(f, "{}\nwanted by: {}", self.topic, list(&self.wanted_by))?;
        if !self.perhaps.is_empty() {
            writeln!(
                f,
                "perhaps (more filters than listed): {}",
                list(&self.perhaps)
            )?;
        }
        if self.streams.is_empty() {
            writeln!(f, "no stream is reported there")?;
        }
        for stream in &self.streams {
            writeln!(f, "stream {} from {}", stream.id, stream.origin)?;
            for way in &stream.ways {
                match way.cost {
                    Some(cost) => {
                        let by = way.by.iter().map(|by| format!(", {by}"));
                        let by: String = by.collect();
                        writeln!(f, "  {} (cost {cost}{by})", way.brokers.join(" → "))?;
                    }
                    None => writeln!(f, "  no way to {}", way.to)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sangam_control::monitor::{BrokerReport, LinkReport, PlannedWay, StreamReport};

    use super::*;

    fn graph(links: &[(u32, u32, u32)]) -> Graph {
        Graph::of(&network(links))
    }

    /// Reports of brokers with these links and weights.
    fn network(links: &[(u32, u32, u32)]) -> Network {
        let mut network = Network::default();
        let mut ids: Vec<u32> = links.iter().flat_map(|(a, b, _)| [*a, *b]).collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let of_broker = links.iter().filter_map(|&(a, b, weight)| {
                let peer = if a == id {
                    Some(b)
                } else {
                    (b == id).then_some(a)
                };
                peer.map(|peer| LinkReport {
                    peer: Some(BrokerId(peer)),
                    up: true,
                    weight: Some(weight),
                    ..LinkReport::default()
                })
            });
            network.brokers.push(BrokerView {
                report: BrokerReport {
                    broker: BrokerId(id),
                    links: of_broker.collect(),
                    ..BrokerReport::default()
                },
                ..BrokerView::default()
            });
        }
        network
    }

    fn verdict(graph: &Graph, way: &[u32]) -> Verdict {
        let origin = StreamId::new(BrokerId(1), sangam_model::Incarnation(0), 1);
        let way: Vec<BrokerId> = way.iter().copied().map(BrokerId).collect();
        judge(graph, origin, &way)
    }

    #[test]
    fn a_way_that_brokers_may_keep_is_told_from_one_that_they_must_leave() {
        // To 4 by 2 it costs 200, by 3 as much and 30; by both the last step leads away.
        let graph = graph(&[
            (1, 2, 100),
            (2, 4, 100),
            (1, 3, 110),
            (3, 4, 120),
            (2, 3, 50),
        ]);
        assert_eq!(verdict(&graph, &[1, 2, 4]), Verdict::AsComputed);
        assert_eq!(verdict(&graph, &[1, 3, 4]), Verdict::Kept);
        // 2 is nearer to the source than 3, but 3 is no nearer than 2.
        assert_eq!(verdict(&graph, &[1, 3, 2, 4]), Verdict::Longer);
        assert_eq!(
            verdict(&graph, &[1, 4]),
            Verdict::Longer,
            "there is no such link"
        );
        assert!(Verdict::Kept.to_string().contains("kept"));
    }

    #[test]
    fn a_way_tells_by_which_methods_its_steps_are_chosen() {
        let mut network = network(&[(1, 2, 100), (2, 3, 100), (3, 4, 120), (4, 1, 120)]);
        let wanted = &mut network.brokers[2].report;
        wanted.interest = vec!["hall/#".to_owned()];
        network.brokers[0].report.origins = vec![StreamReport {
            id: "00000001.0.1".to_owned(),
            topic: "hall/stage".to_owned(),
            links: 1,
        }];
        let topic = Topic::new("hall/stage").unwrap();
        let shown = of(&network, &topic).to_string();
        assert!(shown.contains("(cost 200, link-state)"), "{shown}");
        let planned = &mut network.brokers[2].report;
        planned.routing = Some("vcroute".to_owned());
        planned.planned = vec![PlannedWay {
            origin: BrokerId(1),
            parent: BrokerId(4),
        }];
        let shown = of(&network, &topic).to_string();
        assert!(shown.contains("(cost 240, link-state, vcroute)"), "{shown}");
    }

    #[test]
    fn a_way_beside_a_planned_one_is_judged_by_the_map() {
        // To 5 it costs 390 by 4, and 400 by 2 and 3.
        let mut network = network(&[
            (1, 2, 100),
            (2, 3, 100),
            (3, 4, 120),
            (4, 1, 120),
            (3, 5, 200),
            (4, 5, 270),
        ]);
        network.brokers[2].report.planned = vec![PlannedWay {
            origin: BrokerId(1),
            parent: BrokerId(4),
        }];
        let graph = Graph::of(&network);
        assert_eq!(verdict(&graph, &[1, 4, 3]), Verdict::AsComputed);
        assert_eq!(verdict(&graph, &[1, 2, 3]), Verdict::AsShort);
        // 3 has no plan any more, and 5 keeps what it had.
        assert_eq!(verdict(&graph, &[1, 2, 3, 5]), Verdict::Kept);
    }

    #[test]
    fn what_is_left_at_once_was_not_kept() {
        let graph = graph(&[(1, 2, 100), (2, 4, 100), (1, 3, 110), (3, 4, 600)]);
        assert_eq!(verdict(&graph, &[1, 3, 4]), Verdict::Longer);
    }
}
