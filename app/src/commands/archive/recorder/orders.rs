//! Recordings of topics that an operator orders: from now on, or for a time to come.
//!
//! Orders stand in a file beside the recordings until they are over, so that a broker which is
//! started anew goes on with them. Of the brokers that record into one archive the first takes
//! them, until its process is gone.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sangam_archive::{RecorderCounts, RecordingId};
use sangam_control::Problem;
use sangam_model::{Filter, Topic};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::capture::{Capture, Wanted};
use super::{Options, catalogue::Catalogue};
use crate::exit::{Exit, Failure, io};
use crate::keep::{Readers, write};
use crate::stop::Stop;

/// The file with all orders.
const FILE: &str = "orders.json";
/// Locked by whoever carries them out.
const LOCK: &str = "orders.lock";
/// Orders that stand at once.
const ORDERS_MAX: usize = 64;
/// Filters of one order, and reliable topics.
const TOPICS_MAX: usize = 16;
const NAME_LEN_MAX: usize = 64;
/// Ten years.
const SECONDS_MAX: u64 = 10 * 366 * 86_400;
/// How soon what is due begins, and what is over ends.
const TURN: Duration = Duration::from_millis(100);
/// What failed is begun again after so long.
const AGAIN: Duration = Duration::from_secs(5);
/// Key frames stand so close at least, so that a replay may begin there.
const KEYS_EVERY: Duration = Duration::from_secs(4);

/// What is to be recorded, and when.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    /// Of the recording, and of the order while it stands.
    name: String,
    /// Which streams.
    #[serde(default)]
    topics: Vec<String>,
    /// Which reliable topics.
    #[serde(default)]
    reliable: Vec<String>,
    /// When, in milliseconds since 1970; at once if it is not said.
    #[serde(default)]
    begin_ms: Option<u64>,
    /// For how long; until it is ended if it is not said.
    #[serde(default)]
    seconds: Option<u64>,
}

/// All orders.
#[derive(Debug)]
pub(crate) struct Orders {
    archive: PathBuf,
    held: Mutex<Held>,
}

/// What stands, as far as it is ours to know.
#[derive(Debug, Default)]
struct Held {
    /// None while another process carries the orders out: nothing stands then.
    lock: Option<File>,
    standing: BTreeMap<String, Standing>,
}

/// An order and how it is.
#[derive(Clone, Debug)]
struct Standing {
    order: Order,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Waiting,
    Recording(RecordingId, RecorderCounts),
    /// Why, and when it is begun again.
    Failed(String, Instant),
}

/// A recording that goes on.
struct Running {
    order: Order,
    stop: Stop,
    thread: JoinHandle<Result<(), Failure>>,
}

impl Order {
    fn filters(&self) -> Result<Vec<Filter>, String> {
        let parse = |text: &String| {
            Filter::new(text).map_err(|error| format!("{text:?} names no topics: {error}"))
        };
        self.topics.iter().map(parse).collect()
    }

    fn reliable(&self) -> Result<Vec<Topic>, String> {
        let parse = |text: &String| {
            Topic::new(text).map_err(|error| format!("{text:?} names no topic: {error}"))
        };
        self.reliable.iter().map(parse).collect()
    }

    /// What makes no sense in it.
    fn wrong(&self) -> Option<String> {
        let counts = [self.topics.len(), self.reliable.len()];
        if self.name.is_empty() || self.name.len() > NAME_LEN_MAX {
            return Some(format!("`name` has 1 to {NAME_LEN_MAX} bytes"));
        }
        if counts == [0, 0] || counts.iter().any(|count| *count > TOPICS_MAX) {
            return Some(format!(
                "name one at least of `topics` and `reliable`, and at most {TOPICS_MAX} of each"
            ));
        }
        let is_span = |seconds: u64| (1..=SECONDS_MAX).contains(&seconds);
        if !self.seconds.is_none_or(is_span) {
            return Some(format!("`seconds` are 1 to {SECONDS_MAX}"));
        }
        self.filters().and_then(|_| self.reliable()).err()
    }

    fn is_due(&self, now_ms: u64) -> bool {
        self.begin_ms.is_none_or(|begin| now_ms >= begin)
    }

    /// When it ends, in milliseconds since 1970.
    fn end_ms(&self) -> Option<u64> {
        let seconds = self.seconds?;
        let begin = self.begin_ms.unwrap_or_default();
        Some(begin.saturating_add(seconds.saturating_mul(1_000)))
    }

    fn is_over(&self, now_ms: u64) -> bool {
        self.end_ms().is_some_and(|end| now_ms >= end)
    }
}

impl Orders {
    /// Those of an archive.
    pub(super) fn of(archive: &Path) -> Self {
        Self {
            archive: archive.to_owned(),
            held: Mutex::default(),
        }
    }

