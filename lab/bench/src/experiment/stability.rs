//! `stability`: a long ping over a loaded link (Fox et al., message-level measurement).

use std::time::Duration;

use sangam_emulator::{Emulator, Quality};

use super::Reports;
use crate::args::{Options, Receivers};
use crate::error::Error;
use crate::load::{Load, Media};
use crate::measure::Slice;
use crate::paper;
use crate::process::{Carrier, Queuing};
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row};
use crate::scenario::{self, Meeting, Plan, Stand, Venue, World};

/// Streams over the link, each of 80 packets of 1 KB a second, each with one measured receiver.
const STREAMS: usize = 40;
/// So that 3,200 probes a second are more than the paper's 129,600.
const SECONDS: u64 = 60;
/// The paper's: one a second for a day and a half.
const PROBES: f64 = 129_600.0;
const LOST_MAX: f64 = 1.0;
/// Half the paper's round trip, one way.
const DELAY: Duration = Duration::from_millis(45);
const SEED: u64 = 36;
/// What the link goes by.
const CARRIERS: [Carrier; 3] = [Carrier::Udp, Carrier::Quic, Carrier::Tls];

/// Publishes at one site and counts at the other, by every kind of link.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let seconds = options.seconds.unwrap_or(SECONDS);
    let mut progress = Progress::new(CARRIERS.len());
    let mut report = Report::new("stability", "Every packet of a loaded link is a probe");
    let mut slices = Vec::new();
    for carrier in CARRIERS {
        let by = carrier.name();
        progress.at(&format!("{STREAMS} streams for {seconds} s by {by}"));
        slices.extend(measure(&mut report, carrier, seconds)?);
        progress.step();
    }
    report.ours.extend(slices);
    report.plot = Some(Plot {
        x: "from_s",
        y: "latency_p99_ms",
        series: Some("transport"),
    });
    report.paper = paper::rows(paper::STABILITY);
    report.notes.push(
        "The paper pinged once a second for a day and a half over an idle path. Here each packet \
         of the load counts, publisher to broker, over the link of 90 ms of round trip, broker \
         to subscriber: latencies are of one way. --seconds sets how long. Rows with from_s are \
         of ten seconds each, the first and the last of what of them was measured."
            .to_owned(),
    );
    Ok(vec![("stability".to_owned(), report)])
}

/// Adds the row of a kind of link; the rows of its ten seconds.
fn measure(report: &mut Report, carrier: Carrier, seconds: u64) -> Result<Vec<Row>, Error> {
    let network = Emulator::new(&["us", "eu"], SEED).map_err(Error::Network)?;
    let delayed = network.control().set_both(0, 1, &Quality::delayed(DELAY));
    delayed.map_err(Error::Network)?;
    let plan = plan(Duration::from_secs(seconds));
    let outcome = scenario::run_in(&world(&network, carrier), &plan)?;
    let all = outcome.among(|_| true);
    let (expected, received) = all
        .as_ref()
        .map_or((0, 0), |all| (all.expected, all.reception.received));
    let lost = expected.saturating_sub(received);
    let mbps = STREAMS as f64 * Load::of(Media::Cloud).bits_per_s() / 1e6;
    let mut row = Row::default()
        .with("transport", carrier.name())
        .with("probes", expected)
        .with("lost", lost)
        .with("seconds", seconds)
        .with("out_mbps", mbps);
    let mut slices = Vec::new();
    if let Some(all) = all {
        super::columns::quality(&mut row, &all);
        let slice = |slice: Slice| {
            Row::default()
                .with("transport", carrier.name())
                .with("from_s", slice.from_s)
                .with("received", slice.packets)
                .with("latency_p50_ms", slice.p50_ms)
                .with("latency_p99_ms", slice.p99_ms)
                .with("latency_max_ms", slice.max_ms)
        };
        slices.extend(all.reception.slices.figures().into_iter().map(slice));
    }
    super::columns::cost(&mut row, &outcome);
    report.ours.push(row);
    let checks = [
        ("probes", expected as f64, Bound::AtLeast(PROBES)),
        ("lost", lost as f64, Bound::AtMost(LOST_MAX)),
    ];
    for (name, value, bound) in checks {
        let name = format!("{name} by {}", carrier.name());
        report.verdict.check(name, value, bound);
    }
    Ok(slices)
}

fn world(network: &Emulator, carrier: Carrier) -> World {
    let sites = network.sites();
    let stand = |number: usize| Stand {
        site: sites.get(number).cloned(),
        dials: number.checked_sub(1).into_iter().collect(),
    };
    let venue = |broker: usize| Venue {
        site: sites.get(broker).cloned(),
        broker,
    };
    World {
        brokers: [0, 1].map(stand).into(),
        places: [0, 1].map(venue).into(),
        paths: Some(network.control().clone()),
        carrier,
    }
}

fn plan(span: Duration) -> Plan {
    Plan {
        media: Media::Cloud,
        brokers: 2,
        shards: 1,
        queuing: Queuing::Double,
        meetings: vec![Meeting::measured_once(0, vec![0, 1]); STREAMS],
        receivers: Receivers::Read,
        span,
    }
}
