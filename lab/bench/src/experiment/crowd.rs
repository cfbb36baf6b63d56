//! `crowd`: a session of 10,000 members, signalling real and sound of a few. How long until all of
//! them have heard of a change.

mod changes;
mod sound;
mod stage;

use std::time::Duration;

use super::{Reports, columns, row_span, scaled};
use crate::args::Options;
use crate::error::Error;
use crate::machine;
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row};
use stage::{Outcome, Part, Plan, Told};

/// As many as may be in one session.
const MEMBERS: usize = 10_000;
const SPEAKERS: usize = 4;
const LISTENERS: usize = 4;
/// Fewer would leave nobody who neither leads nor speaks.
const MEMBERS_MIN: usize = 50;
/// Until all have heard of a change.
const HEARD_MS_MAX: f64 = 1_000.0;
const LOSS_PERCENT_MAX: f64 = 1.0;
/// The machinery once: changes of each kind, in half a second.
const SMOKE_SPAN: Duration = Duration::from_millis(300);

/// Lets the crowd in and measures how long it takes to hear of changes.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let mut report = Report::new("crowd", "Changes of a session, until all members know");
    let members = scaled(MEMBERS, options).clamp(MEMBERS_MIN, MEMBERS);
    let progress = Progress::new(1);
    progress.at(&format!("{members} members"));
    let outcome = stage::play(&Plan {
        members,
        speakers: SPEAKERS,
        listeners: LISTENERS,
        shards: options.shards.unwrap_or(machine::cores()),
        span: row_span(options),
    })?;
    for part in &outcome.parts {
        report.ours.push(row(part));
        let numbered = part.changes.iter().enumerate();
        report.drawn.extend(numbered.map(|(number, told)| {
            Row::default()
                .with("part", part.name)
                .with("change", number + 1)
                .with("all_ms", ms(told.all))
        }));
        if let Some(slowest) = slowest(part) {
            let what = format!("{}: ms until all know of the slowest change", part.name);
            let bound = Bound::AtMost(HEARD_MS_MAX);
            report.verdict.check(what, ms(slowest.all), bound);
        }
    }
    check(&mut report, "crowd", &outcome);
    let mut sound = Row::default()
        .with("part", "sound")
        .with("receivers", LISTENERS);
    let heard = &outcome.heard;
    columns::reception(&mut sound, &heard.reception, heard.expected);
    report.ours.push(sound);
    report.notes = notes();
    report.plot = Some(Plot {
        x: "change",
        y: "all_ms",
        series: Some("part"),
    });
    Ok(vec![("crowd".to_owned(), report)])
}

/// The machinery once: few members, each kind of change, nobody left out.
///
/// # Errors
/// If the broker does not start, or members do not get in or are not told.
pub(super) fn smoke(report: &mut Report) -> Result<(), Error> {
    let outcome = stage::play(&Plan {
        members: MEMBERS_MIN,
        speakers: 1,
        listeners: 1,
        shards: 1,
        span: SMOKE_SPAN,
    })?;
    check(report, "crowd", &outcome);
    Ok(())
}

fn check(report: &mut Report, name: &str, outcome: &Outcome) {
    let lost = outcome.lost as f64;
    let what = format!("{name}: connections lost");
    report.verdict.check(what, lost, Bound::AtMost(0.0));
    let heard = &outcome.heard;
    let percent = heard.reception.loss_percent(heard.expected);
    let what = format!("{name}: percent of sound lost");
    let bound = Bound::AtMost(LOSS_PERCENT_MAX);
    report.verdict.check(what, percent, bound);
}

fn row(part: &Part) -> Row {
    let seconds = part.took.as_secs_f64();
    let percent = |cpu: Duration| cpu.as_secs_f64() * 100.0 / seconds;
    let busiest = part.cpu.threads.values().max().copied().unwrap_or_default();
    let mut row = Row::default()
        .with("part", part.name)
        .with("members", part.members)
        .with("seconds", seconds);
    if let Some(slowest) = slowest(part) {
        let sorted = |time: fn(&Told) -> Duration| {
            let mut times: Vec<_> = part.changes.iter().map(time).collect();
            times.sort();
            times
        };
        row.set("changes", part.changes.len())
            .set("first_p50_ms", at(&sorted(|told| told.first), 50))
            .set("all_p50_ms", at(&sorted(|told| told.all), 50))
            .set("all_max_ms", ms(slowest.all))
            .set("slowest", slowest.kind);
    }
    if !part.joins.is_empty() {
        row.set("joins", part.joins.len())
            .set("join_p50_ms", at(&part.joins, 50))
            .set("join_p95_ms", at(&part.joins, 95))
            .set("join_max_ms", at(&part.joins, 100));
    }
    row.set("behind", part.behind)
        .set("broker_cpu_percent", percent(part.cpu.total))
        .set("busiest_thread_percent", percent(busiest))
        .set("generator_cpu_percent", percent(part.generator_cpu))
        .set("memory_mib", part.resident_bytes / f64::from(1 << 20));
    row
}

fn slowest(part: &Part) -> Option<&Told> {
    part.changes.iter().max_by_key(|told| told.all)
}

/// The time within which so many percent were done, in milliseconds.
fn at(sorted: &[Duration], percent: usize) -> f64 {
    let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(place).map_or(f64::NAN, |time| ms(*time))
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn notes() -> Vec<String> {
    [
        "Each member is a WebSocket of its own from an address of its own, with a token that the \
         API made for it. One thread holds all of them, on the same processors as the broker: it \
         reads every frame and looks for its number only.",
        "A change is timed from when it is asked for until the last member, of all who are in, \
         has read the frame that tells it (`all`), and the first one (`first`).",
        "`joining`: as many as the server lets in, 256 at a time, up to nine of ten. `while others \
         come`: the last tenth at even intervals, and lines of chat meanwhile. `one by one`: each \
         kind of change twice: lock, chat, hand, floor, mute, name, role, reaction, plan, room, \
         one who leaves and one who joins. `at once`: 36 members ask for something at the same \
         moment.",
        "Joining is timed from asking for the token until the session's state has come. `behind` \
         counts members that did not keep up and were told the whole state instead.",
        "`sound`: four members with the floor speak from before the crowd comes until the end, \
         and four clients of the broker listen.",
    ]
    .map(str::to_owned)
    .to_vec()
}
