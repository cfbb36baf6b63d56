//! What the thread does: takes asks in batches, and lets one write serve them all.

mod busy;
mod list;
mod moves;
mod recorders;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use sangam_model::Time;
use sangam_session::{
    Answer, Input, Joining, Machine, MemberId, Plan, Record, Refusal, Session, SessionId,
};
use tokio::sync::mpsc;

use super::super::gates::{lifted, words};
use super::super::hub::{Hub, Told};
use super::super::store::{Load, StoreError, Where};
use super::super::view;
use super::{Ask, Counters, Failure, Reply, ServerOptions};
use busy::Busy;

/// Asks whose consequences are written together: one wait for the disk serves them all.
const BATCH: usize = 1_024;
/// How often gates are said again, and whoever is behind is told the state.
const REFRESH: Duration = Duration::from_secs(2);
/// How often it is looked what other servers have left.
const LOOK: Duration = Duration::from_millis(250);
/// Records after which a log is folded, and how many are kept for readers.
const FOLD_AFTER: u64 = 2_000;
const KEPT: u64 = 500;
/// How long a session that is over is kept.
const OVER_FOR_MS: u64 = 24 * 3_600 * 1_000;

/// A session and those who are connected to it.
struct Hosted {
    machine: Machine,
    hub: Hub,
    /// The number up to which its log is folded.
    folded: u64,
}

/// What the thread holds.
pub(super) struct Hall {
    options: ServerOptions,
    epoch: u64,
    hosted: BTreeMap<SessionId, Hosted>,
    /// Those that may have decided something since the last write.
    touched: BTreeSet<SessionId>,
    counters: Arc<Counters>,
    /// Answers that wait until what they say is kept.
    replies: Vec<(SessionId, Reply, Result<Answer, Failure>)>,
    /// What waits until everything is kept.
    later: Vec<Ask>,
    busy: Busy,
    recorders: recorders::Recorders,
}

impl Hall {
    pub(super) fn new(
        options: ServerOptions,
        epoch: u64,
        counters: Arc<Counters>,
        sessions: Vec<Session>,
    ) -> Self {
        let mut hall = Self {
            options,
            epoch,
            hosted: BTreeMap::new(),
            touched: BTreeSet::new(),
            counters,
            replies: Vec::new(),
            later: Vec::new(),
            busy: Busy::default(),
            recorders: recorders::Recorders::default(),
        };
        // Greater than what an earlier server has told.
        hall.counters.work.send_replace((hall.options.clock)());
        hall.counters.know(hall.options.store.servers());
        hall.recover(sessions);
        hall
    }

