//! What a player says about its streams, as a table and as JSON.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use sangam_jitter::{Kind, Stats};
use serde_json::{Value, json};

use super::meter::Reading;
use crate::commands::table;

const HEAD: [&str; 11] = [
    "TOPIC",
    "CODEC",
    "PACKETS",
    "kb/s",
    "LOST",
    "LOSS",
    "JITTER",
    "LATENCY p50",
    "p99",
    "PLAYOUT",
    "LATE",
];

/// All streams at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::commands) struct Report {
    /// Seconds since the begin.
    pub(in crate::commands) seconds: f64,
    /// What evens out jitter and order.
    pub(in crate::commands) receiver: Kind,
    /// One line each.
    pub(in crate::commands) lines: Vec<Line>,
}

/// One stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::commands) struct Line {
    /// Its topic.
    pub(in crate::commands) topic: String,
    /// Its SDP encoding name.
    pub(in crate::commands) encoding: String,
    /// What was measured.
    pub(in crate::commands) reading: Reading,
    /// What its receiver counts.
    pub(in crate::commands) playout: Stats,
}

/// The end of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::commands) struct Summary {
    /// All streams at the end.
    pub(in crate::commands) report: Report,
    /// The recording, if one was asked for and anything came.
    pub(in crate::commands) recording: Option<PathBuf>,
    /// The description for players, if one was written.
    pub(in crate::commands) sdp: Option<PathBuf>,
    /// Events lost in this program, not on the way.
    pub(in crate::commands) dropped_here: u64,
}

impl Report {
    /// RTP packets of all streams.
    pub(in crate::commands) fn packets(&self) -> u64 {
        self.lines.iter().map(|line| line.reading.packets).sum()
    }

    /// Lost packets of all streams.
    pub(in crate::commands) fn lost(&self) -> u64 {
        self.lines.iter().map(|line| line.reading.lost).sum()
    }

    /// Lost packets of all streams in percent.
    pub(in crate::commands) fn loss_percent(&self) -> f64 {
        let expected: u64 = self.lines.iter().map(|line| line.reading.expected).sum();
        percent(self.lost(), expected)
    }

    /// The worst stream's 99th percentile.
    pub(in crate::commands) fn latency_p99_ms(&self) -> Option<f64> {
        let all = self.lines.iter().filter_map(|line| line.reading.latency_ms);
        all.map(|(_, p99)| p99).max_by(f64::total_cmp)
    }

    /// The longest time that any stream was without a packet, in milliseconds.
    pub(in crate::commands) fn longest_pause_ms(&self) -> f64 {
        let pauses = self.lines.iter().map(|line| line.reading.longest_pause_ms);
        pauses.fold(0.0, f64::max)
    }

    /// The table.
    pub(in crate::commands) fn text(&self) -> String {
        if self.lines.is_empty() {
            return "nothing is published there yet; waiting (ctrl-c ends)\n".to_owned();
        }
        let rows: Vec<_> = self.lines.iter().map(Line::cells).collect();
        table::render(&HEAD, &rows)
    }

    /// One JSON object of the given kind.
    pub(in crate::commands) fn json(&self, event: &str) -> Value {
        let streams: Vec<_> = self.lines.iter().map(Line::json).collect();
        json!({
            "event": event,
            "seconds": self.seconds,
            "receiver": self.receiver.name(),
            "streams": streams,
        })
    }
}

impl Line {
    fn cells(&self) -> Vec<String> {
        let Self {
            topic,
            encoding,
            reading,
            playout,
        } = self;
        let (p50, p99) = reading.latency_ms.map_or_else(
            || ("-".to_owned(), "-".to_owned()),
            |(p50, p99)| (format!("{p50:.1} ms"), format!("{p99:.1} ms")),
        );
        vec![
            topic.clone(),
            encoding.clone(),
            reading.packets.to_string(),
            format!("{:.0}", reading.kbps),
            reading.lost.to_string(),
            format!("{:.2} %", percent(reading.lost, reading.expected)),
            format!("{:.1} ms", reading.jitter_ms),
            p50,
            p99,
            format!("+{:.1} ms", milliseconds(playout.mean_waited())),
            playout.late.to_string(),
        ]
    }

    fn json(&self) -> Value {
        let reading = &self.reading;
        json!({
            "topic": self.topic,
            "encoding": self.encoding,
            "packets": reading.packets,
            "bytes": reading.bytes,
            "kbps": reading.kbps,
            "expected": reading.expected,
            "lost": reading.lost,
            "loss_percent": percent(reading.lost, reading.expected),
            "duplicates": reading.duplicates,
            "reordered": reading.reordered,
            "jitter_ms": reading.jitter_ms,
            "latency_p50_ms": reading.latency_ms.map(|(p50, _)| p50),
            "latency_p99_ms": reading.latency_ms.map(|(_, p99)| p99),
            "longest_pause_ms": reading.longest_pause_ms,
            "traced": reading.traced,
            "brokers": reading.brokers,
            "released": self.playout.released,
            "played": self.playout.played,
            "late": self.playout.late,
            "release_delay_ms": milliseconds(self.playout.mean_held()),
            "playout_delay_ms": milliseconds(self.playout.mean_waited()),
            "concealed_ms": milliseconds(self.playout.concealed),
        })
    }
}

impl Summary {
    /// A few lines for people.
    pub(in crate::commands) fn text(&self) -> String {
        let report = &self.report;
        let mut text = format!(
            "received {} packets in {:.1} s, lost {} ({:.2} %)\n",
            report.packets(),
            report.seconds,
            report.lost(),
            report.loss_percent(),
        );
        // Writing to a String cannot fail.
        if self.dropped_here > 0 {
            let _ = writeln!(
                text,
                "dropped here, as this machine was too slow: {}",
                self.dropped_here
            );
        }
        if let Some(path) = &self.recording {
            let _ = writeln!(text, "recorded to {}", path.display());
        }
        text
    }

    /// One JSON object.
    pub(in crate::commands) fn json(&self) -> Value {
        let mut json = self.report.json("summary");
        json["recording"] = json!(self.recording);
        json["sdp"] = json!(self.sdp);
        json["dropped_here"] = json!(self.dropped_here);
        json
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 * 100.0 / whole as f64
    }
}
