//! `sangam record`: topics into the archive.

use std::time::Duration;

use sangam_archive::{RecorderCounts, RecordingId};
use serde_json::{Value, json};

use super::capture::{Capture, Wanted};
use super::readiness::Readiness;
use super::store::{self, Carrier};
use crate::cli::RecordArgs;
use crate::commands::peer::Length;
use crate::commands::session::Server;
use crate::commands::table::{self, Live};
use crate::exit::{Exit, Failure, io};
use crate::output;
use crate::stop::Stop;

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
    capture: Capture,
    name: String,
    readiness: Option<Readiness>,
}

/// Records until the time or the user's patience ends.
pub(crate) fn run(args: &RecordArgs, as_json: bool) -> Result<(), Failure> {
    let stop = Stop::on_signals().map_err(io("cannot wait for signals"))?;
    let mut running = Running::start(args)?;
    let carrier = Carrier::start(&args.place, None, &stop)?;
    let length = Length::new(args.seconds);
    let mut live = Live::new();
    if as_json {
        output::json_line(&running.to_json("begin", running.counts()));
    }
    while !stop.is_set() && !length.is_over() {
        running.run_for(SECOND, &stop)?;
        let counts = running.counts();
        if as_json {
            output::json_line(&running.to_json("second", counts));
        } else {
            live.show(&running.text(counts));
        }
    }
    let done = running.finish(as_json);
    stop.set();
    carrier.end();
    // The last segment is whole only now.
    store::carry_last(&args.place);
    done
}

impl Running {
    fn start(args: &RecordArgs) -> Result<Self, Failure> {
        let filters = args.filters();
        let first = filters.first().map(ToString::to_string);
        let first = first.or(args.reliable.first().map(ToString::to_string));
        let name = args.name.clone().or(first).unwrap_or_default();
        let capture = Capture::begin(&Wanted {
            from: &args.from,
            peer: &args.peer,
            filters: &filters,
            reliable: &args.reliable,
            name: &name,
            archive: &args.place.folder,
            keys_every: None,
        })?;
        let readiness = args.session.as_ref().map(|session| {
            let server = Server::new(&args.api.server, args.api.api_token.as_deref())?;
            Readiness::begin(server, &session.path())
        });
        Ok(Self {
            capture,
            name,
            readiness: readiness.transpose()?,
        })
    }

    fn run_for(&mut self, time: Duration, stop: &Stop) -> Result<(), Failure> {
        self.capture.run_for(time, stop)?;
        if let Some(readiness) = &mut self.readiness {
            readiness.tell(!self.capture.recorder.is_refused());
        }
        Ok(())
    }

    fn counts(&self) -> RecorderCounts {
        self.capture.recorder.counts()
    }

    fn finish(self, as_json: bool) -> Result<(), Failure> {
        if let Some(readiness) = self.readiness {
            readiness.end();
        }
        let (id, name) = (self.capture.recorder.id(), self.name);
        let counts = self.capture.finish();
        if as_json {
            output::json_line(&to_json("summary", (id, &name), counts));
        } else {
            output::line(&format!(
                "recorded {} packets of {} tracks as {id}",
                counts.safe, counts.tracks
            ));
        }
        if counts.safe < counts.packets {
            let lost = counts.packets - counts.safe;
            let message = format!("the disk refused the last {lost} packets");
            let hint = "is it full? What was safe before is there";
            return Err(Failure::new(Exit::Failure, message).hint(hint));
        }
        Ok(())
    }

    fn to_json(&self, event: &str, counts: RecorderCounts) -> Value {
        let mut line = to_json(event, (self.capture.recorder.id(), &self.name), counts);
        line["refused"] = self.capture.recorder.is_refused().into();
        line
    }

    fn text(&self, counts: RecorderCounts) -> String {
        let row = vec![
            self.capture.recorder.id().to_string(),
            self.name.clone(),
            counts.tracks.to_string(),
            counts.packets.to_string(),
            counts.safe.to_string(),
            counts.dropped.to_string(),
            format!("{:.1}", counts.bytes as f64 / f64::from(1 << 20)),
        ];
        let refused = if self.capture.recorder.is_refused() {
            "the disk refuses what is recorded: make room; it is tried again each second\n"
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
