//! `fanout`: CPU per packet by fan-out, against raw sendmmsg in the same run.

use std::time::Duration;

use super::{Reports, columns, row_span};
use crate::args::{Options, Receivers};
use crate::error::Error;
use crate::limit::{self, Rate};
use crate::load::{Load, Media};
use crate::machine;
use crate::process::Queuing;
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row};
use crate::scenario::{self, Meeting, Outcome, Plan};

const FANOUTS: [usize; 5] = [5, 20, 200, 800, 3_200];
/// The shares of what the machine could send that the brokers are given, one after the other,
/// until nothing is dropped: where a packet goes to few, what comes in costs as much again. All but
/// the last are tried twice, as a machine that stands still makes any of them drop something, and
/// a broker that has less to do at a time pays more for each packet.
const LOADED: [f64; 7] = [0.8, 0.8, 0.6, 0.6, 0.4, 0.4, 0.25];
/// Participants of one run, at most: more take longer to join than they are worth.
const PARTICIPANTS_MAX: f64 = 20_000.0;
const LIMIT_SPAN: Duration = Duration::from_millis(1_500);

/// Measures each fan-out between two measurements of the limit.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let chosen = |media: &Media| match options.media {
        Some(only) => only == *media,
        None => *media != Media::Cloud,
    };
    let media: Vec<Media> = [Media::Audio, Media::Video, Media::Cloud]
        .into_iter()
        .filter(chosen)
        .collect();
    let receivers = options.receivers.unwrap_or(Receivers::Sink);
    let mut progress = Progress::new(media.len() * FANOUTS.len());
    let mut report = Report::new("fanout", "CPU per packet of one broker by fan-out");
    for media in media {
        for fanout in FANOUTS {
            progress.at(&format!("{}, fan-out {fanout}", media.name()));
            let case = Case {
                options,
                media,
                fanout,
                receivers,
            };
            measure(&mut report, &case)?;
            progress.step();
        }
    }
    for (name, column) in [
        ("worst_ratio_to_sendmmsg", "ratio_to_sendmmsg"),
        ("worst_ratio_to_one_meeting", "ratio_to_one_meeting"),
    ] {
        let ratios = report.ours.iter().filter_map(|row| row.number(column));
        let worst = ratios.fold(0.0, f64::max);
        report.headline.set(name, worst);
    }
    report.plot = Some(Plot {
        x: "fanout",
        y: "ratio_to_sendmmsg",
        series: Some("media"),
    });
    report.notes = notes();
    report.verdict.conclude();
    Ok(vec![(format!("fanout-{}", receivers.name()), report)])
}

/// One fan-out of one medium.
struct Case<'a> {
    options: &'a Options,
    media: Media,
    fanout: usize,
    receivers: Receivers,
}

/// What was found at one load.
struct Run {
    loaded: f64,
    meetings: usize,
    /// Of the limit with as many meetings, before and after.
    sendmmsg_us: f64,
    outcome: Outcome,
}

impl Case<'_> {
    fn raw(&self, audiences: usize, segmented: bool) -> Result<Rate, Error> {
        limit::measure(&limit::Plan {
            load: &Load::of(self.media),
            fanout: self.fanout,
            audiences,
            threads: 1,
            receivers: self.receivers,
            segmented,
            span: LIMIT_SPAN,
        })
    }

    /// The broker at a share of what `alone` reached, between two measurements of the limit.
    fn run(&self, alone: &Rate, loaded: f64) -> Result<Run, Error> {
        let able = alone.packets_per_s * loaded / Load::of(self.media).packets_per_s();
        let participants = (able * self.options.scale).min(PARTICIPANTS_MAX);
        let meetings = (participants / self.fanout as f64).round().max(1.0) as usize;
        let plan = Plan {
            media: self.media,
            brokers: 1,
            shards: self.options.shards.unwrap_or_else(machine::cores),
            queuing: Queuing::Double,
            meetings: meetings_of(self.fanout, meetings),
            receivers: self.receivers,
            span: row_span(self.options),
        };
        let before = self.raw(meetings, false)?;
        let outcome = scenario::run(&plan)?;
        let after = self.raw(meetings, false)?;
        Ok(Run {
            loaded,
            meetings,
            sendmmsg_us: (before.cpu_us_per_packet + after.cpu_us_per_packet) / 2.0,
            outcome,
        })
    }
}

