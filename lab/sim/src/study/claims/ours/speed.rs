//! How long decisions take, and the study itself.

use super::super::super::Results;
use super::super::super::tables::{decision_ns, receiver_ns};
use super::super::Claim;

/// Goals in microseconds of processor time for each packet.
const ROUTING_US: f64 = 0.8;
const LEARNING_US: f64 = 3.0;
const RECEIVER_US: f64 = 0.3;
/// The goal for all sessions of a family on two processors.
const STUDY_MIN: f64 = 30.0;
/// The study's size.
const SEEDS: f64 = 10.0;
const PACKETS: f64 = 600_000.0;
const CORES: f64 = 2.0;

/// By methods that train a network with each packet.
const LEARNING: [&str; 3] = ["vcroute", "vcroute-literal", "vcroute-probed"];

pub(super) fn claims(all: &[&Results]) -> Vec<Claim> {
    vec![
        Claim::over(
            "Routing without learning decides in at most 0.8 us a packet, processor time (goal)",
            all,
            |results| routing(results, false, ROUTING_US),
        ),
        Claim::over(
            "Routing that learns from each packet takes at most 3 us (goal; the paper: 300 us)",
            all,
            |results| routing(results, true, LEARNING_US),
        ),
        Claim::over(
            "A receiver takes at most 0.3 us a packet (goal)",
            all,
            |results| span(receivers(results), RECEIVER_US),
        ),
        Claim::over(
            "All sessions of a family, 10 seeds of 600,000 packets, take less than 30 minutes on \
             2 processors (goal)",
            all,
            study,
        ),
    ]
}

fn routing(results: &Results, learns: bool, most: f64) -> Option<(String, bool)> {
    let entries = results.roster.entries.iter();
    let wanted = entries.filter(|entry| LEARNING.contains(&entry.name.as_str()) == learns);
    let named = wanted.filter_map(|entry| Some((&*entry.name, decision_ns(results, &entry.name)?)));
    span(named.collect(), most)
}

fn receivers(results: &Results) -> Vec<(&str, f64)> {
    let streams = results.whole.outcome.streams.iter();
    let pairs = results.roster.entries.iter().zip(streams);
    let all = pairs.flat_map(|(entry, stream)| {
        let own = entry.receivers.iter().zip(&stream.tallies);
        own.map(|(listener, tally)| (&*listener.name, receiver_ns(tally, &stream.costs)))
    });
    all.collect()
}

/// `0.04 to 0.52 us (ours)` of nanoseconds, the dearest named.
fn span(mut all: Vec<(&str, f64)>, most_us: f64) -> Option<(String, bool)> {
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (least, (name, worst)) = (all.first()?.1, all.last()?);
    let words = format!("{:.2} to {:.2} us ({name})", least / 1e3, worst / 1e3);
    // Nobody measured where no clock was given.
    (*worst > 0.0).then_some((words, worst / 1e3 <= most_us))
}

fn study(results: &Results) -> Option<(String, bool)> {
    let outcome = &results.whole.outcome;
    let packets = outcome.streams.first()?.costs.packets;
    let sessions = results.sessions.len() as f64;
    let each_us = outcome.spent_ns as f64 / packets.max(1) as f64 / 1e3;
    let minutes = each_us * sessions * SEEDS * PACKETS / CORES / 60e6;
    let whole = packets as f64 >= sessions * SEEDS * PACKETS;
    let from = if whole { "" } else { ", by what was run" };
    let words =
        format!("{minutes:.1} min: {each_us:.2} us of processor time a packet and session{from}");
    (each_us > 0.0).then_some((words, minutes < STUDY_MIN))
}