    /// Takes an order; what stands then.
    ///
    /// # Errors
    /// It makes no sense, there is one of this name, there are too many, another broker takes the
    /// archive's orders, or the disk refuses it.
    pub(crate) fn add(&self, mut order: Order) -> Result<Value, Problem> {
        if let Some(wrong) = order.wrong() {
            return Err(Problem::bad(wrong));
        }
        let now = now_ms();
        order.begin_ms.get_or_insert(now);
        if order.is_over(now) {
            return Err(Problem::bad("it would be over already")
                .hint("`begin_ms` are milliseconds since 1970, in UTC"));
        }
        let standing = &mut self.owned()?.standing;
        if standing.contains_key(&order.name) {
            let message = format!("{:?} is ordered already", order.name);
            return Err(Problem::conflict(message).hint("end it first, or choose another name"));
        }
        if standing.len() == ORDERS_MAX {
            return Err(Problem::conflict(format!(
                "{ORDERS_MAX} recordings are ordered already"
            )));
        }
        let added = Standing {
            order,
            state: State::Waiting,
        };
        let (name, facts) = (added.order.name.clone(), added.facts());
        standing.insert(name.clone(), added);
        if let Err(error) = self.save(standing) {
            standing.remove(&name);
            return Err(Problem::internal(format!(
                "the archive refuses it: {error}"
            )));
        }
        Ok(facts)
    }

    /// Ends an order, and what it records; whether there was one of this name. What was recorded
    /// stays.
    ///
    /// # Errors
    /// Another broker takes the archive's orders, or the disk refuses it.
    pub(crate) fn remove(&self, name: &str) -> Result<bool, Problem> {
        let standing = &mut self.owned()?.standing;
        let Some(removed) = standing.remove(name) else {
            return Ok(false);
        };
        if let Err(error) = self.save(standing) {
            standing.insert(name.to_owned(), removed);
            let message = format!("the archive refuses to forget it: {error}");
            return Err(Problem::internal(message));
        }
        Ok(true)
    }

    /// Every order and how it is, by name.
    ///
    /// # Errors
    /// Another broker takes the archive's orders, or the disk refuses to tell.
    pub(crate) fn list(&self) -> Result<Vec<Value>, Problem> {
        let standing = &self.owned()?.standing;
        Ok(standing.values().map(Standing::facts).collect())
    }

    /// Does what is ordered, until it is told to stop.
    pub(super) fn run(
        self: &Arc<Self>,
        options: &Arc<Options>,
        catalogue: &Catalogue,
        stop: &Stop,
    ) {
        let mut running: BTreeMap<String, Running> = BTreeMap::new();
        let mut told = false;
        while !stop.is_set() {
            // Whoever had them may be gone. Before anything was recorded there is nothing to do.
            if self.archive.is_dir()
                && let Err(problem) = self.owned().map(drop)
                && !std::mem::replace(&mut told, true)
            {
                tracing::warn!(%problem, "no orders to record are taken");
            }
            self.reap(&mut running, catalogue);
            self.begin(&mut running, options);
            thread::park_timeout(TURN);
        }
        for one in running.values() {
            one.stop.set();
        }
        for (name, one) in running {
            ended(&name, one);
        }
    }

    /// Ends what is over or no longer ordered, and notes what has ended by itself.
    fn reap(&self, running: &mut BTreeMap<String, Running>, catalogue: &Catalogue) {
        let now = now_ms();
        let mut held = self.held();
        let standing = &mut held.standing;
        let before = standing.len();
        standing.retain(|_, one| !one.order.is_over(now));
        if standing.len() < before
            && let Err(error) = self.save(standing)
        {
            tracing::warn!(%error, "what is over is still in the file of orders");
        }
        for (name, one) in &*running {
            // It may have been ended and ordered anew.
            let is_wanted = standing
                .get(name)
                .is_some_and(|wanted| wanted.order == one.order);
            if !is_wanted {
                one.stop.set();
            }
        }
        drop(held);
        let finished = running.iter().filter(|(_, one)| one.thread.is_finished());
        let finished: Vec<_> = finished.map(|(name, _)| name.clone()).collect();
        for name in finished {
            let Some(one) = running.remove(&name) else {
                continue;
            };
            let order = one.order.clone();
            let failed = ended(&name, one);
            catalogue.changed();
            if let Some(failed) = failed {
                self.note(&order, State::Failed(failed, Instant::now() + AGAIN));
            }
        }
    }

    fn begin(self: &Arc<Self>, running: &mut BTreeMap<String, Running>, options: &Arc<Options>) {
        let now = now_ms();
        let mut held = self.held();
        for (name, one) in &mut held.standing {
            let rests = matches!(&one.state, State::Failed(_, until) if Instant::now() < *until);
            if running.contains_key(name) || !one.order.is_due(now) || rests {
                continue;
            }
            let (order, stop) = (one.order.clone(), Stop::default());
            let (orders, options) = (Arc::clone(self), Arc::clone(options));
            let (wanted, ends) = (order.clone(), stop.clone());
            let thread = thread::Builder::new().name("sangam-take".to_owned());
            let thread = thread.spawn(move || orders.record(&wanted, &options, &ends));
            match thread.map_err(io("no thread to record")) {
                Ok(thread) => {
                    let begun = Running {
                        order,
                        stop,
                        thread,
                    };
                    running.insert(name.clone(), begun);
                }
                Err(error) => {
                    one.state = State::Failed(error.to_string(), Instant::now() + AGAIN);
                }
            }
        }
    }

