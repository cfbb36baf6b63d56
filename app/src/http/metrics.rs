//! Counters in Prometheus' text format (version 0.0.4).

use std::fmt::Write;
use std::fs;

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use sangam_control::login::Login;
use sangam_control::session::Statistics;
use sangam_control::{Problem, Refusals};
use sangam_node::Sample;
use sangam_webrtc::WebRtc;

use super::{Shared, ask};
use crate::turn::Relays;

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
    samples.extend(state.webrtc.iter().flat_map(|gateway| webrtc(gateway)));
    samples.extend(state.relays.as_ref().map(Relays::sample));
    samples.extend(state.boards.samples());
    samples.extend(refused(&state.refusals));
    samples.push(Sample {
        counter: true,
        ..gauge(
            "sangam_page_files_missing_total",
            "Files of the page that were asked for and are not there, as by older pages",
            Vec::new(),
            state.page.missing() as f64,
        )
    });
    samples.extend(process());
    if let Some(api) = &state.sessions {
        samples.extend(sessions(&api.sessions.statistics()));
    }
    samples.extend(state.login.iter().flat_map(|login| logins(login)));
    Ok((
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        text(&samples),
    ))
}

/// What HTTP and WebSockets refused.
fn refused(refusals: &Refusals) -> impl Iterator<Item = Sample> {
    let help = "Requests and messages that were refused, over HTTP and by session servers";
    refusals.counts().map(move |(reason, count)| {
        let labels = vec![("reason", reason.to_owned())];
        Sample {
            counter: true,
            ..gauge("sangam_api_refused_total", help, labels, count as f64)
        }
    })
}

/// What the WebRTC gateway counts.
fn webrtc(gateway: &WebRtc) -> Vec<Sample> {
    let peers = gateway.peers() as f64;
    let (name, help) = ("sangam_webrtc_peers", "WebRTC peers now");
    let counted = gateway.counts().into_iter().map(|counted| Sample {
        name: counted.name,
        help: counted.help,
        counter: true,
        labels: Vec::new(),
        value: counted.value as f64,
    });
    [gauge(name, help, Vec::new(), peers)]
        .into_iter()
        .chain(counted)
        .collect()
}

pub(super) type Labels = Vec<(&'static str, String)>;

pub(super) fn gauge(name: &'static str, help: &'static str, labels: Labels, value: f64) -> Sample {
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

/// What the session server counts.
fn sessions(counted: &Statistics) -> Vec<Sample> {
    let one = |name, help, counter, value: u64| Sample {
        counter,
        ..gauge(name, help, Vec::new(), value as f64)
    };
    let busy = "Share of its time the session server works, in percent";
    vec![
        one(
            "sangam_sessions",
            "Sessions this server holds",
            false,
            counted.sessions,
        ),
        one(
            "sangam_session_connections",
            "Members connected",
            false,
            counted.connections,
        ),
        one(
            "sangam_session_busy_percent",
            busy,
            false,
            counted.busy_percent,
        ),
        one(
            "sangam_session_records_total",
            "Changes kept",
            true,
            counted.records,
        ),
        one(
            "sangam_session_refused_total",
            "Changes refused",
            true,
            counted.refused,
        ),
        one(
            "sangam_session_news_total",
            "Events of sessions told on reliable topics",
            true,
            counted.told,
        ),
        one(
            "sangam_session_news_lost_total",
            "Changes that had no room on reliable topics",
            true,
            counted.untold,
        ),
    ]
}

/// Who came by the way in for people without a token.
fn logins(login: &Login) -> [Sample; 2] {
    let (done, refused) = login.counts();
    let one = |name, help, value: u64| Sample {
        counter: true,
        ..gauge(name, help, Vec::new(), value as f64)
    };
    [
        one("sangam_logins_total", "People who logged in", done),
        one(
            "sangam_logins_refused_total",
            "People who tried and were not let in",
            refused,
        ),
    ]
}

/// Memory and descriptors of this process.
pub(super) fn process() -> Vec<Sample> {
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
pub(super) fn text(samples: &[Sample]) -> String {
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
