//! `double-queue`: neighbours in their own queue or not (Uyar & Fox, Tables 1 to 3).

use std::time::Duration;

use super::loaded::{self, Capacity, Tried};
use super::{Reports, columns, one_meeting, receivers, row_span, scaled};
use crate::args::{Options, Receivers};
use crate::error::Error;
use crate::load::{Load, Media};
use crate::paper;
use crate::process::Queuing;
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row, Value};
use crate::scenario::{self, Outcome, Place, Plan, Seen};

/// Queuing and users at the two brokers, as in the paper's three tables.
const TABLES: [(Queuing, [usize; 2]); 3] = [
    (Queuing::Single, [400, 6]),
    (Queuing::Double, [400, 6]),
    (Queuing::Double, [200, 200]),
];

/// How long each step of the search for the first broker's load is measured.
const SEARCH_SPAN: Duration = Duration::from_secs(4);
/// Users at the second broker while the first is loaded.
const FEW: usize = 6;

const MEDIAN_MS: f64 = 1.0;
const P99_MS_MAX: f64 = 3.0;

struct Case {
    queuing: Queuing,
    users: [usize; 2],
    receivers: Receivers,
    /// The first broker's capacity, if it is at 80 % of that.
    loaded: Option<Capacity>,
}

/// Measures the paper's cases, then both kinds of queuing with a loaded first broker.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let mut progress = Progress::new(TABLES.len() + 2);
    let title = "One video meeting on two brokers, the first one loaded";
    let mut report = Report::new("double-queue", title);
    for (queuing, users) in TABLES {
        progress.at(&format!("{} queue, {users:?} users", queuing.name()));
        let users = users.map(|users| scaled(users, options));
        let case = Case {
            queuing,
            users,
            receivers: receivers(options),
            loaded: None,
        };
        measure(&mut report, &case, row_span(options))?;
        progress.step();
    }
    let load = Load::of(Media::Video);
    for queuing in [Queuing::Single, Queuing::Double] {
        progress.at(&format!("{} queue, first broker loaded", queuing.name()));
        let case = |many, loaded| Case {
            queuing,
            users: [many, FEW],
            receivers: Receivers::Sink,
            loaded,
        };
        let capacity = loaded::find(|users| {
            let outcome = scenario::run(&plan(&case(users, None), SEARCH_SPAN))?;
            Ok(Tried::of(&outcome, 0, &load))
        })?;
        let many = scaled(capacity.loaded(), options);
        let outcome = measure(&mut report, &case(many, Some(capacity)), row_span(options))?;
        let what = format!("{} queue, first broker loaded", queuing.name());
        capacity.check(&mut report.verdict, &what, many);
        hold(
            &mut report,
            queuing,
            outcome.among(|probe| probe.broker == 1),
        );
        progress.step();
    }
    report.paper = paper::rows(paper::DOUBLE_QUEUE);
    for row in report.ours.iter_mut().chain(&mut report.paper) {
        let case = name_of(row);
        row.set("case", case);
    }
    report.plot = Some(Plot {
        x: "broker",
        y: "latency_last_ms",
        series: Some("case"),
    });
    report.notes = notes();
    Ok(vec![("double-queue".to_owned(), report)])
}

fn plan(case: &Case, span: Duration) -> Plan {
    Plan {
        media: Media::Video,
        brokers: 2,
        // The paper's broker has one routing thread.
        shards: 1,
        queuing: case.queuing,
        meetings: one_meeting(case.users.to_vec()),
        receivers: case.receivers,
        span,
    }
}

fn measure(report: &mut Report, case: &Case, span: Duration) -> Result<Outcome, Error> {
    let outcome = scenario::run(&plan(case, span))?;
    for broker in 0..2 {
        let mut row = Row::default()
            .with("queuing", case.queuing.name())
            .with("users_first", case.users[0])
            .with("users_second", case.users[1])
            .with("broker", broker + 1)
            .with("loaded", case.loaded.is_some())
            .with("receivers", case.receivers.name());
        for (column, place) in [
            ("latency_first_ms", Place::First),
            ("latency_last_ms", Place::Last),
        ] {
            if let Some(seen) = outcome.at(broker, place) {
                row.set(column, seen.reception.mean_ms());
            }
        }
        if let Some(all) = outcome.among(|probe| probe.broker == broker) {
            columns::quality(&mut row, &all);
        }
        if let Some(capacity) = &case.loaded {
            capacity.tell(&mut row);
        }
        if broker == 0 {
            let busiest = loaded::busiest_percent(&outcome, broker);
            row.set("busiest_thread_percent", busiest);
            columns::cost(&mut row, &outcome);
        }
        report.ours.push(row);
    }
    Ok(outcome)
}

/// What a row is about, such as `double queue, 400 + 6 users`: a line of the picture.
fn name_of(row: &Row) -> String {
    let text = |name| row.get(name).map(Value::to_text).unwrap_or_default();
    let (first, second) = (text("users_first"), text("users_second"));
    format!("{} queue, {first} + {second} users", text("queuing"))
}

fn hold(report: &mut Report, queuing: Queuing, second: Option<Seen>) {
    let percentile = |percent| {
        second
            .as_ref()
            .map_or(f64::NAN, |seen| seen.reception.percentile_ms(percent))
    };
    let name = |what| {
        format!(
            "{} queue, first broker loaded: second's {what}",
            queuing.name()
        )
    };
    match queuing {
        Queuing::Double => {
            let (median, p99) = (percentile(50.0), percentile(99.0));
            report
                .verdict
                .check(name("median in ms"), median, Bound::AtMost(MEDIAN_MS));
            report
                .verdict
                .check(name("p99 in ms"), p99, Bound::AtMost(P99_MS_MAX));
        }
        Queuing::Single => {
            let median = percentile(50.0);
            report
                .verdict
                .check(name("median in ms"), median, Bound::AtLeast(MEDIAN_MS));
        }
    }
}

fn notes() -> Vec<String> {
    [
        "`single` is the paper's baseline: one first-come-first-served thread that serves \
         neighbours first within each packet.",
        "In the loaded rows the first broker has 80 % of the participants that it can serve with \
         this kind of queuing: the middle between the most that it served in a search \
         (`served_users`) and the fewest that were too many, twice (`overloading_users`: \
         something dropped, or more than 1 % lost or late at somebody). They are sinks, so that \
         reading does not take the brokers' processors.",
    ]
    .map(str::to_owned)
    .to_vec()
}
