//! `sangam record`: topics into the archive.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use sangam_archive::{Archive, Log, Recorder, RecorderCounts, RecordingId};
use sangam_client::{Client, ClientOptions, Received, ReliableEvent};
use sangam_model::Class;
use sangam_wire::feedback::Feedback;
use serde_json::{Value, json};

use crate::cli::RecordArgs;
use crate::commands::peer::{self, Length, Pass};
use crate::commands::session::Server;
use crate::commands::table::{self, Live};
use crate::exit::{Exit, Failure, io};
use crate::output;
use crate::stop::Stop;

use super::readiness::Readiness;

/// How long the broker is listened to before the disk's time is looked at.
const NAP: Duration = Duration::from_millis(50);
const SECOND: Duration = Duration::from_secs(1);
const HEAD: [&str; 7] = [
    "RECORDING",
    "NAME",
    "TRACKS",
    "PACKETS",
    "SAFE",
    "DROPPED",
    "MiB",
];

/// A recording that goes on.
struct Running {
    client: Client,
    pass: Pass,
    recorder: Recorder,
    name: String,
    clock: Clock,
    readiness: Option<Readiness>,
}

/// Nanoseconds since 1970 that never go back: the system's clock may be set meanwhile.
struct Clock {
    begin: u64,
    since: Instant,
}

/// Records until the time or the user's patience ends.
pub(crate) fn run(args: &RecordArgs, as_json: bool) -> Result<(), Failure> {
    let stop = Stop::on_signals().map_err(io("cannot wait for signals"))?;
    let mut running = Running::start(args)?;
    let length = Length::new(args.seconds);
    let mut live = Live::new();
    if as_json {
        output::json_line(&running.to_json("begin", running.recorder.counts()));
    }
    while !stop.is_set() && !length.is_over() {
        running.run_for(SECOND, &stop)?;
        let counts = running.recorder.counts();
        if as_json {
            output::json_line(&running.to_json("second", counts));
        } else {
            live.show(&running.text(counts));
        }
    }
    running.finish(as_json)
}

impl Running {
    fn start(args: &RecordArgs) -> Result<Self, Failure> {
        let archive = Archive::new(&args.place.folder);
        let wrong = || io(args.place.folder.display());
        let clock = Clock {
            begin: super::now(),
            since: Instant::now(),
        };
        let begin = clock.begin;
        archive.repair(begin).map_err(wrong())?;
        let options = ClientOptions {
            queue: 8_192,
            ..ClientOptions::default()
        };
        let (mut client, pass) = peer::begin(&args.from, &args.peer, options)?;
        let patience = Duration::from_secs(args.peer.connect_timeout) * args.from.len() as u32;
        client.wait_up(patience).map_err(peer::failure)?;
        let filters = args.filters();
        for filter in &filters {
            client.subscribe(filter).map_err(peer::failure)?;
        }
        for topic in &args.reliable {
            let taken = client.subscribe_reliable(topic, 0);
            taken.map_err(|error| Failure::new(Exit::Failure, error.to_string()))?;
        }
        let first = filters.first().map(ToString::to_string);
        let first = first.or(args.reliable.first().map(ToString::to_string));
        let name = args.name.clone().or(first).unwrap_or_default();
        let medium = archive.medium().map_err(wrong())?;
        let life = (begin / 1_000_000, random() as u32);
        let log = Log::new(medium, life).map_err(wrong())?;
        let recorder = Recorder::new(log, RecordingId(random()), (&name, begin));
        let recorder = recorder.map_err(wrong())?;
        let readiness = args.session.as_ref().map(|session| {
            let server = Server::new(&args.api.server, args.api.api_token.as_deref())?;
            Readiness::begin(server, &session.path())
        });
        Ok(Self {
            client,
            pass,
            recorder,
            name,
            clock,
            readiness: readiness.transpose()?,
        })
    }

