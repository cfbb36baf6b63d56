//! `meetings-20` and `meetings-40`: many meetings over four brokers (Uyar & Fox, Tables 6 to 13).

use super::{Reports, columns, receivers, row_span, scaled, single_meeting, spread};
use crate::args::Options;
use crate::error::Error;
use crate::load::Media;
use crate::paper;
use crate::process::Queuing;
use crate::progress::Progress;
use crate::report::{Plot, Report, Row};
use crate::scenario::{self, Meeting, Outcome, Place, Plan, Probe};

const BROKERS: usize = 4;
/// Meetings that are measured, all published through the first broker.
const MEASURED: usize = 3;

struct Series {
    name: &'static str,
    title: &'static str,
    /// Receivers of one meeting.
    size: usize,
    /// Numbers of meetings.
    meetings: &'static [usize],
    /// The number that is held to the paper's result, if any.
    held: Option<usize>,
    paper: &'static [paper::Table],
}

/// Meetings of 20.
pub(super) fn run_20(options: &Options) -> Result<Reports, Error> {
    run(
        options,
        &Series {
            name: "meetings-20",
            title: "Video meetings of 20 over a chain of four brokers",
            size: 20,
            meetings: &[24, 48, 72, 96],
            held: None,
            paper: paper::MEETINGS_OF_20,
        },
    )
}

/// Meetings of 40.
pub(super) fn run_40(options: &Options) -> Result<Reports, Error> {
    run(
        options,
        &Series {
            name: "meetings-40",
            title: "Video meetings of 40 over a chain of four brokers",
            size: 40,
            meetings: &[40, 48, 60],
            held: Some(48),
            paper: paper::MEETINGS_OF_40,
        },
    )
}

fn run(options: &Options, series: &Series) -> Result<Reports, Error> {
    let mut progress = Progress::new(series.meetings.len());
    let mut report = Report::new(series.name, series.title);
    for &count in series.meetings {
        let meetings = scaled(count, options);
        progress.at(&format!("{meetings} meetings"));
        let plan = Plan {
            media: Media::Video,
            brokers: BROKERS,
            shards: options.shards.unwrap_or(1),
            queuing: Queuing::Double,
            meetings: (0..meetings)
                .map(|number| meeting(number, series.size))
                .collect(),
            receivers: receivers(options),
            span: row_span(options),
        };
        let outcome = scenario::run(&plan)?;
        push_rows(&mut report, &plan, &outcome);
        if series.held == Some(count) {
            single_meeting::hold(&mut report, plan.participants(), &outcome);
        }
        progress.step();
    }
    report.verdict.conclude();
    report.headline.set("receivers", receivers(options).name());
    report.paper = paper::rows(series.paper);
    report.plot = Some(Plot {
        x: "users",
        y: "latency_avg_ms",
        series: Some("broker"),
    });
    Ok(vec![(series.name.to_owned(), report)])
}

/// Publishers take turns over the brokers; the first three of the first broker are measured,
/// with one receiver at each broker.
fn meeting(number: usize, size: usize) -> Meeting {
    let mut meeting = Meeting::passive(number % BROKERS, spread(size, BROKERS));
    if number.is_multiple_of(BROKERS) && number / BROKERS < MEASURED {
        let probe = |broker| Probe {
            broker,
            place: Place::Last,
        };
        meeting.probes = (0..BROKERS).map(probe).collect();
    }
    meeting
}

fn push_rows(report: &mut Report, plan: &Plan, outcome: &Outcome) {
    for broker in 0..BROKERS {
        let Some(seen) = outcome.at(broker, Place::Last) else {
            continue;
        };
        let mut row = Row::default()
            .with("meetings", plan.meetings.len())
            .with("users", plan.participants())
            .with("broker", broker + 1);
        columns::quality(&mut row, &seen);
        if broker == 0 {
            columns::cost(&mut row, outcome);
        }
        report.ours.push(row);
    }
}
