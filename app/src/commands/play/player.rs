//! The loop of a player: events in, statistics and packets out.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use sangam_client::{Client, Playout, Received};
use sangam_io::clock;
use sangam_io::pool::Packet;
use sangam_jitter::Kind;
use sangam_model::{Class, MediaInfo, StreamId, Time, Topic};
use sangam_wire::feedback::Feedback;
use sangam_wire::{Event, rtcp, rtp};

use super::forward::Forwarder;
use super::meter::Meter;
use super::report::{Line, Report, Summary};
use super::setup::Setup;
use crate::cli::PlayArgs;
use crate::commands::peer;
use crate::exit::{Exit, Failure};
use crate::stop::Stop;

/// Streams that are announced within this time of each other go into one description and one
/// recording.
const SETTLE: Duration = Duration::from_millis(500);
/// Events that wait for their announcement: a key frame and some sound.
const EARLY: usize = 128;
/// How long the loop sleeps at most before it looks at its end.
const NAP: Duration = Duration::from_millis(50);

/// A running player.
#[derive(Debug)]
pub(in crate::commands) struct Player {
    client: Client,
    pass: peer::Pass,
    streams: Vec<Stream>,
    by_id: HashMap<StreamId, usize>,
    /// Events of streams that are not announced yet, and when they came.
    early: VecDeque<(Packet, Time)>,
    receiver: Kind,
    setup: Setup,
    forwarder: Forwarder,
    start: Instant,
    /// When the latest stream was announced, until it has its ports.
    unsettled: Option<Instant>,
}

#[derive(Debug)]
struct Stream {
    topic: Topic,
    media: MediaInfo,
    meter: Meter,
    playout: Playout,
    /// Whether its publisher has gone; a new one under the same topic takes its place.
    retired: bool,
}

impl Player {
    /// Connects and subscribes.
    pub(in crate::commands) fn open(args: &PlayArgs) -> Result<Self, Failure> {
        let (client, pass) = peer::connect(&args.from, &args.peer)?;
        for filter in &args.topic {
            client.subscribe(filter).map_err(peer::failure)?;
        }
        Ok(Self {
            client,
            pass,
            streams: Vec::new(),
            by_id: HashMap::new(),
            early: VecDeque::new(),
            receiver: args.jitter.kind(),
            setup: Setup::new(args),
            forwarder: Forwarder::default(),
            start: Instant::now(),
            unsettled: None,
        })
    }

