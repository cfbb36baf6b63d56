//! `sangam replay`: a recording into topics, with the timing it came with.

use std::time::{Duration, Instant};

use sangam_archive::{Archive, Folder, Recording, Replay, Replayed};
use sangam_client::{Client, Numbering, Outgoing, Publisher, Received};
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

/// A recording that is replayed.
struct Running {
    client: Client,
    pass: Pass,
    publishers: Vec<Publisher>,
    sent: u64,
    failed: u64,
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
        running.send(&next);
        progress.at(running.sent);
    }
    drop(progress);
    running.wait(Instant::now() + MARGIN, &stop)?;
    let (sent, failed) = (running.sent, running.failed);
    drop(running.publishers);
    running.client.close();
    if as_json {
        output::json_line(&json!({ "event": "summary", "packets": sent, "failed": failed }));
    } else {
        output::line(&format!("replayed {sent} packets, {failed} were not sent"));
    }
    super::is_whole(replay.gaps())
}

impl Running {
    fn start(args: &ReplayArgs, recording: &Recording) -> Result<Self, Failure> {
        let (mut client, pass) = peer::connect(&args.to, &args.peer)?;
        let mut publishers = Vec::new();
        for track in &recording.tracks {
            let topic = match &args.below {
                Some(prefix) => Topic::new(&format!("{prefix}/{}", track.info.topic)),
                None => Ok(track.info.topic.clone()),
            };
            let topic =
                topic.map_err(|error| Failure::new(Exit::Usage, format!("--below: {error}")))?;
            let media = track.info.media.clone();
            let mut publisher = client
                .publish(&topic, media, peer::ANSWER)
                .map_err(peer::failure)?;
            publisher.set_numbering(Numbering::Rtp);
            publishers.push(publisher);
        }
        Ok(Self {
            client,
            pass,
            publishers,
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
            match self.client.recv(left.min(NAP)) {
                Some(Received::Token(verdict)) => self.pass.judge(verdict)?,
                Some(other) => tracing::debug!(?other, "from the broker"),
                None if self.client.is_closed() => {
                    return Err(Failure::new(Exit::Unreachable, "the broker has stopped"));
                }
                None => self.pass.renew(&self.client),
            }
        }
        Ok(())
    }

    fn send(&mut self, next: &Replayed) {
        self.sent += u64::from(!next.is_rtcp);
        self.failed += u64::from(!publish(&mut self.publishers[next.track], next));
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
