//! `audio-chain` and `chain-10`: how far a packet gets over many brokers.

use super::{BAD_PERCENT_MAX, Reports, columns, one_meeting, row_span, scaled};
use crate::args::{Options, Receivers};
use crate::error::Error;
use crate::load::Media;
use crate::paper;
use crate::process::Queuing;
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row};
use crate::scenario::{self, Outcome, Plan};

/// Wu et al., section 4.1: 6,400 participants over four brokers.
const AUDIO_BROKERS: usize = 4;
const AUDIO_USERS: usize = 1_600;
/// Uyar & Fox, section 3.1: ten brokers, "relatively loaded": the 400 users of Table 2, spread.
const TEN: usize = 10;
const TEN_USERS: usize = 40;
const TEN_MS_MAX: f64 = 10.0;

/// One audio conference over four brokers.
pub(super) fn run_audio(options: &Options) -> Result<Reports, Error> {
    let users = vec![scaled(AUDIO_USERS, options); AUDIO_BROKERS];
    let title = "One audio conference over a chain of four brokers";
    let mut report = Report::new("audio-chain", title);
    // Four machines' readers on one would take the processors from the brokers.
    let receivers = options.receivers.unwrap_or(Receivers::Sink);
    report.headline.set("receivers", receivers.name());
    let outcome = measure(options, (Media::Audio, receivers), &users)?;
    push_rows(&mut report, &users, &outcome);
    report.paper = paper::rows(paper::AUDIO_CHAIN);
    let name = "lost and late at any measured receiver, in percent";
    report.verdict.check(
        name,
        outcome.worst_percent(),
        Bound::AtMost(BAD_PERCENT_MAX),
    );
    Ok(vec![("audio-chain".to_owned(), report)])
}

/// One video meeting over ten brokers.
pub(super) fn run_ten(options: &Options) -> Result<Reports, Error> {
    let users = vec![scaled(TEN_USERS, options); TEN];
    let mut report = Report::new("chain-10", "One video meeting over a chain of ten brokers");
    let receivers = super::receivers(options);
    report.headline.set("receivers", receivers.name());
    let outcome = measure(options, (Media::Video, receivers), &users)?;
    push_rows(&mut report, &users, &outcome);
    report.paper = paper::rows(paper::CHAIN_OF_TEN);
    let last = outcome.among(|probe| probe.broker + 1 == TEN);
    let mean = last.map_or(f64::NAN, |seen| seen.reception.mean_ms());
    let name = "mean latency at the tenth broker in ms (the paper's claim)";
    report.verdict.check(name, mean, Bound::AtMost(TEN_MS_MAX));
    Ok(vec![("chain-10".to_owned(), report)])
}

fn measure(
    options: &Options,
    (media, receivers): (Media, Receivers),
    users: &[usize],
) -> Result<Outcome, Error> {
    let progress = Progress::new(1);
    progress.at(&format!(
        "{} brokers, {} users",
        users.len(),
        users.iter().sum::<usize>()
    ));
    scenario::run(&Plan {
        media,
        brokers: users.len(),
        shards: options.shards.unwrap_or(1),
        queuing: Queuing::Double,
        meetings: one_meeting(users.to_vec()),
        receivers,
        span: row_span(options),
    })
}

fn push_rows(report: &mut Report, users: &[usize], outcome: &Outcome) {
    for (broker, here) in users.iter().enumerate() {
        let Some(seen) = outcome.among(|probe| probe.broker == broker) else {
            continue;
        };
        let mut row = Row::default()
            .with("brokers", users.len())
            .with("users", users.iter().sum::<usize>())
            .with("broker", broker + 1)
            .with("users_per_broker", *here);
        columns::quality(&mut row, &seen);
        if broker == 0 {
            columns::cost(&mut row, outcome);
        }
        report.ours.push(row);
    }
    report.plot = Some(Plot {
        x: "broker",
        y: "latency_avg_ms",
        series: None,
    });
}
