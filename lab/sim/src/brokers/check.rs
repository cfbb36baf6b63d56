//! What must hold, by name. Each check returns what it found wrong first.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use sangam_model::StreamId;

use super::broker::id_of;
use super::network::Network;
use super::sessions::{Published, depths, owed};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Fault {}

/// What a check returns.
pub type Checked = Result<(), Fault>;

fn fault(text: String) -> Checked {
    Err(Fault(text))
}

/// Holds at every moment: no local subscriber got an event twice.
///
/// # Errors
/// How often one did.
pub fn nothing_twice(network: &Network) -> Checked {
    match network.traffic.duplicates {
        0 => Ok(()),
        n => fault(format!("{n} events reached a subscriber twice")),
    }
}

/// Brokers that can reach each other have one map, and each knows a way to exactly those.
///
/// # Errors
/// The first two brokers that differ.
pub fn maps_agree(network: &Network) -> Checked {
    let mut component = vec![None; network.brokers.len()];
    for start in 0..component.len() {
        if component[start].is_some() || !network.brokers[start].alive {
            continue;
        }
        let epoch = network.brokers[start].routing.epoch();
        for (broker, hops) in network.distances(start).into_iter().enumerate() {
            if hops.is_none() {
                continue;
            }
            component[broker] = Some(start);
            if network.brokers[broker].routing.epoch() != epoch {
                return fault(format!("maps of {start} and {broker} differ"));
            }
        }
    }
    for (broker, it) in network.brokers.iter().enumerate() {
        let far = (0..component.len()).filter(|_| it.alive).find(|other| {
            let near = component[*other].is_some() && component[*other] == component[broker];
            it.routing.has_way(id_of(*other)) != near
        });
        if let Some(far) = far {
            return fault(format!("{broker} is wrong about a way to {far}"));
        }
    }
    Ok(())
}

/// Parents lead from every broker to the source, without a loop.
///
/// # Errors
/// The first broker whose parents do not.
pub fn parents_form_a_tree(network: &Network, source: usize) -> Checked {
    let depths = depths(network, source);
    let distances = network.distances(source);
    let pairs = depths.iter().zip(&distances);
    let wrong = pairs.enumerate().find(|(_, (depth, hops))| {
        let loops = depth.is_none() && hops.is_some();
        loops || (depth.is_some() && hops.is_none())
    });
    wrong.map_or(Ok(()), |(broker, _)| {
        fault(format!(
            "the parents of {broker} do not lead to source {source}"
        ))
    })
}

/// Sends an event of each stream. Each listener gets it once, nobody else anything, and no link
/// is crossed twice in one direction, nor does anything reach the hop limit.
///
/// # Errors
/// The first stream and broker for which that is not so.
pub fn everyone_is_served(
    network: &mut Network,
    published: &[Published],
    sequence: u16,
) -> Checked {
    network.traffic.forget();
    for each in published {
        network.emit(each.broker, each.stream, sequence);
        // So that streams do not all cross at one moment.
        network.run(Duration::from_micros(50));
    }
    network.run(Duration::from_secs(2));
    let mut delivered: BTreeMap<StreamId, Vec<(usize, u32)>> = BTreeMap::new();
    for ((stream, _, broker), count) in &network.traffic.delivered {
        delivered
            .entry(*stream)
            .or_default()
            .push((*broker, *count));
    }
    let mut beyond = 0;
    for each in published {
        let depths = depths(network, each.broker);
        let (want, far) = owed(network, each, &depths);
        beyond += far;
        let got = delivered.remove(&each.stream).unwrap_or_default();
        let want: Vec<(usize, u32)> = want.into_iter().map(|broker| (broker, 1)).collect();
        if got != want {
            let (broker, topic) = (each.broker, &each.topic);
            return fault(format!(
                "{topic} from {broker} reached (broker, times) {got:?}, wanted {want:?}"
            ));
        }
    }
    links_are_crossed_once(network)?;
    match network.traffic.spent {
        spent if spent <= beyond => Ok(()),
        n => fault(format!(
            "{n} events reached the hop limit, {beyond} listeners are too far"
        )),
    }
}

/// No link carried an event twice in one direction.
///
/// # Errors
/// The first link that did.
pub fn links_are_crossed_once(network: &Network) -> Checked {
    let mut crossings = network.traffic.crossings.iter();
    if let Some(((stream, _, from, to), times)) = crossings.find(|(_, times)| **times > 1) {
        return fault(format!(
            "{stream} crossed from {from} to {to} {times} times"
        ));
    }
    Ok(())
}

/// Brokers know the streams that are published, and no other.
///
/// # Errors
/// The first stream that is none.
pub fn no_stream_outlives_its_publisher(network: &Network, published: &[Published]) -> Checked {
    for (broker, it) in network
        .brokers
        .iter()
        .enumerate()
        .filter(|(_, it)| it.alive)
    {
        for (id, stream) in it.streams.iter() {
            if !published.iter().any(|each| each.stream == id) {
                let parent = stream.parent;
                return fault(format!("{broker} believes in {id} from {parent:?}"));
            }
        }
    }
    Ok(())
}

/// Nobody wants anything: no joins, no remote streams, no hops.
///
/// # Errors
/// The first broker where something is left.
pub fn nothing_remote_is_left(network: &Network) -> Checked {
    for (broker, it) in network
        .brokers
        .iter()
        .enumerate()
        .filter(|(_, it)| it.alive)
    {
        let (own, joins, _) = it.routing.sizes();
        if (own, joins) != (0, 0) {
            return fault(format!("{broker} holds {own} filters and {joins} joins"));
        }
        if let Some((id, _)) = it.streams.iter().find(|(id, _)| id.broker() != it.id) {
            return fault(format!("{broker} still knows {id}"));
        }
        if it
            .snapshot
            .routes()
            .iter()
            .any(|route| !route.hops.is_empty())
        {
            return fault(format!("{broker} still sends somewhere"));
        }
    }
    Ok(())
}
