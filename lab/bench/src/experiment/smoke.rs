//! `smoke`: a few seconds over two linked brokers. Correctness only, nothing is timed.

use std::time::Duration;

use super::{Reports, columns, one_meeting};
use crate::args::{Options, Receivers};
use crate::error::Error;
use crate::load::Media;
use crate::process::Queuing;
use crate::progress::Progress;
use crate::report::{Bound, Report, Row};
use crate::scenario::{self, Outcome, Plan};

const BROKERS: usize = 2;
const USERS: usize = 12;
const SECONDS: u64 = 2;

/// Sends audio, then video, and counts.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let mut progress = Progress::new(2);
    let mut report = Report::new("smoke", "Audio and video over two linked brokers");
    for media in [Media::Audio, Media::Video] {
        progress.at(media.name());
        let outcome = scenario::run(&Plan {
            media,
            brokers: BROKERS,
            shards: options.shards.unwrap_or(2),
            queuing: Queuing::Double,
            meetings: one_meeting(vec![USERS; BROKERS]),
            receivers: Receivers::Read,
            span: Duration::from_secs(options.seconds.unwrap_or(SECONDS)),
        })?;
        check(&mut report, media, &outcome);
        progress.step();
    }
    Ok(vec![("smoke".to_owned(), report)])
}

fn check(report: &mut Report, media: Media, outcome: &Outcome) {
    let mut check = |what: &str, value: f64, bound| {
        report
            .verdict
            .check(format!("{}: {what}", media.name()), value, bound);
    };
    for broker in 0..BROKERS {
        let seen = outcome.among(|probe| probe.broker == broker);
        let (received, lost, again) = seen.map_or((0.0, f64::NAN, f64::NAN), |seen| {
            let received = seen.reception.received;
            let lost = seen.expected.saturating_sub(received);
            (
                received as f64,
                lost as f64,
                seen.reception.duplicates as f64,
            )
        });
        let at = format!("broker {}", broker + 1);
        check(&format!("received at {at}"), received, Bound::AtLeast(1.0));
        check(&format!("lost at {at}"), lost, Bound::AtMost(0.0));
        check(
            &format!("received twice at {at}"),
            again,
            Bound::AtMost(0.0),
        );
    }
    let missing = outcome.due as f64 - outcome.delivered_in_all();
    check(
        "events published but not counted as sent",
        missing.abs(),
        Bound::AtMost(0.0),
    );
    let unread = outcome.due_to_passive as f64 - outcome.counted as f64;
    check(
        "events not read by passive receivers",
        unread.abs(),
        Bound::AtMost(0.0),
    );
    let dropped = outcome
        .drops_in_all()
        .values()
        .fold(0.0, |sum, count| sum + count);
    check("dropped by the brokers", dropped, Bound::AtMost(0.0));
    check("links that died", outcome.deaths as f64, Bound::AtMost(0.0));
    let mut row = Row::default().with("media", media.name());
    if let Some(all) = outcome.among(|_| true) {
        columns::quality(&mut row, &all);
    }
    columns::cost(&mut row, outcome);
    report.ours.push(row);
}
