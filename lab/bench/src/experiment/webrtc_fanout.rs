//! `webrtc-fanout`: one sender to many WebRTC subscribers. CPU per delivered packet against raw
//! sendmmsg in the same run, as many as one broker serves, a meeting over four brokers, and how
//! long it takes to join.

mod stage;

use std::time::Duration;

use super::{Reports, row_span, scaled};
use crate::args::{Options, Receivers};
use crate::crowd::webrtc::{Beat, Medium};
use crate::error::Error;
use crate::limit;
use crate::load::{Frame, Load, Media};
use crate::machine;
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row};
use stage::{Outcome, Plan};

/// 720p at 2 Mb/s: 25 pictures a second of nine packets.
const VIDEO: Beat = Beat {
    medium: Medium::Video,
    packets: 9,
    bytes: 1_111,
    every: Duration::from_millis(40),
};
/// Opus at 48 kb/s.
const AUDIO: Beat = Beat {
    medium: Medium::Audio,
    packets: 1,
    bytes: 120,
    every: Duration::from_millis(20),
};
/// Subscribers of the rows that tell the cost of one medium.
const COSTS: [usize; 2] = [100, 200];
/// What a delivered packet may cost at the first of them, in microseconds of CPU.
const GOALS: [(Medium, f64); 2] = [(Medium::Video, 2.5), (Medium::Audio, 4.0)];
/// Subscribers that one broker serves.
const MANY: usize = 800;
/// A meeting whose members are spread.
const SPREAD: (usize, usize) = (4, 200);
const JOINS_PER_S: f64 = 10.0;
/// In milliseconds, for 95 of 100.
const JOIN_MAX_MS: f64 = 1_000.0;
const LOSS_PERCENT_MAX: f64 = 1.0;
/// Copies of a packet on each link.
const CROSSINGS: f64 = 1.0;
/// What else crosses links: sender reports and the brokers' own, one in a hundred packets or two.
const CROSSINGS_SLACK: f64 = 0.02;
const LIMIT_SPAN: Duration = Duration::from_millis(1_500);

/// A row to be.
struct Part {
    layout: &'static str,
    beats: &'static [Beat],
    brokers: usize,
    subscribers: usize,
    joins_per_s: Option<f64>,
}

/// Measures the cost of sound and picture, then what one broker and four can do.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let title = "One sender to many WebRTC subscribers";
    let mut report = Report::new("webrtc-fanout", title);
    let parts = parts(options);
    let mut progress = Progress::new(parts.len());
    for part in parts {
        let Part {
            layout,
            subscribers,
            ..
        } = part;
        progress.at(&format!("{layout}, {}, {subscribers}", media(part.beats)));
        match part.beats {
            [beat] => cost(&mut report, options, (&part, beat))?,
            _ => both(&mut report, options, &part)?,
        }
        progress.step();
    }
    report.notes = notes();
    report.plot = Some(Plot {
        x: "subscribers",
        y: "cpu_us_per_packet",
        series: Some("media"),
    });
    report.verdict.conclude();
    Ok(vec![("webrtc-fanout".to_owned(), report)])
}

/// The machinery once, in seconds: two brokers, a few subscribers, nothing lost for good.
///
/// # Errors
/// If a broker does not start or peers cannot join.
pub(super) fn smoke(report: &mut Report) -> Result<(), Error> {
    let subscribers = 6;
    let outcome = stage::play(&Plan {
        beats: &[VIDEO, AUDIO],
        brokers: 2,
        shards: 2,
        subscribers,
        threads: 1,
        joins_per_s: None,
        span: Duration::from_secs(2),
    })?;
    check_media(report, "webrtc", (&outcome, subscribers));
    check_links(report, "webrtc", &outcome);
    Ok(())
}

