//! How a film goes, as text and as JSON.

use std::time::Duration;

use sangam_film::{Counts, Session};
use sangam_model::Time;
use serde_json::{Value, json};

use crate::commands::table;

const HEAD: [&str; 9] = [
    "AT", "HELD", "RATE", "CHANGES", "PACKETS", "MISSED", "REPAIRED", "LOST", "STARVED",
];

/// What is shown each second.
pub(super) struct Line {
    at: Duration,
    held: Duration,
    rate: f64,
    nodes: usize,
    counts: Counts,
}

impl Line {
    pub(super) fn of<P>(session: &Session<P>, now: Time) -> Self {
        Self {
            at: session.order().head(now),
            held: session.order().ahead(now),
            rate: session.rate(),
            nodes: session.setup().nodes.len(),
            counts: session.counts(),
        }
    }

    pub(super) fn to_json(&self, event: &str) -> Value {
        let Counts {
            packets,
            bytes,
            strays,
            rate_changes,
            missed,
            asked,
            repaired,
            moves,
            played,
        } = self.counts;
        json!({
            "event": event,
            "at": self.at.as_secs_f64(),
            "held": self.held.as_secs_f64(),
            "rate": self.rate,
            "rate_changes": rate_changes,
            "nodes": self.nodes,
            "packets": packets,
            "bytes": bytes,
            "strays": strays,
            "missed": missed,
            "asked": asked,
            "repaired": repaired,
            "moves": moves,
            "played": played.played,
            "lost": played.lost,
            "late": played.late,
            "duplicates": played.duplicates,
            "starved": played.starved,
            "starved_seconds": played.starved_us as f64 / 1e6,
        })
    }

    pub(super) fn to_text(&self) -> String {
        let counts = self.counts;
        let row = vec![
            format!("{:.1} s", self.at.as_secs_f64()),
            format!("{:.1} s", self.held.as_secs_f64()),
            format!("{:.3}", self.rate),
            counts.rate_changes.to_string(),
            counts.packets.to_string(),
            counts.missed.to_string(),
            counts.repaired.to_string(),
            counts.played.lost.to_string(),
            counts.played.starved.to_string(),
        ];
        table::render(&HEAD, &[row])
    }
}
