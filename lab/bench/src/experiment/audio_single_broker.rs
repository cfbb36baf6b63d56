//! `audio-single-broker`: one audio meeting, one broker (Wu et al., Table 1).

use super::{BAD_PERCENT_MAX, Reports, columns, one_meeting, receivers, row_span, scaled};
use crate::args::Options;
use crate::error::Error;
use crate::load::{Load, Media};
use crate::machine;
use crate::paper;
use crate::process::Queuing;
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row};
use crate::scenario::{self, Place, Plan};

const USERS: [usize; 8] = [12, 100, 400, 800, 1200, 1400, 1500, 1600];

/// Measures each of the paper's sizes.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let mut progress = Progress::new(USERS.len());
    let mut report = Report::new("audio-single-broker", "One audio meeting on one broker");
    let mut worst = 0.0_f64;
    for users in USERS.map(|users| scaled(users, options)) {
        progress.at(&format!("{users} users"));
        let outcome = scenario::run(&Plan {
            media: Media::Audio,
            brokers: 1,
            shards: options.shards.unwrap_or_else(machine::cores),
            queuing: Queuing::Double,
            meetings: one_meeting(vec![users]),
            receivers: receivers(options),
            span: row_span(options),
        })?;
        let mut row = Row::default().with("users", users);
        for (column, place) in [
            ("latency_first_ms", Place::First),
            ("latency_last_ms", Place::Last),
        ] {
            if let Some(seen) = outcome.at(0, place) {
                row.set(column, seen.reception.mean_ms());
            }
        }
        if let Some(all) = outcome.among(|_| true) {
            columns::quality(&mut row, &all);
        }
        let mbps = users as f64 * Load::of(Media::Audio).bits_per_s() / 1e6;
        row.set("out_mbps", mbps);
        columns::cost(&mut row, &outcome);
        worst = worst.max(outcome.worst_percent());
        report.ours.push(row);
        progress.step();
    }
    report.headline.set("receivers", receivers(options).name());
    report.paper = paper::rows(paper::AUDIO_SINGLE_BROKER);
    report.plot = Some(Plot {
        x: "users",
        y: "latency_last_ms",
        series: None,
    });
    let name = "lost and late at any measured receiver, in percent";
    report
        .verdict
        .check(name, worst, Bound::AtMost(BAD_PERCENT_MAX));
    Ok(vec![("audio-single-broker".to_owned(), report)])
}