    pub(super) fn run(mut self, inbox: &Receiver<Ask>) {
        let mut refresh = Instant::now();
        loop {
            let wait = self.patience(refresh);
            let first = match inbox.recv_timeout(wait) {
                Ok(ask) => Some(ask),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let began = Instant::now();
            for ask in first.into_iter().chain(inbox.try_iter()).take(BATCH) {
                if matches!(ask, Ask::Stop) {
                    self.settle();
                    return;
                }
                self.take(ask);
            }
            self.move_sessions();
            self.tick();
            self.settle();
            self.tell_gathered();
            for ask in std::mem::take(&mut self.later) {
                self.show(ask);
            }
            // Who was lost or found on the way.
            self.settle();
            if began >= refresh {
                refresh = began + REFRESH;
                self.refresh();
            }
            let busy = self.busy.add(began, Instant::now());
            self.counters.busy.store(busy, Ordering::Relaxed);
        }
    }

    /// How long nothing is due.
    fn patience(&self, refresh: Instant) -> Duration {
        let now = Time::from_millis((self.options.clock)());
        let deadlines = self
            .hosted
            .values()
            .filter_map(|one| one.machine.deadline());
        let due = deadlines.min().map_or(LOOK, |at| at - now);
        let gathered = self.hosted.values().filter_map(|one| one.hub.due());
        let first = gathered.min().unwrap_or(refresh).min(refresh);
        due.min(LOOK)
            .min(first.saturating_duration_since(Instant::now()))
    }

    /// Lets a change be decided; what only reads waits until it is kept.
    fn take(&mut self, ask: Ask) {
        let now = Time::from_millis((self.options.clock)());
        match ask {
            Ask::Create(id, plan, reply) => {
                let done = self.create(now, &id, plan);
                self.replies.push((id, reply, done));
            }
            Ask::Input(id, input, reply) => {
                let done = self.input(now, &id, input);
                self.replies.push((id, reply, done));
            }
            Ask::Join(id, joining, number, reply) => {
                let done = self.join(now, &id, (joining, number));
                self.replies.push((id, reply, done));
            }
            Ask::Forget(id, reply) => {
                let done = self.forget(&id);
                self.replies.push((id, reply, done));
            }
            Ask::Beat(name, beat, answer) => {
                self.hear(now, &name, &beat);
                self.later.push(Ask::Beat(name, beat, answer));
            }
            other => self.later.push(other),
        }
    }

    fn input(&mut self, now: Time, id: &SessionId, input: Input) -> Result<Answer, Failure> {
        let may = self.may_replay(id, &input);
        let done = match self.hosted.get_mut(id) {
            Some(_) if may.is_err() => may.map(|()| Answer::Done),
            Some(hosted) => hosted.machine.handle(now, input).map_err(Failure::Refused),
            None => Err(self.not_here(id)),
        };
        if done.is_err() {
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
        }
        // Also if it is refused: what was due has happened first.
        self.touched.insert(id.clone());
        done
    }

    fn join(
        &mut self,
        now: Time,
        id: &SessionId,
        (joining, number): (Joining, u64),
    ) -> Result<Answer, Failure> {
        if let Some(hosted) = self.hosted.get(id) {
            let before = hosted.machine.session().identified(&joining.identity);
            if before.is_some_and(|before| !hosted.hub.is_newest(before.id, number)) {
                return Err(Failure::Replaced);
            }
        }
        let done = self.input(now, id, Input::Join(joining));
        if let Ok(Answer::Joined(member)) = &done
            && let Some(hosted) = self.hosted.get_mut(id)
        {
            hosted.hub.begins(*member, number);
        }
        done
    }

    /// Shows what is kept, and nothing that may yet be void.
    fn show(&mut self, ask: Ask) {
        match ask {
            Ask::Read(id, reader) => {
                let hosted = self.hosted.get(&id);
                let session = hosted.map(|hosted| hosted.machine.session());
                reader(session.ok_or_else(|| self.not_here(&id)));
            }
            Ask::List(wanted, answer) => self.list(wanted, answer),
            Ask::Records(id, after, most, answer) => {
                let records = self.options.store.records(&id, after, most);
                // Whoever asked may have given up.
                let _ = answer.send(records.unwrap_or_default());
            }
            Ask::Beat(name, beat, answer) => drop(answer.send(self.work(&name, &beat))),
            Ask::Recordings(id, answer) => drop(answer.send(self.recorders.of(&id))),
            Ask::Connect(id, member, number, sink) => self.connect(&id, member, (number, sink)),
            Ask::Disconnect(id, member, number) => self.disconnect(&id, member, number),
            _ => {}
        }
    }

    fn disconnect(&mut self, id: &SessionId, member: MemberId, number: u64) {
        let now = Time::from_millis((self.options.clock)());
        if let Some(hosted) = self.hosted.get_mut(id)
            && hosted.hub.disconnect(number, member)
        {
            // It may have left in the meantime, which is as well.
            let _ = hosted.machine.handle(now, Input::Lost(member));
            self.touched.insert(id.clone());
        }
    }

    fn create(&mut self, now: Time, id: &SessionId, mut plan: Plan) -> Result<Answer, Failure> {
        match self.options.store.place(id) {
            Where::Nowhere if !self.hosted.contains_key(id) => {}
            Where::Unknown => return Err(Failure::Unknown(id.clone())),
            _ => return Err(Failure::Exists(id.clone())),
        }
        let load = self.load();
        if let Some(url) = self.options.store.lighter(load) {
            return Err(Failure::Elsewhere(url));
        }
        if load.is_full() {
            return Err(Failure::Busy);
        }
        if plan.ways.is_empty() {
            plan.ways = self.options.ways.iter().map(|way| way.of(id)).collect();
        }
        // Brokers may remember the gates of one that had this name, and must not believe them.
        let epoch = self
            .options
            .store
            .next_epoch((self.options.clock)() / 1_000);
        let epoch = epoch.map_err(|error| Failure::Store(error.to_string()))?;
        let machine = Machine::create(now, id.clone(), plan, epoch);
        let machine = machine.map_err(Failure::Refused)?;
        let claimed = self.options.store.claim(id, epoch);
        if !claimed.map_err(|error| Failure::Store(error.to_string()))? {
            return Err(Failure::Exists(id.clone()));
        }
        self.host(machine);
        Ok(Answer::Done)
    }

    /// What this server has to do.
    fn load(&self) -> Load {
        Load {
            sessions: self.hosted.len(),
            sessions_max: self.options.sessions_max,
            busy_percent: self.busy.percent(),
        }
    }

    fn host(&mut self, machine: Machine) {
        let id = machine.session().id().clone();
        let hosted = Hosted {
            folded: machine.session().seq(),
            machine,
            hub: Hub::default(),
        };
        self.touched.insert(id.clone());
        self.hosted.insert(id, hosted);
    }

    /// Goes on with what an earlier server has kept.
    fn recover(&mut self, sessions: Vec<Session>) {
        let now = Time::from_millis((self.options.clock)());
        for session in sessions {
            let id = session.id().clone();
            let epoch = self.epoch.max(session.epoch() + 1);
            self.tell_again(&session);
            match Machine::take_over(now, session, epoch) {
                Ok(machine) => self.host(machine),
                Err(error) => tracing::error!(%error, %id, "a session cannot be taken over"),
            }
        }
        self.settle();
        // Or a server that is often started anew would never fold them.
        for hosted in self.hosted.values() {
            if let Err(error) = self.options.store.compact(hosted.machine.session(), KEPT) {
                tracing::error!(%error, "a log was not folded");
            }
        }
    }

    fn connect(&mut self, id: &SessionId, member: MemberId, (number, sink): Way) {
        // One that has moved meanwhile ends the connection, and its member comes back there.
        let Some(hosted) = self.hosted.get_mut(id) else {
            return;
        };
        let session = hosted.machine.session();
        if session.member(member).is_none() {
            // It was sent away between joining and connecting.
            let _ = sink.try_send(Told::Bye("removed"));
            return;
        }
        if hosted.hub.connect(number, member, sink) {
            hosted.hub.greet(session, member);
            // The connection before may have ended after this one was let in.
            let now = Time::from_millis((self.options.clock)());
            let _ = hosted.machine.handle(now, Input::Found(member));
            self.touched.insert(id.clone());
        }
    }

    /// Tells members of large sessions what was gathered for them.
    fn tell_gathered(&mut self) {
        let now = Instant::now();
        for hosted in self.hosted.values_mut() {
            hosted.hub.tell_gathered(hosted.machine.session(), now);
        }
    }

    fn forget(&mut self, id: &SessionId) -> Result<Answer, Failure> {
        let hosted = self.hosted.get(id).ok_or_else(|| self.not_here(id))?;
        let session = hosted.machine.session();
        if !session.state().is_final() {
            return Err(Failure::Refused(Refusal::NotNow(session.state())));
        }
        let words = lifted(session);
        let forgotten = self.options.store.forget(id);
        forgotten.map_err(|error| Failure::Store(error.to_string()))?;
        self.hosted.remove(id);
        (self.options.gates)(&words);
        Ok(Answer::Done)
    }

    fn tick(&mut self) {
        let now = Time::from_millis((self.options.clock)());
        for (id, hosted) in &mut self.hosted {
            if hosted.machine.deadline().is_some_and(|at| at <= now) {
                // A tick is never refused.
                let _ = hosted.machine.handle(now, Input::Tick);
                self.touched.insert(id.clone());
            }
        }
    }

    /// Keeps what was decided; then answers, opens and closes topics, and tells.
    fn settle(&mut self) {
        let mut batch = Vec::new();
        for id in std::mem::take(&mut self.touched) {
            if let Some(hosted) = self.hosted.get_mut(&id) {
                let records = std::iter::from_fn(|| hosted.machine.poll());
                batch.extend(records.map(|record| (id.clone(), record)));
            }
        }
        let kept = match batch.is_empty() {
            true => Ok(()),
            false => self.keep(&batch),
        };
        let count = |value: usize| u64::try_from(value).unwrap_or(u64::MAX);
        if let Err(error) = &kept {
            tracing::error!(%error, "what was decided is void");
            self.revert(&batch, error);
        } else {
            self.counters
                .records
                .fetch_add(count(batch.len()), Ordering::Relaxed);
            for records in batch.chunk_by(|(one, _), (other, _)| one == other) {
                self.publish(records);
            }
        }
        for (id, reply, done) in self.replies.drain(..) {
            let touched = || batch.iter().any(|(of, _)| *of == id);
            reply(match &kept {
                Err(error) if touched() => Err(Failure::Store(error.to_string())),
                _ => done,
            });
        }
        let connections = self.hosted.values().map(|hosted| hosted.hub.len()).sum();
        let counters = &self.counters;
        counters
            .sessions
            .store(count(self.hosted.len()), Ordering::Relaxed);
        counters
            .connections
            .store(count(connections), Ordering::Relaxed);
    }

    fn keep(&mut self, batch: &[(SessionId, Record)]) -> Result<(), StoreError> {
        if self.options.store.is_shared() {
            let mut looks = BTreeMap::new();
            for records in batch.chunk_by(|(one, _), (other, _)| one == other) {
                let id = records.first().map(|(id, _)| id);
                if let Some(hosted) = id.and_then(|id| self.hosted.get(id)) {
                    let session = hosted.machine.session();
                    looks.insert(session.id().clone(), view::brief(session));
                }
            }
            self.options.store.outline(looks);
        }
        self.options.store.append(batch)
    }

    /// Says what one session has decided and what is kept.
    fn publish(&mut self, batch: &[(SessionId, Record)]) {
        let Some((id, _)) = batch.first() else {
            return;
        };
        let records: Vec<_> = batch.iter().map(|(_, record)| record.clone()).collect();
        (self.options.heard)(id, &records);
        if let Some(herald) = &self.options.herald {
            herald.tell(id, &records);
        }
        let Some(hosted) = self.hosted.get_mut(id) else {
            return;
        };
        let session = hosted.machine.session();
        recorders::rouse(&self.counters, hosted.machine.session(), &records);
        if records.iter().any(|record| record.event.moves_doors()) {
            (self.options.gates)(&words(session));
        }
        hosted.hub.tell(session, &records, Instant::now());
        if session.seq() - hosted.folded >= FOLD_AFTER {
            hosted.folded = session.seq();
            if let Err(error) = self.options.store.compact(session, KEPT) {
                tracing::error!(%error, "a log was not folded");
            }
        }
    }

    /// Says all gates again, helps those who are behind, and forgets what has long been over.
    fn refresh(&mut self) {
        let now = (self.options.clock)();
        self.counters.know(self.options.store.servers());
        self.recorders.forget(now);
        let mut all = Vec::new();
        let mut over = Vec::new();
        for (id, hosted) in &mut self.hosted {
            let session = hosted.machine.session();
            hosted.hub.catch_up(session);
            if !session.state().is_final() {
                all.extend(words(session));
            } else if session.changed_ms() + OVER_FOR_MS < now {
                over.push(id.clone());
            }
        }
        (self.options.gates)(&all);
        for id in over {
            if let Err(error) = self.forget(&id) {
                tracing::warn!(?error, %id, "a session is not forgotten");
            }
        }
    }
}

/// A connection's number and where it is told things.
type Way = (u64, mpsc::Sender<Told>);
