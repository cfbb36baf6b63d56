//! `webrtc-fanout`: CPU per packet delivered to WebRTC subscribers, against raw sendmmsg in the
//! same run.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Reports, row_span};
use crate::args::{Options, Receivers};
use crate::crowd::webrtc::{Beat, Part, Peer, Peers};
use crate::error::Error;
use crate::limit;
use crate::load::{Frame, Load, Media};
use crate::machine;
use crate::process::{Broker, Carrier, Queuing, Setup, own_cpu};
use crate::progress::Progress;
use crate::report::{Bound, Report, Row};

/// Subscribers of one row.
const SUBSCRIBERS: [usize; 2] = [100, 200];
/// 720p at 2 Mb/s: 25 pictures a second of nine packets.
const VIDEO: Beat = Beat {
    video: true,
    packets: 9,
    bytes: 1_111,
    every: Duration::from_millis(40),
};
/// Opus at 48 kb/s.
const AUDIO: Beat = Beat {
    video: false,
    packets: 1,
    bytes: 120,
    every: Duration::from_millis(20),
};
const TOPIC: &str = "bench/sender";
const LIMIT_SPAN: Duration = Duration::from_millis(1_500);
/// Before counting begins: key frames have come, estimates have settled.
const WARM_UP: Duration = Duration::from_secs(3);
/// What a delivered packet may cost, in microseconds of CPU.
const GOALS: [(bool, f64); 2] = [(true, 2.5), (false, 4.0)];

/// What a row has measured.
struct Outcome {
    took: Duration,
    sent: u64,
    delivered: f64,
    received: u64,
    broker_cpu: Duration,
    generator_cpu: Duration,
}

/// Measures sound and picture to each number of subscribers.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let mut report = Report::new(
        "webrtc-fanout",
        "CPU per packet delivered by WebRTC from one sender",
    );
    let beats = [AUDIO, VIDEO];
    let chosen = |beat: &&Beat| match options.media {
        Some(Media::Video) => beat.video,
        Some(_) => !beat.video,
        None => true,
    };
    let mut progress = Progress::new(beats.iter().filter(chosen).count() * SUBSCRIBERS.len());
    for beat in beats.iter().filter(chosen) {
        for subscribers in SUBSCRIBERS {
            let subscribers = (subscribers as f64 * options.scale).round().max(1.0) as usize;
            progress.at(&format!("{}, {subscribers} subscribers", name(beat)));
            measure(&mut report, options, (beat, subscribers))?;
            progress.step();
        }
    }
    report.notes = notes();
    report.verdict.conclude();
    Ok(vec![("webrtc-fanout".to_owned(), report)])
}

fn measure(
    report: &mut Report,
    options: &Options,
    (beat, subscribers): (&Beat, usize),
) -> Result<(), Error> {
    let load = load(beat);
    let raw = |segmented| {
        let plan = limit::Plan {
            load: &load,
            fanout: subscribers,
            threads: 1,
            receivers: Receivers::Read,
            segmented,
            span: LIMIT_SPAN,
        };
        limit::measure(&plan)
    };
    let before = raw(false)?;
    let outcome = play(options, beat, subscribers)?;
    let after = raw(false)?;
    let sendmmsg_us = (before.cpu_us_per_packet + after.cpu_us_per_packet) / 2.0;
    let us = outcome.broker_cpu.as_secs_f64() * 1e6 / outcome.delivered.max(1.0);
    let seconds = outcome.took.as_secs_f64();
    let expected = (outcome.sent * subscribers as u64).max(1) as f64;
    let percent = |cpu: Duration| cpu.as_secs_f64() * 100.0 / seconds;
    let mut row = Row::default()
        .with("media", name(beat))
        .with("subscribers", subscribers)
        .with("packets_per_s", (outcome.delivered / seconds).round())
        .with("cpu_us_per_packet", us)
        .with("sendmmsg_us_per_packet", sendmmsg_us)
        .with("ratio_to_sendmmsg", us / sendmmsg_us)
        .with(
            "loss_percent",
            (1.0 - outcome.received as f64 / expected).max(0.0) * 100.0,
        )
        .with("broker_cpu_percent", percent(outcome.broker_cpu))
        .with("generator_cpu_percent", percent(outcome.generator_cpu));
    if beat.video {
        row.set("segment_us_per_packet", raw(true)?.cpu_us_per_packet);
    }
    report.ours.push(row);
    if let Some((_, goal)) = GOALS.iter().find(|(video, _)| *video == beat.video)
        && subscribers == SUBSCRIBERS[0]
    {
        let what = format!(
            "{} to {subscribers}: us of CPU per delivered packet",
            name(beat)
        );
        report.verdict.check(what, us, Bound::AtMost(*goal));
    }
    Ok(())
}

