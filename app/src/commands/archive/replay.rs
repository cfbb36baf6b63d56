//! `sangam replay`: a recording into topics, with the timing it came with.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sangam_archive::{Archive, Folder, Recording, Replay, Replayed, Track};
use sangam_client::{
    Client, Numbering, Outgoing, Publisher, Received, ReliableError, ReliableEvent,
    ReliablePublisher,
};
use sangam_model::Topic;
use sangam_wire::Flags;
use serde_json::json;

use super::progress::Progress;
use crate::cli::ReplayArgs;
use crate::commands::peer::{self, Pass};
use crate::exit::{Exit, Failure, io};
use crate::output;
use crate::stop::Stop;

/// How long the broker is listened to at most before the time is looked at.
const NAP: Duration = Duration::from_millis(50);

/// Whoever listens hears of the streams before their first packets, and gets the last before they
/// end.
const MARGIN: Duration = Duration::from_millis(500);

/// Events of a reliable topic that may wait for room there before everything else waits as well.
const BEHIND_MAX: usize = 1_024;

/// A recording that is replayed.
struct Running {
    client: Client,
    pass: Pass,
    outlets: Vec<Outlet>,
    sent: u64,
    failed: u64,
}

/// Where what a track has goes.
enum Outlet {
    Stream(Publisher),
    /// With what the topic had no room for yet.
    Reliable(ReliablePublisher, VecDeque<Vec<u8>>),
}

/// Replays until the end, or the user's.
pub(crate) fn run(args: &ReplayArgs, as_json: bool) -> Result<(), Failure> {
    let stop = Stop::on_signals().map_err(io("cannot wait for signals"))?;
    let recording = super::find(&args.place, &args.recording)?;
    let wrong = || io(args.place.folder.display());
    let medium = Archive::new(&args.place.folder).reader();
    let mut running = Running::start(args, &recording)?;
    let mut replay: Replay<Folder> = Replay::new(medium, recording);
    let mut progress = Progress::new("replaying", replay.recording().packets());
    // From the first packet on: nobody waits for what was not there.
    let mut begin = None;
    while let Some(next) = replay.pull().map_err(wrong())? {
        let (start, first) = *begin.get_or_insert((Instant::now() + MARGIN, next.at));
        running.wait(start + next.at.saturating_sub(first), &stop)?;
        if stop.is_set() {
            break;
        }
        running.send(next, &stop)?;
        progress.at(running.sent);
    }
    drop(progress);
    running.wait(Instant::now() + MARGIN, &stop)?;
    let unheld = running.settle(&stop)?;
    let (sent, failed) = (running.sent, running.failed);
    drop(running.outlets);
    running.client.close();
    if as_json {
        output::json_line(&json!({
            "event": "summary", "packets": sent, "failed": failed, "unheld": unheld,
        }));
    } else {
        output::line(&format!("replayed {sent} packets, {failed} were not sent"));
    }
    if unheld > 0 {
        let message = format!("the network does not hold the last {unheld} records yet");
        return Err(Failure::new(Exit::Unreachable, message));
    }
    super::is_whole(replay.gaps())
}

impl Running {
    fn start(args: &ReplayArgs, recording: &Recording) -> Result<Self, Failure> {
        let (mut client, pass) = peer::connect(&args.to, &args.peer)?;
        let mut outlets = Vec::new();
        for track in &recording.tracks {
            let topic = match &args.below {
                Some(prefix) => Topic::new(&format!("{prefix}/{}", track.info.topic)),
                None => Ok(track.info.topic.clone()),
            };
            let topic =
                topic.map_err(|error| Failure::new(Exit::Usage, format!("--below: {error}")))?;
            outlets.push(Outlet::open(&mut client, &topic, track)?);
        }
        Ok(Self {
            client,
            pass,
            outlets,
            sent: 0,
            failed: 0,
        })
    }

