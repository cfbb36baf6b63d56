//! Counters in Prometheus' text format (version 0.0.4).

use std::fmt::Write;
use std::fs;

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use sangam_control::Problem;
use sangam_node::Sample;

use super::{Shared, ask};

/// Everything the broker and the process count.
pub(super) async fn all(state: Shared) -> Result<impl IntoResponse, Problem> {
    let mut samples = ask(&state, sangam_node::Broker::samples).await?;
    samples.push(gauge(
        "sangam_build_info",
        "The running version",
        version(),
        1.0,
    ));
    let uptime = state.started.elapsed().as_secs_f64();
    samples.push(gauge(
        "sangam_uptime_seconds",
        "Time since the start",
        Vec::new(),
        uptime,
    ));
    samples.extend(process());
    Ok((
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        text(&samples),
    ))
}

type Labels = Vec<(&'static str, String)>;

fn gauge(name: &'static str, help: &'static str, labels: Labels, value: f64) -> Sample {
    Sample {
        name,
        help,
        counter: false,
        labels,
        value,
    }
}

fn version() -> Labels {
    vec![("version", env!("CARGO_PKG_VERSION").to_owned())]
}

/// Memory and descriptors of this process.
fn process() -> Vec<Sample> {
    let mut samples = Vec::new();
    if let Some(bytes) = resident_bytes() {
        let (name, help) = ("process_resident_memory_bytes", "Resident memory in bytes");
        samples.push(gauge(name, help, Vec::new(), bytes as f64));
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        let (name, help) = ("process_open_fds", "Open file descriptors");
        samples.push(gauge(name, help, Vec::new(), open.count() as f64));
    }
    samples
}

/// Resident memory of this process, in bytes.
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1_024)
}

/// The samples as text; those of one name stand together, as the format demands.
fn text(samples: &[Sample]) -> String {
    let mut out = String::new();
    let mut done: Vec<&str> = Vec::new();
    for first in samples {
        if done.contains(&first.name) {
            continue;
        }
        done.push(first.name);
        let kind = if first.counter { "counter" } else { "gauge" };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "# HELP {} {}", first.name, first.help);
        let _ = writeln!(out, "# TYPE {} {kind}", first.name);
        for sample in samples.iter().filter(|sample| sample.name == first.name) {
            let _ = writeln!(
                out,
                "{}{} {}",
                sample.name,
                labels(&sample.labels),
                sample.value
            );
        }
    }
    out
}

fn labels(labels: &[(&'static str, String)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let escape = |value: &str| {
        value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let pairs = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escape(value)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_one_name_stand_together_under_one_header() {
        let sample = |name, value: &str| Sample {
            name,
            help: "Help.",
            counter: true,
            labels: vec![("reason", value.to_owned())],
            value: 2.0,
        };
        let text = text(&[sample("a", "x"), sample("b", "y"), sample("a", "q\"\\\n")]);
        let expected = "# HELP a Help.\n# TYPE a counter\na{reason=\"x\"} 2\n\
            a{reason=\"q\\\"\\\\\\n\"} 2\n# HELP b Help.\n# TYPE b counter\nb{reason=\"y\"} 2\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_process_is_measured() {
        let samples = process();
        assert_eq!(samples.len(), 2);
        assert!(samples.iter().all(|sample| sample.value > 0.0));
    }
}
