//! `single-meeting`: one video meeting over four brokers (Uyar & Fox, Tables 4 and 5).

use super::{Reports, columns, one_meeting, receivers, row_span, scaled};
use crate::args::Options;
use crate::error::Error;
use crate::load::Media;
use crate::paper;
use crate::process::Queuing;
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row};
use crate::scenario::{self, Outcome, Place, Plan};

const BROKERS: usize = 4;
const USERS_PER_BROKER: [usize; 5] = [200, 300, 400, 500, 900];
/// The size that is held to the paper's: four brokers carried 1,600 users.
const HELD: usize = 400;

/// Measures each of the paper's sizes.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let mut progress = Progress::new(USERS_PER_BROKER.len());
    let title = "One video meeting over a chain of four brokers, last users of each";
    let mut report = Report::new("single-meeting", title);
    for size in USERS_PER_BROKER {
        let users = scaled(size, options);
        progress.at(&format!("{} users", users * BROKERS));
        let outcome = scenario::run(&Plan {
            media: Media::Video,
            brokers: BROKERS,
            shards: options.shards.unwrap_or(1),
            queuing: Queuing::Double,
            meetings: one_meeting(vec![users; BROKERS]),
            receivers: receivers(options),
            span: row_span(options),
        })?;
        push_rows(&mut report, users, &outcome);
        if size == HELD {
            hold(&mut report, users * BROKERS, &outcome);
        }
        progress.step();
    }
    report.headline.set("receivers", receivers(options).name());
    report.paper = paper::rows(paper::SINGLE_MEETING);
    report.plot = Some(Plot {
        x: "users",
        y: "latency_last_ms",
        series: Some("broker"),
    });
    Ok(vec![("single-meeting".to_owned(), report)])
}

fn push_rows(report: &mut Report, users: usize, outcome: &Outcome) {
    for broker in 0..BROKERS {
        let Some(last) = outcome.at(broker, Place::Last) else {
            continue;
        };
        let mut row = Row::default()
            .with("users_per_broker", users)
            .with("users", users * BROKERS)
            .with("broker", broker + 1)
            .with("latency_last_ms", last.reception.mean_ms());
        columns::quality(&mut row, &last);
        if broker == 0 {
            columns::cost(&mut row, outcome);
        }
        report.ours.push(row);
    }
}

/// Four brokers in a chain carry the paper's number with zero loss and p99 below 10 ms.
pub(super) fn hold(report: &mut Report, users: usize, outcome: &Outcome) {
    if let Some(all) = outcome.among(|_| true) {
        let lost = all.expected.saturating_sub(all.reception.received) as f64;
        let p99 = all.reception.percentile_ms(99.0);
        report.verdict.check(
            format!("{users} users: packets lost"),
            lost,
            Bound::AtMost(0.0),
        );
        let name = format!("{users} users: latency p99 in ms");
        report.verdict.check(name, p99, Bound::AtMost(10.0));
    }
}