fn measure(report: &mut Report, case: &Case<'_>) -> Result<(), Error> {
    let alone = case.raw(1, false)?;
    let run = paced(|loaded| case.run(&alone, loaded), dropped)?;
    let us = broker_us(case.receivers, &run.outcome);
    let ratio = us / run.sendmmsg_us;
    let mut row = Row::default()
        .with("media", case.media.name())
        .with("receivers", case.receivers.name())
        .with("fanout", case.fanout)
        .with("meetings", run.meetings)
        .with("participants", run.meetings * case.fanout)
        .with("loaded_percent", run.loaded * 100.0)
        .with("one_meeting_us_per_packet", alone.cpu_us_per_packet)
        .with("sendmmsg_us_per_packet", run.sendmmsg_us)
        .with("ratio_to_one_meeting", us / alone.cpu_us_per_packet)
        .with("ratio_to_sendmmsg", ratio);
    if case.media == Media::Video {
        let segmented = case.raw(run.meetings, true)?;
        row.set("segment_us_per_packet", segmented.cpu_us_per_packet);
    }
    columns::cost(&mut row, &run.outcome);
    report.ours.push(row);
    let name = |what| {
        let (media, fanout) = (case.media.name(), case.fanout);
        format!("{media} at a fan-out of {fanout}: {what}")
    };
    if let Some(bound) = bound(case.media, case.fanout) {
        let name = name("CPU against sendmmsg");
        report.verdict.check(name, ratio, Bound::AtMost(bound));
    }
    // What is dropped costs less than what is sent: a ratio with drops says nothing.
    let name = name("dropped within the window");
    report
        .verdict
        .check(name, dropped(&run), Bound::AtMost(0.0));
    Ok(())
}

/// What the first load gives at which nothing is dropped; that of the lightest if all drop.
fn paced<T>(
    mut run: impl FnMut(f64) -> Result<T, Error>,
    dropped: impl Fn(&T) -> f64,
) -> Result<T, Error> {
    let (first, lighter) = (LOADED[0], &LOADED[1..]);
    let mut found = run(first)?;
    for loaded in lighter {
        if dropped(&found) == 0.0 {
            break;
        }
        found = run(*loaded)?;
    }
    Ok(found)
}

fn dropped(run: &Run) -> f64 {
    // An empty sum of floating-point numbers is a negative zero.
    run.outcome.drops().values().fold(0.0, |all, one| all + one)
}

/// CPU per packet as the limit counts it: where sockets are read, the readers are part of it.
fn broker_us(receivers: Receivers, outcome: &Outcome) -> f64 {
    let generator_us = outcome.generator_cpu.as_secs_f64() * 1e6 / outcome.sent().max(1.0);
    match receivers {
        Receivers::Sink => outcome.cpu_us_per_packet(),
        Receivers::Read => outcome.cpu_us_per_packet() + generator_us,
    }
}

/// What is to be reached: near the limit where many get the same, and still within reach of it
/// where a packet's own cost is shared by five.
fn bound(media: Media, fanout: usize) -> Option<f64> {
    match (media, fanout) {
        (_, 5) => Some(1.6),
        (Media::Video, 800..) => Some(0.65),
        (_, 800..) => Some(1.25),
        _ => None,
    }
}

fn meetings_of(fanout: usize, meetings: usize) -> Vec<Meeting> {
    let meeting = |number| {
        let users = vec![fanout];
        if number == 0 {
            Meeting::measured(0, users)
        } else {
            Meeting::passive(0, users)
        }
    };
    (0..meetings).map(meeting).collect()
}

fn notes() -> Vec<String> {
    [
        "`cpu_us_per_packet` is the broker's whole process per event sent: reading what comes in, \
         looking up, sending, waking, keep-alives.",
        "`sendmmsg_us_per_packet` is the mean of two measurements of the limit, right before and \
         right after: one thread, the same packet sizes, packet by packet, to as many meetings of \
         the same size in turn. To one meeting alone it costs `one_meeting_us_per_packet`: there \
         the kernel finds every destination in its caches, as a broker of many meetings cannot. \
         The headline has the worst row's ratio to either.",
        "The broker carries `loaded_percent` of what one raw sending thread reaches: 80 %, so that \
         it neither idles nor saturates, and less where it dropped something at that twice.",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_lowered_until_nothing_is_dropped() {
        let run = |most: f64| paced(Ok, |loaded| (loaded - most).max(0.0));
        assert_eq!(run(0.9).ok(), Some(0.8));
        assert_eq!(run(0.5).ok(), Some(0.4));
        assert_eq!(run(0.1).ok(), Some(0.25));
    }

    #[test]
    fn a_load_that_drops_something_once_is_tried_again() {
        let mut runs = 0;
        let found = paced(
            |loaded| {
                runs += 1;
                Ok((loaded, runs))
            },
            |(_, run)| if *run == 1 { 1.0 } else { 0.0 },
        );
        assert_eq!(found.ok(), Some((0.8, 2)));
    }
}
