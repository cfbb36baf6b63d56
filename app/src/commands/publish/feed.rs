//! All streams of one publication and the loop that moves them.

use std::path::Path;
use std::time::{Duration, Instant};

use sangam_client::{Client, Received};
use sangam_io::poll::{Events, Poller};
use sangam_io::udp::RecvBatch;
use sangam_model::{Class, MediaInfo, Topic};

use super::intake::{Intake, Sent, Sockets};
use crate::cli::PublishArgs;
use crate::commands::peer;
use crate::exit::{Exit, Failure, io};
use crate::ffmpeg::{FileSource, Output, probe};
use crate::stop::Stop;

/// How long the loop sleeps at most before it looks at its end.
const NAP: Duration = Duration::from_millis(100);
const BATCH: usize = 32;
/// Longest packet taken; what is longer does not fit an event.
const PACKET_LEN_MAX: usize = 16_000;

/// Where the streams of a file are published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Place {
    /// At `TOPIC/audio` and `TOPIC/video`.
    Below(Topic),
    /// As microphone and camera of a member (docs/spec/xgsp.md, Topics).
    Member {
        /// `tenant/name/room`.
        room: String,
        /// Such as `m17`.
        member: String,
    },
}

impl Place {
    fn topic(&self, class: Class) -> Result<Topic, Failure> {
        let class = class.name();
        let text = match self {
            Self::Below(topic) => format!("{topic}/{class}"),
            Self::Member { room, member } => format!("{room}/{class}/{member}/{class}"),
        };
        let wrong = |error| Failure::new(Exit::Usage, format!("the topic {text}: {error}"));
        Topic::new(&text).map_err(wrong)
    }
}

/// A running publication.
pub(in crate::commands) struct Feed {
    client: Client,
    pass: peer::Pass,
    intakes: Vec<Intake>,
    source: Option<FileSource>,
    poller: Poller,
    events: Events,
    batch: RecvBatch,
}

impl Feed {
    /// Connects, opens the sockets and starts FFmpeg if a file is given.
    pub(in crate::commands) fn open(args: &PublishArgs) -> Result<Self, Failure> {
        Self::open_at(args, &Place::Below(args.topic.clone()))
    }

    /// The same, with the streams of a file at a place of their own.
    pub(in crate::commands) fn open_at(args: &PublishArgs, place: &Place) -> Result<Self, Failure> {
        let mut source = Source::open(args, place)?;
        let (mut client, pass) = peer::connect(&args.to, &args.peer)?;
        let ffmpeg = source.start(args)?;
        let mut intakes = Vec::new();
        for (sockets, topic, media) in source.streams {
            let publisher = client
                .publish(&topic, media, peer::ANSWER)
                .map_err(peer::failure)?;
            intakes.push(Intake::new(sockets, publisher));
        }
        let poller = Poller::new().map_err(io("cannot wait for packets"))?;
        for (i, intake) in intakes.iter().enumerate() {
            intake
                .watch(&poller, i as u64 * 2)
                .map_err(io("cannot wait for packets"))?;
        }
        Ok(Self {
            client,
            pass,
            intakes,
            source: ffmpeg,
            poller,
            events: Events::with_capacity(16),
            batch: RecvBatch::new(BATCH, PACKET_LEN_MAX),
        })
    }

