//! `recorder`: what `sangam record` costs per packet while it records 500 tracks of one broker.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sangam_model::Topic;

use super::{Reports, row_span, scaled};
use crate::args::Options;
use crate::crowd::{Publishers, Purpose, Spec};
use crate::error::Error;
use crate::load::{Load, Media};
use crate::measure::Window;
use crate::process::{Broker, CpuTimes, Queuing, Recorded, Recorder};
use crate::progress::Progress;
use crate::report::{Bound, Report, Row};
use crate::scenario::{self, Folder, World};

/// Tracks at once, each of a publisher of its own.
const TRACKS: usize = 500;
/// What a recorded packet may cost of a processor, in microseconds.
const CPU_US_MAX: f64 = 2.0;
const FILTER: &str = "bench/recorder/#";
/// What is on its way when publishers pause.
const LATE: Duration = Duration::from_millis(500);

/// What one run came to.
struct Run {
    published: u64,
    recorded: Recorded,
    cpu: CpuTimes,
    took: Duration,
}

/// Records audio, then video.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let mut report = Report::new("recorder", "CPU time of a recorder per recorded packet");
    let tracks = scaled(TRACKS, options);
    let mut progress = Progress::new(2);
    for media in [Media::Audio, Media::Video] {
        progress.at(media.name());
        let run = record(media, tracks, row_span(options))?;
        add(&mut report, (media, tracks), &run);
        progress.step();
    }
    report.notes.push(
        "CPU time of the whole process `sangam record`, user and system, from before the first \
         packet until the last is on the disk; publishers and broker run on the same machine. \
         `cpu_us_writer` is the share of the thread that writes and syncs."
            .to_owned(),
    );
    Ok(vec![("recorder".to_owned(), report)])
}

fn record(media: Media, tracks: usize, span: Duration) -> Result<Run, Error> {
    let folder = Folder::new()?;
    let brokers = scenario::start(&World::chain(1), (1, Queuing::Double), &folder)?;
    let broker = brokers.first();
    let broker = broker.ok_or_else(|| Error::Broker("no broker was started".to_owned()))?;
    let mut publishers = Publishers::new(Arc::new(Window::new()), None)?;
    publishers.add(specs(broker, media, tracks)?);
    scenario::wait("publishers joined", tracks, || publishers.is_ready())?;
    let mut recorder = Recorder::start(broker.udp, FILTER, folder.path())?;

    let (before, begun) = (recorder.cpu(), Instant::now());
    publishers.begin(Arc::new(Load::of(media)));
    thread::sleep(span);
    publishers.pause();
    thread::sleep(LATE);
    let published = publishers.finish()?.packets.iter().sum();
    // All of them, but for what the recorder says in the end.
    recorder.wait_for(published * 99 / 100)?;
    let (cpu, took) = (recorder.cpu().since(&before), begun.elapsed());
    Ok(Run {
        published,
        recorded: recorder.finish()?,
        cpu,
        took,
    })
}

fn specs(broker: &Broker, media: Media, tracks: usize) -> Result<Vec<Spec>, Error> {
    let spec = |number| {
        let topic = Topic::new(&format!("bench/recorder/{number}"));
        let topic = topic.map_err(|error| Error::Join(error.to_string()))?;
        Ok(Spec {
            broker: broker.udp,
            purpose: Purpose::Publish(topic, media.info()),
            site: None,
        })
    };
    (0..tracks).map(spec).collect()
}

fn add(report: &mut Report, (media, tracks): (Media, usize), run: &Run) {
    let Run {
        published,
        recorded,
        ref cpu,
        took,
    } = *run;
    let each = |time: Duration| time.as_secs_f64() * 1e6 / recorded.packets as f64;
    let writer = cpu.threads.get("sangam-log").copied().unwrap_or_default();
    report.ours.push(
        Row::default()
            .with("media", media.name())
            .with("tracks", recorded.tracks)
            .with("published", published)
            .with("recorded", recorded.packets)
            .with("safe", recorded.safe_packets)
            .with(
                "recorded_per_s",
                recorded.packets as f64 / took.as_secs_f64(),
            )
            .with("mib", recorded.bytes as f64 / f64::from(1 << 20))
            .with("cpu_us", each(cpu.total))
            .with("cpu_us_writer", each(writer)),
    );
    let verdict = &mut report.verdict;
    let mut check = |what: &str, value, bound| {
        verdict.check(format!("{}: {what}", media.name()), value, bound);
    };
    check(
        "CPU per recorded packet, in us",
        each(cpu.total),
        Bound::AtMost(CPU_US_MAX),
    );
    check(
        "tracks",
        recorded.tracks as f64,
        Bound::AtLeast(tracks as f64),
    );
    let unsafe_ones = published.saturating_sub(recorded.safe_packets);
    check(
        "packets that are not on the disk",
        unsafe_ones as f64,
        Bound::AtMost(0.0),
    );
    let dropped = recorded.dropped + recorded.unknown;
    check(
        "packets dropped or of nobody",
        dropped as f64,
        Bound::AtMost(0.0),
    );
}
