//! `cloud-voip`, `cloud-voip-90ms`: meetings of 200 with 1 KB every 12.5 ms, beside the broker and
//! far from it (Fox et al., Table 1).

use std::time::Duration;

use sangam_emulator::{Emulator, Quality};

use super::{Reports, columns, receivers, row_span};
use crate::args::Options;
use crate::error::Error;
use crate::load::Media;
use crate::machine;
use crate::paper;
use crate::process::{Carrier, Queuing};
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row};
use crate::scenario::{self, Meeting, Outcome, Plan, Seen, Stand, Venue, World};

const MEETING: usize = 200;
const USERS: [usize; 11] = [200, 400, 600, 800, 1200, 1400, 1600, 1800, 2000, 2200, 2400];

/// Cisco's guideline as the paper quotes it.
const ROUND_TRIP_MS_MAX: f64 = 300.0;
const JITTER_MS_MAX: f64 = 60.0;
const LOSS_PERCENT_MAX: f64 = 1.0;

/// Half the paper's smallest round trip: the ocean, one way.
const OCEAN: Duration = Duration::from_millis(45);
const SEED: u64 = 90;

/// Measures each of the paper's sizes with everybody beside the broker.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let mut report = Report::new("cloud-voip", "VoIP meetings of 200 on one broker");
    report.notes.push(
        "The paper's round trip is publisher to broker to subscriber, both ends in the USA and \
         the broker in Europe, some 90 ms of it the ocean. Ours is the same way without the ocean."
            .to_owned(),
    );
    measure(options, &World::chain(1), &mut report)?;
    Ok(vec![("cloud-voip".to_owned(), report)])
}

/// The same with publishers and subscribers in the USA and the broker in Europe.
pub(super) fn run_across(options: &Options) -> Result<Reports, Error> {
    let title = "VoIP meetings of 200 in the USA on one broker in Europe, 90 ms of round trip";
    let mut report = Report::new("cloud-voip-90ms", title);
    report.notes.push(
        "The round trip is publisher to broker to subscriber, as the paper's. The emulator delays \
         each way by 45 ms, evenly and without loss; its thread runs on the same machine."
            .to_owned(),
    );
    let network = Emulator::new(&["us", "eu"], SEED).map_err(Error::Network)?;
    let paths = network.control();
    paths
        .set_both(0, 1, &Quality::delayed(OCEAN))
        .map_err(Error::Network)?;
    let [us, eu] = [0, 1].map(|number| network.sites().get(number).cloned());
    let world = World {
        brokers: vec![Stand {
            site: eu,
            dials: Vec::new(),
        }],
        places: vec![Venue {
            site: us,
            broker: 0,
        }],
        paths: Some(paths.clone()),
        carrier: Carrier::Udp,
    };
    measure(options, &world, &mut report)?;
    Ok(vec![("cloud-voip-90ms".to_owned(), report)])
}

fn measure(options: &Options, world: &World, report: &mut Report) -> Result<(), Error> {
    let mut progress = Progress::new(USERS.len());
    let mut failed = 0_u32;
    for users in USERS {
        let meetings = (users as f64 / MEETING as f64 * options.scale).ceil() as usize;
        progress.at(&format!("{meetings} meetings"));
        let plan = Plan {
            media: Media::Cloud,
            brokers: 1,
            shards: options.shards.unwrap_or_else(machine::cores),
            queuing: Queuing::Double,
            meetings: vec![Meeting::measured(0, vec![MEETING]); meetings],
            receivers: receivers(options),
            span: row_span(options),
        };
        let outcome = scenario::run_in(world, &plan)?;
        let row = row(meetings * MEETING, &outcome, &mut failed);
        report.ours.push(row);
        progress.step();
    }
    report.headline.set("receivers", receivers(options).name());
    report.paper = paper::rows(paper::CLOUD_VOIP);
    for row in &mut report.paper {
        let bad = row.number("latency_max_ms") > Some(ROUND_TRIP_MS_MAX)
            || row.number("jitter_ms") >= Some(JITTER_MS_MAX);
        row.set("cisco", if bad { "fails" } else { "passes" });
    }
    report.plot = Some(Plot {
        x: "users",
        y: "latency_max_ms",
        series: None,
    });
    report.notes.push(
        "Cisco's guideline: maximum round trip at most 300 ms, mean jitter below 60 ms, loss \
         below 1 %. The paper gives no loss per row."
            .to_owned(),
    );
    let name = "rows that fail Cisco's guideline";
    report
        .verdict
        .check(name, f64::from(failed), Bound::AtMost(0.0));
    Ok(())
}

fn row(users: usize, outcome: &Outcome, failed: &mut u32) -> Row {
    let mut row = Row::default().with("users", users);
    if let Some(all) = outcome.among(|_| true) {
        row.set("latency_min_ms", all.reception.min_ms());
        columns::quality(&mut row, &all);
        let passes = passes(&all);
        *failed += u32::from(!passes);
        row.set("cisco", if passes { "passes" } else { "fails" });
    }
    columns::cost(&mut row, outcome);
    row
}

fn passes(seen: &Seen) -> bool {
    seen.reception.max_ms() <= ROUND_TRIP_MS_MAX
        && seen.reception.jitter_ms() < JITTER_MS_MAX
        && seen.reception.loss_percent(seen.expected) < LOSS_PERCENT_MAX
}