    /// Listens to the broker until then.
    fn wait(&mut self, until: Instant, stop: &Stop) -> Result<(), Failure> {
        while !stop.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.listen(left.min(NAP))?;
        }
        Ok(())
    }

    fn listen(&mut self, time: Duration) -> Result<(), Failure> {
        match self.client.recv(time) {
            Some(Received::Token(verdict)) => self.pass.judge(verdict)?,
            Some(Received::Reliable(ReliableEvent::PublisherEnded(_, reason))) => {
                let message = format!("the broker ends a publication: {reason}");
                return Err(peer::refused(message, reason));
            }
            Some(other) => tracing::debug!(?other, "from the broker"),
            None if self.client.is_closed() => {
                return Err(Failure::new(Exit::Unreachable, "the broker has stopped"));
            }
            None => self.pass.renew(&self.client),
        }
        for outlet in &mut self.outlets {
            self.failed += outlet.catch_up();
        }
        Ok(())
    }

    /// Sends what is due. A reliable topic without room holds back what comes behind on it, and all
    /// of the recording only when that is much.
    fn send(&mut self, next: Replayed, stop: &Stop) -> Result<(), Failure> {
        while self.outlets[next.track].is_behind() && !stop.is_set() {
            self.listen(NAP)?;
        }
        self.sent += u64::from(!next.is_rtcp);
        self.failed += match &mut self.outlets[next.track] {
            Outlet::Stream(publisher) => u64::from(!publish(publisher, &next)),
            reliable @ Outlet::Reliable(..) => reliable.take(next.payload),
        };
        Ok(())
    }

    /// Waits until the network holds what was published on reliable topics; how many records it
    /// does not, as somebody wanted an end.
    fn settle(&mut self, stop: &Stop) -> Result<usize, Failure> {
        loop {
            let unheld = self.outlets.iter().map(Outlet::unheld).sum();
            if unheld == 0 || stop.is_set() {
                return Ok(unheld);
            }
            self.listen(NAP)?;
        }
    }
}

impl Outlet {
    fn open(client: &mut Client, topic: &Topic, track: &Track) -> Result<Self, Failure> {
        if track.info.reliable {
            let publisher = client.publish_reliable(topic);
            let wrong =
                |error: ReliableError| Failure::new(Exit::Failure, format!("{topic}: {error}"));
            return Ok(Self::Reliable(publisher.map_err(wrong)?, VecDeque::new()));
        }
        let media = track.info.media.clone();
        let publisher = client.publish(topic, media, peer::ANSWER);
        let mut publisher = publisher.map_err(peer::failure)?;
        publisher.set_numbering(Numbering::Rtp);
        Ok(Self::Stream(publisher))
    }

    /// Takes an event of a reliable topic; how many could not be sent.
    fn take(&mut self, event: Vec<u8>) -> u64 {
        if let Self::Reliable(_, waiting) = self {
            waiting.push_back(event);
        }
        self.catch_up()
    }

    /// Sends what waits, as far as there is room; how many events could not be sent at all.
    fn catch_up(&mut self) -> u64 {
        let mut failed = 0;
        let Self::Reliable(publisher, waiting) = self else {
            return failed;
        };
        while let Some(event) = waiting.front() {
            match publisher.send(event) {
                Ok(_) => {}
                Err(ReliableError::Full) => break,
                Err(error) => {
                    tracing::debug!(%error, "an event was not sent");
                    failed += 1;
                }
            }
            waiting.pop_front();
        }
        failed
    }

    fn is_behind(&self) -> bool {
        matches!(self, Self::Reliable(_, waiting) if waiting.len() >= BEHIND_MAX)
    }

    /// What the network does not hold yet.
    fn unheld(&self) -> usize {
        match self {
            Self::Stream(_) => 0,
            Self::Reliable(publisher, waiting) => publisher.unheld() + waiting.len(),
        }
    }
}

/// Publishes what a recording has; whether it was sent.
pub(super) fn publish(publisher: &mut Publisher, next: &Replayed) -> bool {
    let done = if next.is_rtcp {
        publisher.send_rtcp(&next.payload)
    } else {
        let event = Outgoing {
            flags: Flags::from_bits(next.flags),
            layer: next.layer,
            payload: &next.payload,
        };
        publisher.send(event).map(drop)
    };
    if let Err(error) = &done {
        tracing::debug!(%error, "a packet was not sent");
    }
    done.is_ok()
}
