//! `meetings-single-broker`: one meeting of N against meetings of 20 (Wu et al., Figure 4).

use super::{BAD_PERCENT_MAX, Reports, columns, one_meeting, receivers, row_span, scaled};
use crate::args::Options;
use crate::error::Error;
use crate::load::Media;
use crate::machine;
use crate::paper;
use crate::process::Queuing;
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row};
use crate::scenario::{self, Meeting, Plan};

/// The figure reaches to 700 users, the largest number the paper's broker carried.
const USERS: [usize; 6] = [100, 200, 300, 400, 500, 700];
const MEETING: usize = 20;
/// Meetings whose first and last receivers are measured.
const MEASURED: usize = 3;

/// Measures both layouts at each size.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let mut progress = Progress::new(USERS.len() * 2);
    let title = "One video meeting of N users against meetings of 20, on one broker";
    let mut report = Report::new("meetings-single-broker", title);
    let mut worst = 0.0_f64;
    for layout in ["one meeting", "meetings of 20"] {
        for users in USERS.map(|users| scaled(users, options)) {
            progress.at(&format!("{layout}, {users} users"));
            let meetings = match layout {
                "one meeting" => one_meeting(vec![users]),
                _ => meetings_of_20(users),
            };
            let plan = Plan {
                media: Media::Video,
                brokers: 1,
                shards: options.shards.unwrap_or_else(machine::cores),
                queuing: Queuing::Double,
                meetings,
                receivers: receivers(options),
                span: row_span(options),
            };
            let outcome = scenario::run(&plan)?;
            let mut row = Row::default()
                .with("layout", layout)
                .with("users", plan.participants())
                .with("meetings", plan.meetings.len());
            if let Some(all) = outcome.among(|_| true) {
                columns::quality(&mut row, &all);
            }
            columns::cost(&mut row, &outcome);
            worst = worst.max(outcome.worst_percent());
            report.ours.push(row);
            progress.step();
        }
    }
    report.headline.set("receivers", receivers(options).name());
    report.paper = paper::rows(paper::MEETINGS_SINGLE_BROKER);
    report.plot = Some(Plot {
        x: "users",
        y: "latency_avg_ms",
        series: Some("layout"),
    });
    report.notes.push(
        "Latency, jitter and loss are those of the first and the last receiver of the meeting, \
         or of three of the meetings of 20."
            .to_owned(),
    );
    let name = "lost and late at any measured receiver, in percent";
    report
        .verdict
        .check(name, worst, Bound::AtMost(BAD_PERCENT_MAX));
    Ok(vec![("meetings-single-broker".to_owned(), report)])
}

fn meetings_of_20(users: usize) -> Vec<Meeting> {
    let meeting = |number| {
        let users = vec![MEETING];
        if number < MEASURED {
            Meeting::measured(0, users)
        } else {
            Meeting::passive(0, users)
        }
    };
    (0..users.div_ceil(MEETING)).map(meeting).collect()
}