    fn record(&self, order: &Order, options: &Options, stop: &Stop) -> Result<(), Failure> {
        // Who changed the file by hand hears of what is wrong there.
        let wrong = |message| Failure::new(Exit::Failure, message);
        let mut capture = Capture::begin(&Wanted {
            from: &options.brokers,
            peer: &options.peer,
            filters: &order.filters().map_err(wrong)?,
            reliable: &order.reliable().map_err(wrong)?,
            name: &order.name,
            archive: &options.archive,
            keys_every: Some(KEYS_EVERY),
        })?;
        let id = capture.recorder.id();
        tracing::info!(name = order.name, recording = %id, "topics are recorded");
        let mut done = Ok(());
        while done.is_ok() && !stop.is_set() {
            self.note(order, State::Recording(id, capture.recorder.counts()));
            done = capture.run_for(TURN, stop);
        }
        let counts = capture.finish();
        let lost = counts.packets - counts.safe;
        tracing::info!(name = order.name, recording = %id, packets = counts.safe, lost, "recorded");
        done
    }

    fn note(&self, order: &Order, state: State) {
        let mut held = self.held();
        let one = held.standing.get_mut(&order.name);
        if let Some(one) = one.filter(|one| one.order == *order) {
            one.state = state;
        }
    }

    fn save(&self, standing: &BTreeMap<String, Standing>) -> std::io::Result<()> {
        let orders: Vec<&Order> = standing.values().map(|one| &one.order).collect();
        let bytes = serde_json::to_vec_pretty(&orders)?;
        write(&self.archive.join(FILE), &bytes, Readers::All)
    }

    /// What stands, once this process alone may change it.
    fn owned(&self) -> Result<MutexGuard<'_, Held>, Problem> {
        let mut held = self.held();
        if held.lock.is_none() {
            held.lock = Some(lock(&self.archive)?);
            held.standing = read(&self.archive.join(FILE));
        }
        Ok(held)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    fn facts(&self) -> Value {
        let Order {
            name,
            topics,
            reliable,
            begin_ms,
            ..
        } = &self.order;
        let mut facts = json!({
            "name": name, "topics": topics, "reliable": reliable,
            "begin_ms": begin_ms, "end_ms": self.order.end_ms(),
        });
        match &self.state {
            State::Waiting => facts["state"] = "waiting".into(),
            State::Recording(id, counts) => {
                facts["state"] = "recording".into();
                facts["recording"] = id.to_string().into();
                facts["packets"] = counts.packets.into();
                facts["packets_safe"] = counts.safe.into();
            }
            State::Failed(reason, _) => {
                facts["state"] = "failed".into();
                facts["reason"] = reason.as_str().into();
            }
        }
        facts
    }
}

fn lock(archive: &Path) -> Result<File, Problem> {
    let refused = |error| Problem::internal(format!("the archive refuses it: {error}"));
    fs::create_dir_all(archive).map_err(refused)?;
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(false).write(true);
    let file = options.open(archive.join(LOCK)).map_err(refused)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let message = "another broker takes the orders of this archive";
            Err(Problem::conflict(message).hint("ask that one, or name another sessions.archive"))
        }
        Err(TryLockError::Error(error)) => Err(refused(error)),
    }
}

/// The orders that stood when somebody had them last. A file that makes no sense is told of and
/// put aside.
fn read(file: &Path) -> BTreeMap<String, Standing> {
    let orders = match fs::read(file) {
        Ok(bytes) => serde_json::from_slice::<Vec<Order>>(&bytes).map_err(|e| e.to_string()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    };
    let orders = orders.unwrap_or_else(|error| {
        let aside = file.with_extension("unread");
        tracing::error!(file = %file.display(), aside = %aside.display(), %error,
            "recordings that were ordered are not made");
        if let Err(error) = fs::rename(file, &aside) {
            tracing::error!(%error, "the file of orders cannot be put aside");
        }
        Vec::new()
    });
    let standing = orders.into_iter().map(|order| {
        let state = State::Waiting;
        (order.name.clone(), Standing { order, state })
    });
    standing.collect()
}

/// A recording has ended; why, if it failed.
fn ended(name: &str, one: Running) -> Option<String> {
    let failed = match one.thread.join() {
        Ok(Ok(())) => return None,
        Ok(Err(failure)) => failure.to_string(),
        Err(_) => "its thread had panicked".to_owned(),
    };
    tracing::warn!(name, reason = failed, "topics are not recorded");
    Some(failed)
}

fn now_ms() -> u64 {
    super::super::now() / 1_000_000
}
