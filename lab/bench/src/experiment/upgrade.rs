//! `upgrade`: three brokers of the previous release are replaced by this one, one by one, while
//! audio, video and data cross them. Nobody may lose an event, or get one twice.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sangam_client::{Address, Client, ClientOptions, Outgoing, Publisher, Received, Target};
use sangam_model::{Class, Filter, MediaInfo, Topic};
use sangam_wire::{Event, Flags};

use super::Reports;
use crate::args::Options;
use crate::error::Error;
use crate::process::{Broker, Queuing};
use crate::progress::Progress;
use crate::report::{Bound, Report, Row};
use crate::scenario::{self, Folder, World};

/// Names the previous release's program; otherwise it is `target/previous/sangam`.
const PREVIOUS: &str = "PREVIOUS_SANGAM";
const BROKERS: usize = 3;
/// Between two events of a stream.
const TICK: Duration = Duration::from_millis(10);
const POLL: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(20);
/// Before, between and after replacements.
const CALM: Duration = Duration::from_secs(3);
const CLASSES: [Class; 3] = [Class::Audio, Class::Video, Class::Data];

/// Who hears the streams, and what came.
struct Ear {
    client: Client,
    name: String,
    /// For each stream, how often each number came.
    heard: [Vec<u8>; CLASSES.len()],
}

/// The streams of one client, and how many events found no way.
struct Voice {
    streams: Vec<Publisher>,
    _client: Client,
    unsent: u64,
}

/// Where a round of replacements is.
struct Show {
    sent: AtomicU32,
    over: AtomicBool,
}

/// Replaces all brokers.
pub(super) fn run(_options: &Options) -> Result<Reports, Error> {
    let title = "Brokers replaced one by one under load";
    let mut report = Report::new("upgrade", title);
    let previous = previous();
    if previous.is_none() {
        report.verdict.not_measured(format!(
            "there is no previous release's program (`make previous`, or {PREVIOUS}), this one \
             replaced itself"
        ));
    }
    let progress = Progress::new(1);
    progress.at("three brokers, one by one");
    let folder = Folder::new()?;
    let mut world = World::chain(BROKERS);
    world.brokers[BROKERS - 1].dials = vec![0, 1];
    let mut brokers = scenario::start_with(&world, Queuing::Double, (&folder, &previous))?;
    let mut voice = Voice::new(&brokers)?;
    let mut ears = (0..BROKERS)
        .map(|at| Ear::new(&brokers, at))
        .collect::<Result<Vec<_>, _>>()?;
    let show = Show {
        sent: AtomicU32::new(0),
        over: AtomicBool::new(false),
    };
    let replaced = thread::scope(|scope| {
        scope.spawn(|| voice.speak(&show));
        for ear in &mut ears {
            scope.spawn(|| ear.listen(&show));
        }
        let replaced = replace(&mut brokers);
        show.over.store(true, Ordering::Relaxed);
        replaced
    });
    replaced?;
    judge(
        &mut report,
        &voice,
        (&ears, show.sent.load(Ordering::Relaxed)),
        match previous {
            Some(_) => "the previous release",
            None => "this program itself",
        },
    );
    report.notes.push(
        "Each subscriber and the publisher know all three brokers and go to another one when \
         theirs says that it leaves. A broker of a release that does not say so loses its own \
         clients' events for as long as they take to find another."
            .to_owned(),
    );
    Ok(vec![("upgrade".to_owned(), report)])
}

/// The previous release's program, if there is one.
fn previous() -> Option<PathBuf> {
    let named = std::env::var_os(PREVIOUS).map(PathBuf::from);
    let beside = || {
        let bench = std::env::current_exe().ok()?;
        Some(bench.parent()?.parent()?.join("previous/sangam"))
    };
    named.or_else(beside).filter(|path| path.is_file())
}

/// Each broker ends in good order, and this release's program takes its place.
fn replace(brokers: &mut [Broker]) -> Result<(), Error> {
    thread::sleep(CALM);
    for broker in brokers {
        broker.signal(Signal::TERM)?;
        let begun = Instant::now();
        while !broker.has_ended() && begun.elapsed() < PATIENCE {
            thread::sleep(POLL);
        }
        broker.upgrade(None)?;
        thread::sleep(CALM);
    }
    Ok(())
}

