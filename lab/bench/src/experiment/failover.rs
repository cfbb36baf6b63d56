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
use crate::report::{Bound, Report};
use failure::{ALL, Failure};
use found::Found;
use gaps::Log;
use stage::{Pair, Stage};
use ways::{MESH, Part, RING, TRIANGLE, Topology};

/// How often each failure happens: each broker and each link of the ring once.
const REPETITIONS: usize = 4;
/// Passive subscribers of each of the eight streams at each broker.
const PASSIVE: usize = 10;

/// Before each failure, so that streams are back on their shortest ways.
const CALM: Duration = Duration::from_secs(4);
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
                std::thread::sleep(CALM);
                let part = failure.part(&topology, repetition);
                episodes.push(failure.happen(part, &mut stage, (OUTAGE, PATIENCE))?);
                progress.step();
            }
        }
        std::thread::sleep(CALM);
        let pairs = stage.finish()?;
        let logs = logs(&pairs);
        for failure in ALL {
            let same = episodes.iter().filter(|episode| episode.failure == failure);
            let found = Found::of(&topology, same, &logs);
            let network = (&topology, carrier);
            found.check(&mut report.verdict, network, failure);
            report.ours.extend(found.rows(network, failure));
        }
    }
    Ok(vec![("failover".to_owned(), report)])
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
