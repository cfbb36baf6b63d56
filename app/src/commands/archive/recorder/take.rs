//! One session that is recorded: a thread that takes what is published, and what happens.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sangam_model::{Filter, Topic};
use serde_json::{Value, json};

use super::super::capture::{Capture, Wanted};
use super::catalogue::Catalogue;
use super::{Id, Options};
use crate::exit::{Failure, io};
use crate::stop::Stop;

/// Where the events of a session stand in its recording, below the session.
pub(super) const LOG: &str = "/service/log";
/// Key frames stand so close at least, so that a replay may begin there.
const KEYS_EVERY: Duration = Duration::from_secs(4);
/// What happened waits no longer.
const TURN: Duration = Duration::from_millis(100);
/// Frames of events that may wait for the thread; past that they are asked for again.
const FRAMES: usize = 64;
/// Boards of one recording: those of all rooms.
const BOARDS_MAX: usize = 64;

/// The way to the thread.
pub(super) struct Take {
    /// The last event that was handed over.
    after: u64,
    works: Arc<AtomicBool>,
    frames: SyncSender<Value>,
    stop: Stop,
    thread: JoinHandle<()>,
}

impl Take {
    /// Begins to record a session, which is told whole.
    pub(super) fn start(
        id: &Id,
        task: &Value,
        (options, catalogue): (&Arc<Options>, &Arc<Catalogue>),
    ) -> Result<Self, Failure> {
        let (frames, inbox) = mpsc::sync_channel(FRAMES);
        let works = Arc::new(AtomicBool::new(false));
        let stop = Stop::default();
        let worker = Worker {
            id: id.clone(),
            options: Arc::clone(options),
            catalogue: Arc::clone(catalogue),
            works: Arc::clone(&works),
            stop: stop.clone(),
            boards: BTreeSet::new(),
        };
        let state = state(&task["session"]);
        let thread = thread::Builder::new().name("sangam-take".to_owned());
        let thread = thread.spawn(move || worker.run(&state, &inbox));
        Ok(Self {
            after: task["after"].as_u64().unwrap_or_default(),
            works,
            frames,
            stop,
            thread: thread.map_err(io("no thread to record"))?,
        })
    }

    /// Hands over what happened since.
    pub(super) fn tell(&mut self, task: &Value) {
        let events = task["events"].as_array().map_or(&[][..], Vec::as_slice);
        let frame = json!({ "type": "events", "events": events });
        if events.is_empty() || self.frames.try_send(frame).is_ok() {
            self.after = task["after"].as_u64().unwrap_or(self.after);
        }
    }

    /// The last event it knows.
    pub(super) const fn after(&self) -> u64 {
        self.after
    }

    /// Whether it records.
    pub(super) fn works(&self) -> bool {
        self.works.load(Ordering::Relaxed)
    }

    /// Whether it has failed.
    pub(super) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the recording; its thread puts down what it has.
    pub(super) fn end(self) -> JoinHandle<()> {
        self.stop.set();
        self.thread
    }
}

/// What a recording needs of a session: who is there.
fn state(session: &Value) -> Value {
    let members = session["members"].as_array().map_or(&[][..], Vec::as_slice);
    let members = members
        .iter()
        .map(|one| json!({ "id": one["id"], "name": one["name"] }));
    let rooms = session["rooms"].as_array().map_or(&[][..], Vec::as_slice);
    let rooms = rooms
        .iter()
        .map(|one| json!({ "name": one["name"], "title": one["title"] }));
    json!({ "type": "state", "session": {
        "tenant": session["tenant"], "name": session["name"], "title": session["title"],
        "seq": session["seq"], "rooms": rooms.collect::<Vec<_>>(),
        "members": members.collect::<Vec<_>>(),
    } })
}

struct Worker {
    id: Id,
    options: Arc<Options>,
    catalogue: Arc<Catalogue>,
    works: Arc<AtomicBool>,
    stop: Stop,
    /// Rooms whose boards are recorded.
    boards: BTreeSet<String>,
}

impl Worker {
    fn run(mut self, state: &Value, inbox: &Receiver<Value>) {
        let session = format!("{}/{}", self.id.0, self.id.1);
        let mut capture = match self.begin(&session) {
            Ok(capture) => capture,
            Err(error) => {
                return tracing::warn!(%error, %session, "the session is not recorded");
            }
        };
        let recording = capture.recorder.id().to_string();
        self.catalogue.begun(&recording);
        tracing::info!(%session, %recording, "the session is recorded");
        if let Err(error) = self.record(&mut capture, (&session, state), inbox) {
            tracing::warn!(%error, %session, "the recording is cut off");
        }
        self.works.store(false, Ordering::Relaxed);
        let counts = capture.finish();
        let lost = counts.packets - counts.safe;
        tracing::info!(%session, %recording, packets = counts.safe, lost, "recorded");
        self.catalogue.ended(&recording);
    }

    fn begin(&self, session: &str) -> Result<Capture, Failure> {
        // Tenant and name are levels of topics.
        let all = Filter::new(&format!("{session}/#")).ok();
        Capture::begin(&Wanted {
            from: &self.options.brokers,
            peer: &self.options.peer,
            filters: all.as_slice(),
            reliable: &[],
            name: session,
            archive: &self.options.archive,
            keys_every: Some(KEYS_EVERY),
        })
    }

    fn record(
        &mut self,
        capture: &mut Capture,
        (session, state): (&str, &Value),
        inbox: &Receiver<Value>,
    ) -> Result<(), Failure> {
        let Ok(log) = Topic::new(&format!("{session}{LOG}")) else {
            return Ok(());
        };
        capture.data(&log, state.to_string().as_bytes());
        let rooms = state["session"]["rooms"].as_array();
        for room in rooms.into_iter().flatten() {
            self.board(capture, (session, &room["name"]))?;
        }
        while !self.stop.is_set() {
            for frame in inbox.try_iter() {
                capture.data(&log, frame.to_string().as_bytes());
                for event in frame["events"].as_array().into_iter().flatten() {
                    if event["event"] == "opened" {
                        self.board(capture, (session, &event["room"]))?;
                    }
                }
            }
            capture.run_for(TURN, &self.stop)?;
            self.works.store(capture.works(), Ordering::Relaxed);
        }
        Ok(())
    }

    fn board(&mut self, capture: &Capture, (session, room): (&str, &Value)) -> Result<(), Failure> {
        let room = room.as_str().unwrap_or_default();
        let Ok(topic) = Topic::new(&format!("{session}/{room}/board")) else {
            return Ok(());
        };
        if self.boards.len() < BOARDS_MAX && self.boards.insert(room.to_owned()) {
            capture.follow(&topic)?;
        }
        Ok(())
    }
}
