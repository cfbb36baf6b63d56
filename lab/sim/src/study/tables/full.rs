//! All methods and receivers of a family.

use super::super::bootstrap::Sums;
use super::super::page::Table;
use super::{REFERENCE, Results, percent, span};
use crate::replay::{Costs, Tally};

const COLUMNS: [&str; 19] = [
    "method",
    "receiver",
    "release ms, mean [95 %]",
    "release p50",
    "release p95",
    "release p99",
    "playout ms, mean [95 %]",
    "playout p50",
    "playout p95",
    "playout p99",
    "late loss % [95 %]",
    "nothing to play %",
    "path changes per 1,000",
    "extra bytes %",
    "decision us",
    "receiver us",
    "release against VCR-WM",
    "playout against VCR-WM",
    "transit ms",
];

/// Bytes of a packet of 10 ms on the wire, as core/route charges duplicates.
pub(super) const PACKET_BYTES: u64 = 200;

pub(super) fn table(results: &Results) -> Table {
    let name = format!("{}-{}-all", results.roster.name, results.name);
    let title = format!("{}: all methods and receivers, all sessions", results.name);
    let mut table = Table::new(&name, &title, &COLUMNS);
    let streams = &results.whole.outcome.streams;
    let reference = results.cell(REFERENCE.0, REFERENCE.1);
    for (entry, stream) in results.roster.entries.iter().zip(streams) {
        for (place, listener) in entry.receivers.iter().enumerate() {
            let Some(cell) = results.cell(&entry.name, &listener.name) else {
                continue;
            };
            let (costs, tally, drawn) = (&stream.costs, &stream.tallies[place], cell.drawn);
            let loss = drawn.estimate(|sums| 100.0 * sums.loss());
            let (release, playout) = (&tally.release, &tally.playout);
            let mut row = vec![entry.name.clone(), listener.name.clone()];
            row.push(span(&drawn.estimate(Sums::release)));
            row.extend([0.5, 0.95, 0.99].map(|share| format!("{:.1}", release.quantile_ms(share))));
            row.push(span(&drawn.estimate(Sums::playout)));
            row.extend([0.5, 0.95, 0.99].map(|share| format!("{:.1}", playout.quantile_ms(share))));
            row.push(format!(
                "{:.3} [{:.3}, {:.3}]",
                loss.value, loss.low, loss.high
            ));
            let sent_us = costs.packets.max(1) as f64 * 10_000.0;
            row.push(format!(
                "{:.2}",
                100.0 * tally.concealed_us as f64 / sent_us
            ));
            let changes = 1e3 * costs.path_changes as f64 / costs.packets.max(1) as f64;
            row.push(format!("{changes:.2}"));
            row.push(format!(
                "{:.2}",
                100.0 * results.extra_bytes(costs, PACKET_BYTES)
            ));
            let decision = decision_ns(results, &entry.name).unwrap_or_default();
            row.push(format!("{:.2}", decision / 1e3));
            row.push(format!("{:.2}", receiver_ns(tally, costs) / 1e3));
            let against = |of: fn(&Sums) -> f64| {
                reference.map_or_else(String::new, |from| percent(&drawn.change(from.drawn, of)))
            };
            row.extend([against(Sums::release), against(Sums::playout)]);
            let transit: u64 = stream.sent.iter().map(|sent| sent.transit_us).sum();
            row.push(format!(
                "{:.1}",
                transit as f64 / stream.expected().max(1) as f64 / 1e3
            ));
            table.rows.push(row);
        }
    }
    table
}

/// Nanoseconds a packet that a method takes to decide, the simulation of its feedback included:
/// what it takes more than sending everything directly.
pub(in crate::study) fn decision_ns(results: &Results, method: &str) -> Option<f64> {
    let of = |name: &str| {
        let mut entries = results.roster.entries.iter();
        let place = entries.position(|entry| entry.name == name)?;
        let costs = &results.whole.outcome.streams.get(place)?.costs;
        Some(per_packet(costs.spent_ns, costs))
    };
    Some((of(method)? - of("direct").unwrap_or_default()).max(0.0))
}

/// Nanoseconds a packet that a receiver takes.
pub(in crate::study) fn receiver_ns(tally: &Tally, costs: &Costs) -> f64 {
    per_packet(tally.spent_ns, costs)
}

/// Nanoseconds a packet.
pub(super) fn per_packet(ns: u64, costs: &Costs) -> f64 {
    ns as f64 / costs.packets.max(1) as f64
}
