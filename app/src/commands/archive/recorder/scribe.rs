//! Writes down what people say of recordings, in a thread of its own: nobody waits for a disk.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sangam_archive as archive;
use sangam_model::Topic;
use sangam_session::{Annotation, limits};
use serde_json::{Value, json};

use super::super::capture::random;
use super::catalogue::{Catalogue, session};
use super::{super::now, Id};
use crate::exit::{Failure, io};
use crate::stop::Stop;

/// Where annotations stand in a recording, below the session.
const TOPIC: &str = "/service/annotations";
/// What waits to be written down; what does not fit is told again.
const WAITING_MAX: usize = 256;
// What sessions take an archive keeps.
const _: () = assert!(archive::ANNOTATIONS_MAX == limits::ANNOTATIONS_MAX);
const _: () = assert!(archive::ANNOTATION_LEN_MAX == limits::ANNOTATION_LEN_MAX);
/// Before a disk that refuses is asked again.
const AGAIN: Duration = Duration::from_secs(5);

/// An annotation of a session, among all that there ever were.
type Key = (Id, u64, u64);

/// The way to the thread.
pub(super) struct Scribe {
    orders: SyncSender<(Id, Annotation)>,
    /// Handed over and not heard of.
    handed: BTreeSet<Key>,
    done: Done,
    thread: JoinHandle<()>,
}

/// What was tried, and whether it is safe.
type Done = Arc<Mutex<Vec<(Key, bool)>>>;

impl Scribe {
    /// Begins to wait for something.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(
        folder: &Path,
        catalogue: &Arc<Catalogue>,
        stop: &Stop,
    ) -> Result<Self, Failure> {
        let (orders, inbox) = mpsc::sync_channel(WAITING_MAX);
        let done = Done::default();
        let desk = Writer {
            folder: folder.to_owned(),
            catalogue: Arc::clone(catalogue),
            stop: stop.clone(),
            done: Arc::clone(&done),
        };
        let thread = thread::Builder::new().name("sangam-scribe".to_owned());
        let thread = thread.spawn(move || desk.run(&inbox));
        Ok(Self {
            orders,
            handed: BTreeSet::new(),
            done,
            thread: thread.map_err(io("no thread to write down what is said"))?,
        })
    }

    /// Takes what is to be written down; again and again, until it is known to be.
    pub(super) fn take(&mut self, id: &Id, annotation: &Value) {
        let Ok(annotation) = serde_json::from_value::<Annotation>(annotation.clone()) else {
            return tracing::warn!("a session server tells of no annotation");
        };
        let key = key(id, &annotation);
        if self.handed.contains(&key) {
            return;
        }
        if self.orders.try_send((id.clone(), annotation)).is_ok() {
            self.handed.insert(key);
        }
    }

    /// Whether something is on its way.
    pub(super) fn is_busy(&self) -> bool {
        !self.handed.is_empty()
    }

    /// What is safe since it was last asked, as session servers are told.
    pub(super) fn kept(&mut self) -> Vec<Value> {
        let done = std::mem::take(&mut *held(&self.done));
        let mut kept = Vec::new();
        for (key, is_safe) in done {
            self.handed.remove(&key);
            let ((tenant, name), number, _) = key;
            if is_safe {
                kept.push(json!({ "tenant": tenant, "name": name, "number": number }));
            }
        }
        kept
    }

    /// Ends once everything is written down, or refused.
    pub(super) fn end(self) -> JoinHandle<()> {
        self.thread
    }
}

fn key(id: &Id, annotation: &Annotation) -> Key {
    (id.clone(), annotation.number, annotation.said_ms)
}

/// What it replaces is whole.
fn held<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Writer {
    folder: PathBuf,
    catalogue: Arc<Catalogue>,
    stop: Stop,
    done: Done,
}

impl Writer {
    fn run(self, inbox: &Receiver<(Id, Annotation)>) {
        while let Ok(first) = inbox.recv() {
            // What was said at the same time of one recording is one segment.
            let mut orders = vec![first];
            orders.extend(inbox.try_iter().take(WAITING_MAX - 1));
            for together in orders
                .chunk_by(|one, other| (&one.0, &one.1.recording) == (&other.0, &other.1.recording))
            {
                self.write(together);
            }
        }
    }

    fn write(&self, said: &[(Id, Annotation)]) {
        let Some((id, first)) = said.first() else {
            return;
        };
        let written = self.annotate(id, said);
        if let Err(error) = &written {
            let recording = &first.recording;
            tracing::warn!(%error, %recording, "what was said of a recording is not kept yet");
            if !self.stop.is_set() {
                thread::park_timeout(AGAIN);
            }
        }
        self.catalogue.changed();
        let tried = said.iter().map(|(id, one)| (key(id, one), written.is_ok()));
        held(&self.done).extend(tried);
    }

    fn annotate(&self, id: &Id, said: &[(Id, Annotation)]) -> std::io::Result<()> {
        let archive = archive::Archive::new(&self.folder);
        let wanted = said.first().map_or("", |(_, one)| &one.recording);
        let all = archive::Catalogue::new(archive.clone()).find(wanted)?;
        let mut fits = all.iter();
        let found =
            fits.find(|one| one.id.to_string() == wanted && session(one).as_ref() == Some(id));
        let Some(recording) = found else {
            // It was removed, and what is said of it with it.
            tracing::info!(
                recording = wanted,
                "something was said of what is not there"
            );
            return Ok(());
        };
        let topic = Topic::new(&format!("{}/{}{TOPIC}", id.0, id.1));
        let topic = topic.map_err(std::io::Error::other)?;
        let said = said.iter().map(|(_, one)| archive::Annotation {
            position_ms: one.position_ms,
            said_ms: one.said_ms,
            number: one.number,
            name: one.name.clone(),
            text: one.text.clone(),
        });
        let said: Vec<_> = said.collect();
        let life = (now() / 1_000_000, random() as u32);
        archive.annotate(recording, &said, (life, &topic, now()))
    }
}