fn parts(options: &Options) -> Vec<Part> {
    let part = |layout, beats, (brokers, subscribers)| Part {
        layout,
        beats,
        brokers,
        subscribers: scaled(subscribers, options),
        joins_per_s: None,
    };
    let chosen = |beat: &Beat| match options.media {
        Some(Media::Video) => beat.medium == Medium::Video,
        Some(_) => beat.medium == Medium::Audio,
        None => true,
    };
    let mut parts = Vec::new();
    let single: [&'static [Beat]; 2] = [&[AUDIO], &[VIDEO]];
    for beats in single.into_iter().filter(|beats| chosen(&beats[0])) {
        parts.extend(COSTS.map(|subscribers| part("one broker", beats, (1, subscribers))));
    }
    if options.media.is_none() {
        const BOTH: &[Beat] = &[VIDEO, AUDIO];
        let joins = (JOINS_PER_S * row_span(options).as_secs_f64()).round() as usize;
        parts.push(part("one broker", BOTH, (1, MANY)));
        parts.push(part("chain of four", BOTH, SPREAD));
        parts.push(Part {
            joins_per_s: Some(JOINS_PER_S),
            subscribers: joins,
            ..part("10 joins a second", BOTH, (1, joins))
        });
    }
    parts
}

fn plan(options: &Options, part: &Part) -> Plan<'static> {
    let shards = match part.brokers {
        1 => machine::cores(),
        _ => 1,
    };
    Plan {
        beats: part.beats,
        brokers: part.brokers,
        shards: options.shards.unwrap_or(shards),
        subscribers: part.subscribers,
        threads: part.subscribers.div_ceil(COSTS[1]).min(machine::cores()),
        joins_per_s: part.joins_per_s,
        span: row_span(options),
    }
}

/// What a packet of one medium costs, beside raw sends.
fn cost(report: &mut Report, options: &Options, (part, beat): (&Part, &Beat)) -> Result<(), Error> {
    let load = load(beat);
    let raw = |segmented| {
        let plan = limit::Plan {
            load: &load,
            fanout: part.subscribers,
            audiences: 1,
            threads: 1,
            receivers: Receivers::Read,
            segmented,
            span: LIMIT_SPAN,
        };
        limit::measure(&plan)
    };
    let before = raw(false)?;
    let outcome = stage::play(&plan(options, part))?;
    let after = raw(false)?;
    let sendmmsg_us = (before.cpu_us_per_packet + after.cpu_us_per_packet) / 2.0;
    let mut row = row(part, &outcome);
    let us = row.number("cpu_us_per_packet").unwrap_or(f64::NAN);
    row.set("sendmmsg_us_per_packet", sendmmsg_us)
        .set("ratio_to_sendmmsg", us / sendmmsg_us);
    if beat.medium == Medium::Video {
        row.set("segment_us_per_packet", raw(true)?.cpu_us_per_packet);
    }
    report.ours.push(row);
    let goal = GOALS.iter().find(|(medium, _)| *medium == beat.medium);
    if let Some((_, goal)) = goal
        && part.subscribers == scaled(COSTS[0], options)
    {
        let what = format!(
            "{} to {}: us of CPU per delivered packet",
            beat.medium.name(),
            part.subscribers
        );
        report.verdict.check(what, us, Bound::AtMost(*goal));
    }
    Ok(())
}

/// What brokers do with sound and picture at once.
fn both(report: &mut Report, options: &Options, part: &Part) -> Result<(), Error> {
    let outcome = stage::play(&plan(options, part))?;
    let mut row = row(part, &outcome);
    if outcome.brokers.len() > 1 {
        row.set("link_copies", outcome.crossings().sum::<f64>());
    }
    report.ours.push(row);
    let name = format!("{}, {}", part.layout, part.subscribers);
    check_media(report, &name, (&outcome, part.subscribers));
    if outcome.brokers.len() > 1 {
        check_links(report, &name, &outcome);
    }
    if part.joins_per_s.is_some() {
        let p95 = outcome.joined_ms(95).unwrap_or(f64::NAN);
        let what = format!("{name}: ms until 95 of 100 see a picture");
        report.verdict.check(what, p95, Bound::AtMost(JOIN_MAX_MS));
    }
    Ok(())
}