    fn run_for(&mut self, time: Duration, stop: &Stop) -> Result<(), Failure> {
        let until = Instant::now() + time;
        self.pass.renew(&self.client);
        while !stop.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if let Some(received) = self.client.recv(left.min(NAP)) {
                self.take(received)?;
            } else if self.client.is_closed() {
                return Err(Failure::new(Exit::Unreachable, "the broker has stopped"));
            }
            self.recorder.tick(self.clock.now());
        }
        if let Some(readiness) = &mut self.readiness {
            readiness.tell(!self.recorder.is_refused());
        }
        Ok(())
    }

    fn take(&mut self, received: Received) -> Result<(), Failure> {
        match received {
            Received::Token(verdict) => self.pass.judge(verdict)?,
            Received::Refused { filter, reason } if !self.pass.excuses(reason) => {
                let message = format!("the broker does not grant `{filter}`: {reason}");
                return Err(peer::refused(message, reason));
            }
            Received::Down(reason) => tracing::warn!(%reason, "the link is down"),
            Received::Up(_) => tracing::info!("the link is up"),
            other => self.keep(other),
        }
        Ok(())
    }

    fn keep(&mut self, received: Received) {
        let now = self.clock.now();
        match received {
            Received::Event(packet) => self.recorder.event(&packet, now),
            Received::Announce {
                stream,
                topic,
                media,
            } => {
                let is_video = media.class == Class::Video;
                self.recorder.announced(stream, topic, media);
                // So that the recording of a video begins where it can be decoded.
                let asked = is_video.then(|| self.client.feedback(stream, 0, &Feedback::KeyFrame));
                if let Some(Err(error)) = asked {
                    tracing::debug!(%error, "key frame not asked for");
                }
            }
            Received::Reliable(ReliableEvent::Received { topic, payload, .. }) => {
                self.recorder.data(&topic, &payload, now);
            }
            other => tracing::debug!(?other, "from the broker"),
        }
    }

    fn finish(self, as_json: bool) -> Result<(), Failure> {
        if let Some(readiness) = self.readiness {
            readiness.end();
        }
        let (id, name) = (self.recorder.id(), self.name.clone());
        let counts = self.recorder.finish(self.clock.now());
        if as_json {
            output::json_line(&to_json("summary", (id, &name), counts));
        } else {
            output::line(&format!(
                "recorded {} packets of {} tracks as {id}",
                counts.safe, counts.tracks
            ));
        }
        self.client.close();
        if counts.safe < counts.packets {
            let lost = counts.packets - counts.safe;
            let message = format!("the disk refused the last {lost} packets");
            return Err(Failure::new(Exit::Failure, message).hint("is it full?"));
        }
        Ok(())
    }

    fn to_json(&self, event: &str, counts: RecorderCounts) -> Value {
        to_json(event, (self.recorder.id(), &self.name), counts)
    }

    fn text(&self, counts: RecorderCounts) -> String {
        let row = vec![
            self.recorder.id().to_string(),
            self.name.clone(),
            counts.tracks.to_string(),
            counts.packets.to_string(),
            counts.safe.to_string(),
            counts.dropped.to_string(),
            format!("{:.1}", counts.bytes as f64 / f64::from(1 << 20)),
        ];
        let refused = if self.recorder.is_refused() {
            "the disk refuses what is recorded; it is tried again\n"
        } else {
            ""
        };
        table::render(&HEAD, &[row]) + refused
    }
}

fn to_json(event: &str, (id, name): (RecordingId, &str), counts: RecorderCounts) -> Value {
    json!({
        "event": event,
        "recording": id.to_string(),
        "name": name,
        "tracks": counts.tracks,
        "packets": counts.packets,
        "bytes": counts.bytes,
        "safe_packets": counts.safe,
        "dropped": counts.dropped,
        "unknown": counts.unknown,
    })
}

impl Clock {
    fn now(&self) -> u64 {
        let since = u64::try_from(self.since.elapsed().as_nanos());
        self.begin.saturating_add(since.unwrap_or(u64::MAX))
    }
}

/// The standard library's keys come from the system's random numbers.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
