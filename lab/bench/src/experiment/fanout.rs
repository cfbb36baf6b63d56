//! `fanout`: CPU per packet by fan-out, against raw sendmmsg in the same run.

use std::time::Duration;

use super::{Reports, columns, row_span};
use crate::args::{Options, Receivers};
use crate::error::Error;
use crate::limit;
use crate::load::{Load, Media};
use crate::machine;
use crate::process::Queuing;
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row};
use crate::scenario::{self, Meeting, Plan};

const FANOUTS: [usize; 5] = [5, 20, 200, 800, 3_200];
/// The share of what the machine could send that the brokers are given.
const LOADED: f64 = 0.8;
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
            measure(&mut report, options, (media, fanout, receivers))?;
            progress.step();
        }
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

fn measure(
    report: &mut Report,
    options: &Options,
    (media, fanout, receivers): (Media, usize, Receivers),
) -> Result<(), Error> {
    let load = Load::of(media);
    let raw = |audiences, segmented| {
        let plan = limit::Plan {
            load: &load,
            fanout,
            audiences,
            threads: 1,
            receivers,
            segmented,
            span: LIMIT_SPAN,
        };
        limit::measure(&plan)
    };
    let alone = raw(1, false)?;
    let participants =
        (alone.packets_per_s * LOADED / load.packets_per_s() * options.scale).min(PARTICIPANTS_MAX);
    let meetings = (participants / fanout as f64).round().max(1.0) as usize;
    let plan = Plan {
        media,
        brokers: 1,
        shards: options.shards.unwrap_or_else(machine::cores),
        queuing: Queuing::Double,
        meetings: meetings_of(fanout, meetings),
        receivers,
        span: row_span(options),
    };
    let before = raw(meetings, false)?;
    let outcome = scenario::run(&plan)?;
    let after = raw(meetings, false)?;
    let sendmmsg_us = (before.cpu_us_per_packet + after.cpu_us_per_packet) / 2.0;
    let ratio = broker_us(receivers, &outcome) / sendmmsg_us;
    let mut row = Row::default()
        .with("media", media.name())
        .with("receivers", receivers.name())
        .with("fanout", fanout)
        .with("meetings", meetings)
        .with("participants", plan.participants())
        .with("one_meeting_us_per_packet", alone.cpu_us_per_packet)
        .with("sendmmsg_us_per_packet", sendmmsg_us)
        .with("ratio_to_sendmmsg", ratio);
    if media == Media::Video {
        row.set(
            "segment_us_per_packet",
            raw(meetings, true)?.cpu_us_per_packet,
        );
    }
    columns::cost(&mut row, &outcome);
    report.ours.push(row);
    if let Some(bound) = bound(media, fanout) {
        let name = format!(
            "{} at a fan-out of {fanout}: CPU against sendmmsg",
            media.name()
        );
        report.verdict.check(name, ratio, Bound::AtMost(bound));
    }
    Ok(())
}

/// CPU per packet as the limit counts it: where sockets are read, the readers are part of it.
fn broker_us(receivers: Receivers, outcome: &scenario::Outcome) -> f64 {
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
         the kernel finds every destination in its caches, as a broker of many meetings cannot.",
        "The broker carries about 80 % of what one raw sending thread reaches, so that it neither \
         idles nor saturates.",
    ]
    .map(str::to_owned)
    .to_vec()
}
