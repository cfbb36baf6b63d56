//! What is published, into the archive: of `sangam record` and of the recorder of sessions.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::time::{Duration, Instant};

use sangam_archive::{Archive, Log, Recorder, RecorderCounts, RecordingId};
use sangam_client::{Address, Client, ClientOptions, Received, ReliableEvent};
use sangam_model::{Class, Filter, StreamId, Topic};
use sangam_wire::feedback::Feedback;

use crate::cli::Peer;
use crate::commands::peer::{self, Pass};
use crate::exit::{Exit, Failure, io};
use crate::stop::Stop;

/// How long the broker is listened to before the disk's time is looked at.
const NAP: Duration = Duration::from_millis(50);
/// What arrives is taken together for so long, and what comes then bears one time. Without, a
/// recorder of many small packets spends most of its time in waking up. A replay is as uneven,
/// which every receiver evens out; tracks are kept in step by what their senders report.
const GATHER: Duration = Duration::from_millis(10);
/// Streams of video whose key frames are asked for; the oldest is forgotten.
const VIDEOS_MAX: usize = 1_024;

/// What is recorded, from where, and into what.
pub(super) struct Wanted<'a> {
    pub(super) from: &'a [Address],
    pub(super) peer: &'a Peer,
    pub(super) filters: &'a [Filter],
    pub(super) reliable: &'a [Topic],
    pub(super) name: &'a str,
    pub(super) archive: &'a Path,
    /// How often key frames are asked for, so that a replay may begin there; only at the begin of
    /// each stream if none.
    pub(super) keys_every: Option<Duration>,
}

/// A recording that goes on.
pub(super) struct Capture {
    client: Client,
    pass: Pass,
    pub(super) recorder: Recorder,
    clock: Clock,
    videos: VecDeque<StreamId>,
    keys_every: Option<Duration>,
    asked: Instant,
    /// Reliable topics without which there is no such recording.
    reliable: BTreeSet<Topic>,
    /// Of these, those of which nobody knows yet from when on they are recorded.
    awaited: BTreeSet<Topic>,
}

/// Nanoseconds since 1970 that never go back: the system's clock may be set meanwhile.
struct Clock {
    begin: u64,
    since: Instant,
}

impl Capture {
    /// Reaches the broker first: there is no recording without.
    pub(super) fn begin(wanted: &Wanted<'_>) -> Result<Self, Failure> {
        let archive = Archive::new(wanted.archive);
        let wrong = || io(wanted.archive.display());
        let clock = Clock {
            begin: super::now(),
            since: Instant::now(),
        };
        let begin = clock.begin;
        archive.repair(begin).map_err(wrong())?;
        let options = ClientOptions {
            queue: 8_192,
            gather: GATHER,
            // The bursts of hundreds of tracks meanwhile.
            socket_buffer: 4 << 20,
            ..ClientOptions::default()
        };
        let (mut client, pass) = peer::begin(wanted.from, wanted.peer, options)?;
        let each = Duration::from_secs(wanted.peer.connect_timeout);
        let patience = each * wanted.from.len() as u32;
        client.wait_up(patience).map_err(peer::failure)?;
        for filter in wanted.filters {
            client.subscribe(filter).map_err(peer::failure)?;
        }
        for topic in wanted.reliable {
            follow(&client, topic, 0)?;
        }
        let medium = archive.medium().map_err(wrong())?;
        let life = (begin / 1_000_000, random() as u32);
        let log = Log::new(medium, life).map_err(wrong())?;
        let recorder = Recorder::new(log, RecordingId(random()), (wanted.name, begin));
        let mut capture = Self {
            client,
            pass,
            recorder: recorder.map_err(wrong())?,
            clock,
            videos: VecDeque::new(),
            keys_every: wanted.keys_every,
            asked: Instant::now(),
            reliable: wanted.reliable.iter().cloned().collect(),
            awaited: wanted.reliable.iter().cloned().collect(),
        };
        capture.settle(patience)?;
        Ok(capture)
    }

    /// Until what is published on the reliable topics comes: a recording that has begun has all
    /// that is said from then on.
    fn settle(&mut self, patience: Duration) -> Result<(), Failure> {
        let until = Instant::now() + patience;
        while !self.awaited.is_empty() && !self.client.is_closed() {
            if Instant::now() >= until {
                for topic in &self.awaited {
                    tracing::warn!(%topic, "no broker keeps it yet; its beginning may be missed");
                }
                break;
            }
            if let Some(received) = self.client.recv(NAP) {
                self.take(received, self.clock.now())?;
            }
        }
        Ok(())
    }

