//! Columns that several experiments share.

use crate::measure::Reception;
use crate::report::Row;
use crate::scenario::{Outcome, Seen};

/// Latency, jitter, loss and lateness of measured receivers.
pub(super) fn quality(row: &mut Row, seen: &Seen) {
    reception(row, &seen.reception, seen.expected);
}

/// The same of what was received of so many packets.
pub(super) fn reception(row: &mut Row, reception: &Reception, expected: u64) {
    row.set("latency_avg_ms", reception.mean_ms())
        .set("latency_p50_ms", reception.percentile_ms(50.0))
        .set("latency_p99_ms", reception.percentile_ms(99.0))
        .set("latency_max_ms", reception.max_ms())
        .set("jitter_ms", reception.jitter_ms())
        .set("loss_percent", reception.loss_percent(expected))
        .set("late_percent", reception.late_percent(expected));
}

/// What it cost and what was dropped.
pub(super) fn cost(row: &mut Row, outcome: &Outcome) {
    let seconds = outcome.took.as_secs_f64();
    let drops = outcome.drops();
    let dropped: f64 = drops.values().sum();
    row.set("packets_per_s", (outcome.sent() / seconds).round())
        .set("cpu_us_per_packet", outcome.cpu_us_per_packet())
        .set(
            "broker_cpu_percent",
            outcome.cpu().as_secs_f64() * 100.0 / seconds,
        )
        .set(
            "generator_cpu_percent",
            outcome.generator_cpu.as_secs_f64() * 100.0 / seconds,
        )
        .set("dropped", dropped as u64);
    if !outcome.carried.is_empty() {
        row.set(
            "emulator_cpu_percent",
            outcome.emulator_cpu.as_secs_f64() * 100.0 / seconds,
        );
    }
    if outcome.missed > 0 {
        row.set("emulator_missed", outcome.missed);
    }
    let drops = outcome.drops_in_all();
    if !drops.is_empty() {
        let reasons: Vec<_> = drops
            .iter()
            .map(|(reason, count)| format!("{reason} {count:.0}"))
            .collect();
        row.set("drop_reasons", reasons.join("; "));
    }
    if outcome.overflow > 0 {
        row.set("passive_overflow", outcome.overflow);
    }
    if outcome.deaths > 0 {
        row.set("links_died", outcome.deaths);
    }
}