    /// Moves packets for so long, or until `stop`. False once the file has come to its end.
    pub(in crate::commands) fn run_for(
        &mut self,
        time: Duration,
        stop: &Stop,
    ) -> Result<bool, Failure> {
        let until = Instant::now() + time;
        self.pass.renew(&self.client);
        while !stop.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(true);
            }
            let ended = self.source.as_mut().is_some_and(FileSource::has_ended);
            let moved = self.step(if ended { Duration::ZERO } else { left.min(NAP) })?;
            self.heed_broker()?;
            if ended && !moved {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What was published so far.
    pub(in crate::commands) fn sent(&self) -> Vec<Sent> {
        self.intakes
            .iter()
            .map(|intake| intake.sent.clone())
            .collect()
    }

    /// Ends FFmpeg and says goodbye to the broker.
    pub(in crate::commands) fn finish(self) -> Result<Vec<Sent>, Failure> {
        let sent = self.sent();
        if let Some(source) = self.source {
            source.finish()?;
        }
        drop(self.intakes);
        self.client.close();
        Ok(sent)
    }

    /// One round; whether anything came.
    fn step(&mut self, nap: Duration) -> Result<bool, Failure> {
        let trouble = || io("receiving RTP failed");
        let ready = self
            .poller
            .wait(&mut self.events, Some(nap))
            .map_err(trouble())?;
        for event in self.events.iter() {
            let Ok(token) = usize::try_from(event.token) else {
                continue;
            };
            if let Some(intake) = self.intakes.get_mut(token / 2) {
                intake
                    .take(token % 2 == 1, &mut self.batch)
                    .map_err(trouble())?;
            }
        }
        Ok(ready > 0)
    }

    /// What the broker says concerns the link, which the client keeps by itself.
    fn heed_broker(&mut self) -> Result<(), Failure> {
        while let Some(received) = self.client.try_recv() {
            match received {
                Received::Token(verdict) => self.pass.judge(verdict)?,
                Received::Down(reason) => tracing::warn!(%reason, "the link is down"),
                Received::Up(_) => tracing::info!("the link is up"),
                // FFmpeg encodes a key frame each second anyway and takes no requests.
                other => tracing::debug!(?other, "from the broker"),
            }
        }
        Ok(())
    }
}

/// What will be published, before it is.
struct Source<'a> {
    streams: Vec<(Sockets, Topic, MediaInfo)>,
    file: Option<(&'a Path, crate::ffmpeg::Probe)>,
}

impl<'a> Source<'a> {
    fn open(args: &'a PublishArgs, place: &Place) -> Result<Self, Failure> {
        match (&args.file, args.rtp, &args.media) {
            (Some(file), ..) => Self::file(file, place),
            (None, Some(address), Some(media)) => {
                let usage = |error: String| Failure::new(Exit::Usage, format!("--media: {error}"));
                let media = media.info().map_err(usage)?;
                let sockets = Sockets::at(address).map_err(|error| {
                    let message = format!("--rtp {address} (RTCP on the next port): {error}");
                    Failure::new(Exit::Configuration, message)
                })?;
                Ok(Self {
                    streams: vec![(sockets, args.topic.clone(), media)],
                    file: None,
                })
            }
            _ => Err(Failure::new(
                Exit::Usage,
                "give --file CLIP, or --rtp ADDR:PORT and --media",
            )),
        }
    }

    fn file(file: &'a Path, place: &Place) -> Result<Self, Failure> {
        let found = probe(file, false)?;
        let mut streams = Vec::new();
        for class in [Class::Audio, Class::Video] {
            if found.first(class).is_none() {
                continue;
            }
            let topic = place.topic(class)?;
            let sockets = Sockets::any().map_err(io("no ports for FFmpeg"))?;
            // What it carries is known once FFmpeg has opened its encoders.
            streams.push((
                sockets,
                topic,
                MediaInfo {
                    class,
                    ..MediaInfo::data()
                },
            ));
        }
        Ok(Self {
            streams,
            file: Some((file, found)),
        })
    }

    fn start(&mut self, args: &PublishArgs) -> Result<Option<FileSource>, Failure> {
        let Some((file, found)) = &self.file else {
            return Ok(None);
        };
        let outputs: Vec<_> = self
            .streams
            .iter()
            .map(|(sockets, _, media)| Output {
                class: media.class,
                rtp: sockets.rtp.local_addr(),
                rtcp: sockets.rtcp.local_addr(),
            })
            .collect();
        let mut ffmpeg = FileSource::start(args, file, found, &outputs)?;
        let media = ffmpeg.media(outputs.len())?;
        for ((_, _, expected), media) in self.streams.iter_mut().zip(media) {
            *expected = media;
        }
        Ok(Some(ffmpeg))
    }
}