fn play(options: &Options, beat: &Beat, subscribers: usize) -> Result<Outcome, Error> {
    let folder = std::env::temp_dir().join(format!("sangam-webrtc-{}", std::process::id()));
    let setup = Setup {
        number: 1,
        shards: options.shards.unwrap_or_else(machine::cores),
        queuing: Queuing::Double,
        neighbours: Vec::new(),
        port: 0,
        site: None,
        carrier: Carrier::Udp,
        program: None,
        webrtc: true,
        clients: false,
    };
    let broker = Broker::start(&setup, &folder)?;
    let mut sender = Peers::connect(vec![Peer::join(&broker, Part::Sends, TOPIC)?])?;
    let join = |_| Peer::join(&broker, Part::Watches, TOPIC);
    let joined: Result<Vec<_>, _> = (0..subscribers).map(join).collect();
    let mut viewers = Peers::connect(joined?)?;
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut count = || {
        watch(&mut viewers, WARM_UP);
        let metrics = broker.metrics()?;
        let (cpu, own) = (broker.cpu(), own_cpu());
        let begun = (
            Instant::now(),
            sent.load(Ordering::Relaxed),
            viewers.received(),
        );
        watch(&mut viewers, row_span(options));
        let delivered = broker.metrics()?.since(&metrics);
        Ok(Outcome {
            took: begun.0.elapsed(),
            sent: sent.load(Ordering::Relaxed) - begun.1,
            delivered: delivered.sum("sangam_delivered_packets_total", ""),
            received: viewers.received() - begun.2,
            broker_cpu: broker.cpu().since(&cpu).total,
            generator_cpu: own_cpu() - own,
        })
    };
    let outcome = thread::scope(|scope| {
        scope.spawn(|| send(&mut sender, beat, (&stop, &sent)));
        let outcome = count();
        stop.store(true, Ordering::Relaxed);
        outcome
    });
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

fn send(sender: &mut Peers, beat: &Beat, (stop, sent): (&AtomicBool, &AtomicU64)) {
    let begun = Instant::now();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        let due = begun + beat.every * number as u32;
        let ahead = due.saturating_duration_since(Instant::now());
        if ahead.is_zero() {
            let packets = sender.beat(beat, number);
            sent.fetch_add(packets as u64, Ordering::Relaxed);
            number += 1;
        } else {
            sender.pass(ahead);
        }
    }
}

fn watch(viewers: &mut Peers, span: Duration) {
    let end = Instant::now() + span;
    while Instant::now() < end {
        viewers.pass(Duration::from_millis(5));
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
        media: if beat.video {
            Media::Video
        } else {
            Media::Audio
        },
        interval: beat.every,
        frames: vec![frame],
    }
}

fn name(beat: &Beat) -> &'static str {
    if beat.video { "video" } else { "audio" }
}

fn notes() -> Vec<String> {
    [
        "`cpu_us_per_packet` is the broker's whole process per packet delivered: taking the \
         sender's SRTP, one encryption and one send for each subscriber, and their reports, NACKs \
         and transport feedback.",
        "`sendmmsg_us_per_packet` is the mean of two measurements, right before and right after: \
         one thread, the same packet sizes, every socket read by another thread, whose part is in \
         it.",
        "Subscribers are peers of the same library in this process, with an own socket each; they \
         answer with receiver reports, NACKs and transport-wide feedback. `loss_percent` is what \
         they did not get of what was sent, repetitions included.",
    ]
    .map(str::to_owned)
    .to_vec()
}