    /// Receives for so long, or until `stop`.
    pub(in crate::commands) fn run_for(
        &mut self,
        time: Duration,
        stop: &Stop,
    ) -> Result<(), Failure> {
        let until = Instant::now() + time;
        self.pass.renew(&self.client);
        while !stop.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let nap = left.min(NAP).min(self.next_playout());
            if let Some(received) = self.client.recv(nap) {
                self.take(received)?;
            } else if self.client.is_closed() {
                return Err(Failure::new(Exit::Unreachable, "the broker has stopped"));
            }
            self.play(clock::now());
            self.settle()?;
        }
        self.setup.check()
    }

    /// The numbers so far.
    pub(in crate::commands) fn report(&self) -> Report {
        let line = |stream: &Stream| Line {
            topic: stream.topic.to_string(),
            encoding: stream.media.encoding.clone(),
            reading: stream.meter.read(),
            playout: stream.playout.stats(),
        };
        let lines = self.streams.iter().map(line).collect();
        Report {
            seconds: self.start.elapsed().as_secs_f64(),
            receiver: self.receiver,
            lines,
        }
    }

    /// Ends recording and connection.
    pub(in crate::commands) fn finish(mut self) -> Result<Summary, Failure> {
        let report = self.report();
        self.play(Time::NEVER);
        self.say_goodbye();
        let recording = self.setup.finish()?;
        let counters = self.client.counters();
        let dropped_here = counters.dropped_video
            + counters.dropped_other
            + counters.dropped_pool
            + self.forwarder.failed;
        let sdp = self.setup.sdp();
        self.client.close();
        Ok(Summary {
            report,
            recording,
            sdp,
            dropped_here,
        })
    }

    fn take(&mut self, received: Received) -> Result<(), Failure> {
        match received {
            Received::Event(packet) => self.event(packet, clock::now()),
            Received::Announce {
                stream,
                topic,
                media,
            } => self.announced(stream, topic, media),
            Received::Retired(stream) => {
                // Its last events may still come.
                if let Some(index) = self.by_id.get(&stream) {
                    self.streams[*index].retired = true;
                }
            }
            Received::Token(verdict) => self.pass.judge(verdict)?,
            Received::Refused { reason, .. } if self.pass.excuses(reason) => {}
            Received::Refused { filter, reason } => {
                let message = format!("the broker refused the topic {filter}: {reason}");
                return Err(peer::refused(message, reason));
            }
            Received::Down(reason) => {
                tracing::warn!(%reason, "the link is down; connecting again");
                // What the broker does not announce again is gone.
                self.by_id.clear();
                self.streams
                    .iter_mut()
                    .for_each(|stream| stream.retired = true);
            }
            Received::Up(info) => tracing::debug!(?info, "the link is up"),
            other => tracing::debug!(?other, "from the broker"),
        }
        Ok(())
    }

    fn announced(&mut self, id: StreamId, topic: Topic, media: MediaInfo) {
        if self.by_id.contains_key(&id) {
            return;
        }
        let heir = self
            .streams
            .iter()
            .position(|stream| stream.retired && stream.topic == topic);
        let index = heir.unwrap_or(self.streams.len());
        self.by_id.retain(|_, known| *known != index);
        self.by_id.insert(id, index);
        match self.streams.get_mut(index) {
            Some(stream) => {
                stream.retired = false;
                if stream.media.clock_rate != media.clock_rate {
                    stream.playout = Playout::new(self.receiver, media.clock_rate);
                }
                stream.media = media;
            }
            None => self.streams.push(Stream {
                meter: Meter::new(&media),
                playout: Playout::new(self.receiver, media.clock_rate),
                topic,
                media,
                retired: false,
            }),
        }
        self.unsettled = Some(Instant::now());
        self.take_early();
    }

    /// An event may overtake its announcement: it waits for it, among a few others.
    fn event(&mut self, packet: Packet, now: Time) {
        let Ok(event) = Event::decode(&packet) else {
            return;
        };
        let Some(&index) = self.by_id.get(&event.header.stream) else {
            if self.early.len() == EARLY {
                self.early.pop_front();
            }
            self.early.push_back((packet, now));
            return;
        };
        let stream = &mut self.streams[index];
        stream.meter.event(&event, now);
        if event.header.class == Class::Rtcp {
            stream.playout.control(packet);
            return;
        }
        match rtp::Packet::decode(event.payload).map(|rtp| rtp.header) {
            Ok(header) => stream.playout.packet(header, packet, now),
            // Data has no time of its own.
            Err(_) => self.forward(index, &packet),
        }
    }

    /// Sends on what is to be played by now.
    fn play(&mut self, now: Time) {
        for index in 0..self.streams.len() {
            while let Some(packet) = self.streams[index].playout.poll(now) {
                self.forward(index, &packet);
            }
        }
    }

    fn forward(&mut self, index: usize, packet: &Packet) {
        let Ok(event) = Event::decode(packet) else {
            return;
        };
        let is_rtcp = event.header.class == Class::Rtcp;
        for to in self.setup.destinations(index) {
            self.forwarder.send(to, is_rtcp, event.payload);
        }
    }

    /// How long until something is to be played.
    fn next_playout(&self) -> Duration {
        let deadlines = self
            .streams
            .iter()
            .filter_map(|stream| stream.playout.deadline());
        let next = deadlines.min().unwrap_or(Time::NEVER);
        next.since(clock::now())
    }

    /// Takes the events that came before their announcement.
    fn take_early(&mut self) {
        for (packet, at) in std::mem::take(&mut self.early) {
            self.event(packet, at);
        }
    }

    /// Tells players and recording that nothing more comes; they would wait for ever otherwise.
    fn say_goodbye(&mut self) {
        for (index, stream) in self.streams.iter().enumerate() {
            let ssrc = stream.meter.ssrc();
            let mut compound = Vec::new();
            // RFC 3550 section 6.1: a compound begins with a report, which may be empty.
            rtcp::receiver_report(&mut compound, ssrc, &[]);
            rtcp::bye(&mut compound, ssrc);
            for to in self.setup.destinations(index) {
                self.forwarder.send(to, true, &compound);
            }
        }
    }

    /// Gives streams their ports once no more of them come.
    fn settle(&mut self) -> Result<(), Failure> {
        if self.unsettled.is_none_or(|since| since.elapsed() < SETTLE) {
            return Ok(());
        }
        self.unsettled = None;
        let media: Vec<_> = self
            .streams
            .iter()
            .map(|stream| stream.media.clone())
            .collect();
        self.setup.arrange(&media)?;
        for (id, index) in &self.by_id {
            if self.streams[*index].media.class != Class::Video {
                continue;
            }
            // So that players and recording need not wait for the next one.
            if let Err(error) = self.client.feedback(*id, 0, &Feedback::KeyFrame) {
                tracing::debug!(%error, "key frame not asked for");
            }
        }
        Ok(())
    }
}