fn check_media(report: &mut Report, name: &str, (outcome, subscribers): (&Outcome, usize)) {
    for medium in [Medium::Video, Medium::Audio] {
        let percent = outcome.loss_percent(medium, subscribers);
        let what = format!("{name}: percent of {} lost", medium.name());
        let percent = percent.unwrap_or(f64::NAN);
        let bound = Bound::AtMost(LOSS_PERCENT_MAX);
        report.verdict.check(what, percent, bound);
    }
}

/// Who publishes is at the first broker of the chain: the last one has nobody to send to.
fn check_links(report: &mut Report, name: &str, outcome: &Outcome) {
    let last = outcome.brokers.len() - 1;
    for (place, copies) in outcome.crossings().enumerate() {
        let most = if place == last { 0.0 } else { CROSSINGS };
        let what = format!("{name}: copies of a packet from broker {}", place + 1);
        let bound = Bound::AtMost(most + CROSSINGS_SLACK);
        report.verdict.check(what, copies, bound);
    }
}

fn row(part: &Part, outcome: &Outcome) -> Row {
    let seconds = outcome.took.as_secs_f64();
    let percent = |cpu: Duration| cpu.as_secs_f64() * 100.0 / seconds;
    let delivered = outcome.delivered();
    let us = outcome.cpu().as_secs_f64() * 1e6 / delivered.max(1.0);
    let mut row = Row::default()
        .with("layout", part.layout)
        .with("media", media(part.beats))
        .with("subscribers", part.subscribers)
        .with("packets_per_s", (delivered / seconds).round())
        .with("cpu_us_per_packet", us)
        .with("broker_cpu_percent", percent(outcome.cpu()))
        .with("generator_cpu_percent", percent(outcome.generator_cpu));
    let losses = [
        (Medium::Video, "video_loss_percent"),
        (Medium::Audio, "audio_loss_percent"),
    ];
    for (medium, name) in losses {
        if let Some(percent) = outcome.loss_percent(medium, part.subscribers) {
            row.set(name, percent);
        }
    }
    for (percent, name) in [
        (50, "join_p50_ms"),
        (95, "join_p95_ms"),
        (100, "join_max_ms"),
    ] {
        if let Some(ms) = outcome.joined_ms(percent) {
            row.set(name, ms);
        }
    }
    row
}

fn media(beats: &[Beat]) -> &'static str {
    match beats {
        [beat] => beat.medium.name(),
        _ => "video and audio",
    }
}

/// The same packets for the raw limit.
fn load(beat: &Beat) -> Load {
    let frame = Frame {
        packets: beat.packets as u16,
        bytes: beat.bytes as u16,
        padding: 0,
        key: false,
    };
    Load {
        media: match beat.medium {
            Medium::Video => Media::Video,
            Medium::Audio => Media::Audio,
        },
        interval: beat.every,
        frames: vec![frame],
    }
}

fn notes() -> Vec<String> {
    [
        "`cpu_us_per_packet` is the brokers' whole processes per packet delivered to a \
         subscriber: taking the sender's SRTP, one encryption and one send for each subscriber, \
         and their reports, NACKs and transport feedback.",
        "`sendmmsg_us_per_packet` is the mean of two measurements, right before and right after: \
         one thread, the same packet sizes, every socket read by another thread, whose part is in \
         it.",
        "Subscribers are peers of the same library in this process, with an own socket each; they \
         answer with receiver reports, NACKs and transport-wide feedback. What they did not get \
         of what was sent, repetitions included, is lost.",
        "Joining begins when a subscriber is due, and ends with the first packet of a picture \
         that it can decode (of sound, where no picture is sent). Where no pace is said, one \
         joins as soon as the one before is answered, while those who are there are served.",
        "In the chain the sender is at the first broker and each broker has as many subscribers; \
         `link_copies` is how often a packet crossed a link, all links together: three, if each \
         link carries it once.",
    ]
    .map(str::to_owned)
    .to_vec()
}
