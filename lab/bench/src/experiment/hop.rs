//! `hop`: what a broker adds to the way of an event while its own participants take 80 % of it.

use std::time::Duration;

use super::loaded::{self, Capacity, Tried};
use super::{Reports, columns, row_span, scaled};
use crate::args::{Options, Receivers};
use crate::error::Error;
use crate::load::{Load, Media};
use crate::process::Queuing;
use crate::progress::Progress;
use crate::report::{Bound, Report, Row};
use crate::scenario::{self, Meeting, Outcome, Plan};

/// Measured participants at the end of the way.
const FEW: usize = 6;
/// The broker on the way.
const BETWEEN: usize = 1;
/// How long each step of the search for its load is measured.
const SEARCH_SPAN: Duration = Duration::from_secs(4);
/// What a hop may add to the median.
const HOP_MS_MAX: f64 = 0.3;

/// What is between the first broker and the last.
struct Way {
    name: &'static str,
    /// Participants at each broker; the stream enters at the first.
    users: Vec<usize>,
    /// The capacity of the one between, if it is at 80 % of that.
    loaded: Option<Capacity>,
}

/// Measures the last broker's latency with nothing between, an idle broker, and a loaded one.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let mut report = Report::new("hop", "What a broker on the way adds to a video event");
    let mut progress = Progress::new(4);
    progress.at("how many participants a broker could carry");
    let load = Load::of(Media::Video);
    let capacity = loaded::find(|users| {
        let outcome = pass(&[2, users, FEW], SEARCH_SPAN)?;
        Ok(Tried::of(&outcome, BETWEEN, &load))
    })?;
    let many = scaled(capacity.loaded(), options);
    capacity.check(&mut report.verdict, "a loaded broker between", many);
    progress.step();
    let way = |name, users: &[usize], loaded| Way {
        name,
        users: users.to_vec(),
        loaded,
    };
    let ways = [
        way("two brokers", &[2, FEW], None),
        way("an idle broker between", &[2, 2, FEW], None),
        way("a loaded broker between", &[2, many, FEW], Some(capacity)),
    ];
    let mut medians = Vec::new();
    for way in &ways {
        progress.at(way.name);
        medians.push(measure(&mut report, way, options)?);
        progress.step();
    }
    for (way, median) in ways.iter().zip(&medians).skip(1) {
        let name = format!("{}: added to the median, in ms", way.name);
        let bound = Bound::AtMost(HOP_MS_MAX);
        report.verdict.check(name, median - medians[0], bound);
    }
    report.notes = notes();
    Ok(vec![("hop".to_owned(), report)])
}

/// The median at the last broker, in milliseconds.
fn measure(report: &mut Report, way: &Way, options: &Options) -> Result<f64, Error> {
    let outcome = pass(&way.users, row_span(options))?;
    let mut row = Row::default()
        .with("way", way.name)
        .with("brokers", way.users.len())
        .with("users", way.users.iter().sum::<usize>())
        .with("loaded", way.loaded.is_some());
    if way.users.len() > 2 {
        let busiest = loaded::busiest_percent(&outcome, BETWEEN);
        row.set("busiest_thread_percent", busiest);
        if let Some(capacity) = &way.loaded {
            capacity.tell(&mut row);
        }
    }
    let last = outcome.among(|probe| probe.broker + 1 == way.users.len());
    let median = last
        .as_ref()
        .map_or(f64::NAN, |seen| seen.reception.percentile_ms(50.0));
    if let Some(seen) = &last {
        columns::quality(&mut row, seen);
    }
    columns::cost(&mut row, &outcome);
    report.ours.push(row);
    Ok(median)
}

/// The stream from the first broker to all, with so many participants at each.
fn pass(users: &[usize], span: Duration) -> Result<Outcome, Error> {
    scenario::run(&Plan {
        media: Media::Video,
        brokers: users.len(),
        shards: 1,
        queuing: Queuing::Double,
        meetings: vec![Meeting::measured(0, users.to_vec())],
        receivers: Receivers::Sink,
        span,
    })
}

fn notes() -> Vec<String> {
    [
        "Latencies are those of the last broker's measured participants. What a broker between \
         adds is the difference of the medians to the way of two brokers.",
        "The loaded broker has 80 % of the participants that it can serve: the middle between the \
         most that it served in a search (`served_users`) and the fewest that were too many, \
         twice (`overloading_users`: something dropped, or more than 1 % lost or late at \
         somebody). They are sinks, so that reading does not take the brokers' processors.",
    ]
    .map(str::to_owned)
    .to_vec()
}