    /// Records for so long, or until somebody wants an end.
    pub(super) fn run_for(&mut self, time: Duration, stop: &Stop) -> Result<(), Failure> {
        let mut now = self.clock.now();
        let until = now.saturating_add(nanoseconds(time));
        self.pass.renew(&self.client);
        while !stop.is_set() && now < until {
            let left = Duration::from_nanos(until - now);
            let received = self.client.recv(left.min(NAP));
            now = self.clock.now();
            if let Some(received) = received {
                self.take(received, now)?;
            } else if self.client.is_closed() {
                return Err(Failure::new(Exit::Unreachable, "the broker has stopped"));
            }
            self.recorder.tick(now);
        }
        self.ask_for_keys();
        Ok(())
    }

    /// Whether what is published now gets to the disk.
    pub(super) fn works(&self) -> bool {
        self.client.up().is_some() && !self.recorder.is_refused()
    }

    /// Records a reliable topic as well, with what is kept of it.
    pub(super) fn follow(&self, topic: &Topic) -> Result<(), Failure> {
        follow(&self.client, topic, u32::MAX)
    }

    /// Records something that came by another way.
    pub(super) fn data(&mut self, topic: &Topic, payload: &[u8]) {
        self.recorder.data(topic, payload, self.clock.now());
    }

    /// Ends the recording and waits until all is safe.
    pub(super) fn finish(self) -> RecorderCounts {
        let counts = self.recorder.finish(self.clock.now());
        self.client.close();
        counts
    }

    fn take(&mut self, received: Received, now: u64) -> Result<(), Failure> {
        match received {
            Received::Token(verdict) => self.pass.judge(verdict)?,
            Received::Refused { filter, reason } if !self.pass.excuses(reason) => {
                let message = format!("the broker does not grant `{filter}`: {reason}");
                return Err(peer::refused(message, reason));
            }
            Received::Reliable(ReliableEvent::SubscriptionEnded(topic, reason))
                if self.reliable.contains(&topic) && !self.pass.excuses(reason) =>
            {
                let message = format!("the broker ends the subscription of {topic}: {reason}");
                return Err(peer::refused(message, reason));
            }
            Received::Down(reason) => tracing::warn!(%reason, "the link is down"),
            Received::Up(_) => tracing::info!("the link is up"),
            other => self.keep(other, now),
        }
        Ok(())
    }

    /// Records what came at `now`.
    fn keep(&mut self, received: Received, now: u64) {
        match received {
            Received::Event(packet) => self.recorder.event(&packet, now),
            Received::Announce {
                stream,
                topic,
                media,
            } => {
                let is_video = media.class == Class::Video;
                self.recorder.announced(stream, topic, media);
                if is_video {
                    if self.videos.len() == VIDEOS_MAX {
                        self.videos.pop_front();
                    }
                    self.videos.push_back(stream);
                    // So that the recording of a video begins where it can be decoded.
                    self.ask_for_key(stream);
                }
            }
            Received::Retired(stream) => self.videos.retain(|known| *known != stream),
            Received::Reliable(ReliableEvent::Received { topic, payload, .. }) => {
                self.recorder.data(&topic, &payload, now);
            }
            Received::Reliable(ReliableEvent::Live(topic)) => {
                self.awaited.remove(&topic);
            }
            Received::Reliable(ReliableEvent::Gap {
                topic,
                first,
                through,
                ..
            }) => tracing::warn!(%topic, first, through, "records are kept no more"),
            other => tracing::debug!(?other, "from the broker"),
        }
    }

    fn ask_for_keys(&mut self) {
        let due = self
            .keys_every
            .is_some_and(|every| self.asked.elapsed() >= every);
        if due {
            self.asked = Instant::now();
            self.videos
                .iter()
                .for_each(|stream| self.ask_for_key(*stream));
        }
    }

    fn ask_for_key(&self, stream: StreamId) {
        if let Err(error) = self.client.feedback(stream, 0, &Feedback::KeyFrame) {
            tracing::debug!(%error, "key frame not asked for");
        }
    }
}

impl Clock {
    fn now(&self) -> u64 {
        self.begin.saturating_add(nanoseconds(self.since.elapsed()))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn follow(client: &Client, topic: &Topic, kept: u32) -> Result<(), Failure> {
    let taken = client.subscribe_reliable(topic, kept);
    taken.map_err(|error| Failure::new(Exit::Failure, error.to_string()))
}

/// The standard library's keys come from the system's random numbers.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