fn judge(report: &mut Report, voice: &Voice, (ears, sent): (&[Ear], u32), from: &str) {
    for ear in ears {
        let (mut lost, mut twice) = (0, 0);
        for heard in &ear.heard {
            // What was sent before everybody was there does not count.
            let first = heard.iter().position(|times| *times > 0).unwrap_or(0);
            let due = sent as usize;
            let times = |number: usize| heard.get(number).copied().unwrap_or(0);
            lost += (first..due).filter(|number| times(*number) == 0).count();
            twice += (first..due).filter(|number| times(*number) > 1).count();
        }
        report.ours.push(
            Row::default()
                .with("broker", ear.name.clone())
                .with("from", from)
                .with("probes", u64::from(sent) * CLASSES.len() as u64)
                .with("lost", lost as u64)
                .with("duplicates", twice as u64),
        );
        for (what, count) in [("lost", lost), ("delivered twice", twice)] {
            let name = format!("subscriber of {}: {what}", ear.name);
            report.verdict.check(name, count as f64, Bound::AtMost(0.0));
        }
    }
    let name = "events that the publisher had no way for";
    let unsent = voice.unsent as f64;
    report.verdict.check(name, unsent, Bound::AtMost(0.0));
}

impl Voice {
    fn new(brokers: &[Broker]) -> Result<Self, Error> {
        let mut client = connect(brokers, 0)?;
        let streams = CLASSES.map(|class| {
            let topic = Topic::new(&format!("bench/upgrade/{}", class as u8));
            let topic = topic.map_err(|error| Error::Join(error.to_string()))?;
            let published = client.publish(&topic, media(class), PATIENCE);
            published.map_err(|error| Error::Join(error.to_string()))
        });
        let streams = streams.into_iter().collect::<Result<_, _>>()?;
        Ok(Self {
            streams,
            _client: client,
            unsent: 0,
        })
    }

    fn speak(&mut self, show: &Show) {
        let mut due = Instant::now();
        while !show.over.load(Ordering::Relaxed) {
            let number = show.sent.load(Ordering::Relaxed);
            let payload = number.to_be_bytes();
            for stream in &mut self.streams {
                let flags = Flags::FRAME_START.with(Flags::FRAME_END).with(Flags::KEY);
                let event = Outgoing {
                    flags,
                    ..Outgoing::new(&payload)
                };
                self.unsent += u64::from(stream.send(event).is_err());
            }
            show.sent.store(number + 1, Ordering::Relaxed);
            due += TICK;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
}

impl Ear {
    fn new(brokers: &[Broker], at: usize) -> Result<Self, Error> {
        let client = connect(brokers, at)?;
        let all = Filter::new("bench/upgrade/#").map_err(|error| Error::Join(error.to_string()))?;
        let asked = client.subscribe(&all);
        asked.map_err(|error| Error::Join(error.to_string()))?;
        Ok(Self {
            client,
            name: format!("broker {}", at + 1),
            heard: Default::default(),
        })
    }

    /// Listens until the show is over and what is on its way has come.
    fn listen(&mut self, show: &Show) {
        let mut until = Instant::now() + CALM;
        while Instant::now() < until {
            if !show.over.load(Ordering::Relaxed) {
                until = Instant::now() + CALM / 3;
            }
            if let Some(Received::Event(packet)) = self.client.recv(TICK) {
                self.take(&packet);
            }
        }
    }

    fn take(&mut self, packet: &[u8]) {
        let Ok(event) = Event::decode(packet) else {
            return;
        };
        let place = CLASSES
            .iter()
            .position(|class| *class == event.header.class);
        let number = event
            .payload
            .first_chunk()
            .map(|head| u32::from_be_bytes(*head));
        if let (Some(place), Some(number)) = (place, number) {
            let heard = &mut self.heard[place];
            let number = number as usize;
            if heard.len() <= number {
                heard.resize(number + 1, 0);
            }
            heard[number] = heard[number].saturating_add(1);
        }
    }
}

/// A client of the broker at this place, who knows the others, too.
fn connect(brokers: &[Broker], at: usize) -> Result<Client, Error> {
    let in_turn = (0..brokers.len()).map(|n| &brokers[(at + n) % brokers.len()]);
    let ways: Result<Vec<Address>, _> = in_turn
        .map(|broker| format!("udp://{}", broker.udp).parse())
        .collect();
    let ways = ways.map_err(|_| Error::Join("a broker's address is none".to_owned()))?;
    let mut client = Client::connect(Target::Addresses(ways), ClientOptions::default())
        .map_err(|error| Error::Join(error.to_string()))?;
    let up = client.wait_up(PATIENCE);
    up.map_err(|error| Error::Join(error.to_string()))?;
    Ok(client)
}

fn media(class: Class) -> MediaInfo {
    let (payload_type, channels, clock_rate, encoding) = match class {
        Class::Audio => (111, 2, 48_000, "opus"),
        Class::Video => (96, 0, 90_000, "H264"),
        _ => return MediaInfo::data(),
    };
    MediaInfo {
        class,
        payload_type,
        channels,
        clock_rate,
        encoding: encoding.to_owned(),
        fmtp: String::new(),
    }
}
