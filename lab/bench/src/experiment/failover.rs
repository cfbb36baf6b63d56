//! `failover`: what subscribers notice when links and brokers fail, and how soon all is well again.

mod failure;
mod found;
mod gaps;
mod stage;
mod ways;

use std::time::Duration;

use super::Reports;
use crate::args::Options;
use crate::error::Error;
use crate::load::Load;
use crate::measure::Reception;
use crate::process::Carrier;
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row};
use failure::{ALL, Failure};
use found::Found;
use gaps::Log;
use stage::{Pair, Stage};
use ways::{MESH, Part, RING, TRIANGLE, Topology};

/// How often each failure happens: each broker and each link of the ring once.
const REPETITIONS: usize = 4;
/// Passive subscribers of each of the eight streams at each broker.
const PASSIVE: usize = 10;

/// What counts as calm before a failure.
const CALM: Duration = Duration::from_secs(4);
/// Before each failure, so that streams are back on their shortest ways. By QUIC that has taken
/// 10 s: such a link is dialled anew.
const BACK: Duration = Duration::from_secs(4);
const BACK_DIALLED: Duration = Duration::from_secs(14);
/// From failure to mending: the network has settled again long before.
const OUTAGE: Duration = Duration::from_millis(2_500);
/// How long full service may take to return.
const PATIENCE: Duration = Duration::from_secs(20);
/// From the first packets until weights follow from measurements.
const SETTLE: Duration = Duration::from_secs(4);

/// Brokers and what their links go by: every carrier where ways lead through a third broker.
const NETWORKS: [(Topology, Carrier); 4] = [
    (RING, Carrier::Udp),
    (RING, Carrier::Quic),
    (RING, Carrier::Tls),
    (MESH, Carrier::Udp),
];

/// Measures every network.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let title = "Media while links and brokers fail, under audio and video from each of four \
                 brokers to all";
    let mut report = Report::new("failover", title);
    report.notes = notes();
    let repetitions = ((REPETITIONS as f64 * options.scale).round() as usize).max(1);
    let mut progress = Progress::new(NETWORKS.len() * ALL.len() * repetitions);
    for (topology, carrier) in NETWORKS {
        let mut stage = Stage::new(&topology, carrier, PASSIVE)?;
        std::thread::sleep(SETTLE);
        let mut episodes = Vec::new();
        for failure in ALL {
            for repetition in 0..repetitions {
                let network = format!("{} by {}", topology.name, carrier.name());
                progress.at(&format!("{network}, {}", failure.name()));
                std::thread::sleep(match carrier {
                    Carrier::Udp => BACK,
                    Carrier::Quic | Carrier::Tls => BACK_DIALLED,
                });
                let part = failure.part(&topology, repetition);
                episodes.push(failure.happen(part, &mut stage, (OUTAGE, PATIENCE))?);
                progress.step();
            }
        }
        std::thread::sleep(CALM);
        let pairs = stage.finish()?;
        let logs = logs(&pairs);
        let mut gaps = Vec::new();
        for failure in ALL {
            let same = episodes.iter().filter(|episode| episode.failure == failure);
            let found = Found::of(&topology, same, &logs);
            let network = (&topology, carrier);
            found.check(&mut report.verdict, network, failure);
            report.ours.extend(found.rows(network, failure));
            gaps.extend(found.gaps_ms());
        }
        let name = format!("{} by {}", topology.name, carrier.name());
        report.drawn.extend(ranked(&name, gaps));
    }
    report.plot = Some(Plot {
        x: "subscribers_percent",
        y: "gap_ms",
        series: Some("network"),
    });
    Ok(vec![("failover".to_owned(), report)])
}

/// Gaps by the share of subscribers that had no longer one: a line of the picture.
fn ranked(network: &str, mut gaps_ms: Vec<f64>) -> Vec<Row> {
    gaps_ms.sort_by(f64::total_cmp);
    let all = gaps_ms.len() as f64;
    let row = |(rank, gap): (usize, f64)| {
        Row::default()
            .with("network", network)
            .with("subscribers_percent", (rank + 1) as f64 * 100.0 / all)
            .with("gap_ms", gap)
    };
    gaps_ms.into_iter().enumerate().map(row).collect()
}

/// One broker of three dies and comes back, in a few seconds and without a bound on time.
///
/// # Errors
/// If sites cannot be made, a broker does not start or participants cannot join.
pub(super) fn smoke(report: &mut Report) -> Result<(), Error> {
    const DEAD: usize = 1;
    let mut stage = Stage::new(&TRIANGLE, Carrier::Udp, 1)?;
    Failure::Kill.begin(Part::Broker(DEAD), &mut stage)?;
    // What is on its way still arrives.
    std::thread::sleep(OUTAGE / 5);
    let gone = stage.pairs().iter().filter(|pair| pair.is_at(DEAD)).count() as u64;
    let killed = stage.wait_served(gone, PATIENCE);
    Failure::Kill.end(Part::Broker(DEAD), &mut stage)?;
    let restarted = stage.wait_served(0, PATIENCE);
    let again: u64 = stage.finish()?.iter().map(|(_, got)| got.duplicates).sum();
    for (what, count, most) in [
        (
            "subscribers not served while a broker is dead",
            killed,
            gone,
        ),
        ("subscribers not served when it is back", restarted, 0),
        ("events delivered twice", again, 0),
    ] {
        let name = format!("a broker of three killed: {what}");
        report
            .verdict
            .check(name, count as f64, Bound::AtMost(most as f64));
    }
    Ok(())
}

fn notes() -> Vec<String> {
    [
        "A gap is the longest time between two events of a stream at a measured subscriber, from \
         the failure to its mending 2.5 s later, less the stream's own interval (30 ms audio, \
         66.7 ms video). Rows count subscribers that stay reachable and whose way crossed what \
         failed; their ways are told by their shortest latency in the second before. \
         calm_gap_max_ms is the largest gap of the same subscribers in the 4 s before: what the \
         machine itself does. In the mesh no way leads through another broker.",
        "others_lost counts what subscribers lost whose way did not cross what failed, and \
         others_gap_max_ms is their longest gap; mending_lost is what was lost by those whose way \
         crossed it from the mending until all were served again. \
         Subscribers and publishers of the killed or frozen broker itself are counted as \
         duplicates and in restored_ms only.",
        "restored_ms is the time from mending (the link passes again, the broker goes on or is \
         started anew) until every subscriber of every broker gets events again; way_back_ms \
         until the slowest of those in the row is served by its former way. Clients take a \
         broker for dead after 2 s of silence, so those of a killed one come back some 2 s after \
         the kill.",
        "Ring: 20, 30, 20 and 10 ms of round trip between neighbours; mesh: 30 ms each.",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn logs(pairs: &[(Pair, Reception)]) -> Vec<(Pair, Log<'_>)> {
    let entries = pairs.iter().map(|(pair, reception)| {
        let arrivals = reception.arrivals.as_deref().unwrap_or_default();
        (*pair, Log::new(arrivals, Load::of(pair.media).interval))
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_subscribers_have_the_shorter_gaps() {
        let rows = ranked("a ring", vec![200.0, 10.0, 300.0, 20.0]);
        let points: Vec<_> = rows
            .iter()
            .map(|row| (row.number("subscribers_percent"), row.number("gap_ms")))
            .collect();
        assert_eq!(points[1], (Some(50.0), Some(20.0)));
        assert_eq!(points[3], (Some(100.0), Some(300.0)));
    }
}
