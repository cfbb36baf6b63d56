//! Recorders: what they say, and what they have to do.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use sangam_model::Time;
use sangam_session::limits::LEASE_MS;
use sangam_session::{Command, Event, Input, Playing, Record, Refusal, Session, SessionId};
use serde_json::{Value, json};

use super::super::super::recorders::{Beat, KEPT_MAX, LISTED_MAX, Listed, TASKS_MAX};
use super::super::super::view;
use super::super::{Counters, Failure};
use super::Hall;

/// Recorders that are known at once.
const RECORDERS_MAX: usize = 64;
/// Events of a session that a recorder is told at once.
const EVENTS: usize = 200;

/// Those that were heard of late, by name.
#[derive(Debug, Default)]
pub(super) struct Recorders(BTreeMap<String, Known>);

#[derive(Debug)]
struct Known {
    until_ms: u64,
    /// None before it has told.
    recordings: Option<Vec<Listed>>,
}

impl Recorders {
    /// Forgets those that were not heard of.
    pub(super) fn forget(&mut self, now_ms: u64) {
        self.0.retain(|_, known| known.until_ms > now_ms);
    }

    /// The recordings of a session, the oldest first.
    pub(super) fn of(&self, id: &SessionId) -> Vec<Listed> {
        let all = self
            .0
            .values()
            .filter_map(|known| known.recordings.as_ref());
        let all = all.flatten().filter(|one| one.is_of(id));
        let mut found: Vec<_> = all.cloned().collect();
        // Of two that look at one archive, the one that has seen more.
        let more = |one: &Listed| Reverse((one.length_ms, one.annotations));
        found.sort_by(|one, other| {
            let order = (one.begin_ms, &one.id, more(one));
            order.cmp(&(other.begin_ms, &other.id, more(other)))
        });
        found.dedup_by(|one, other| one.id == other.id);
        found.drain(..found.len().saturating_sub(LISTED_MAX));
        found
    }

    fn has(&self, name: &str, recording: &str) -> bool {
        let listed = self.0.get(name).and_then(|known| known.recordings.as_ref());
        listed.is_some_and(|all| all.iter().any(|one| one.id == recording))
    }

    /// Takes note of one; false if there are too many.
    fn hear(&mut self, name: &str, beat: &Beat, now_ms: u64) -> bool {
        self.forget(now_ms);
        if self.0.len() >= RECORDERS_MAX && !self.0.contains_key(name) {
            return false;
        }
        let known = self.0.entry(name.to_owned()).or_insert(Known {
            until_ms: 0,
            recordings: None,
        });
        known.until_ms = now_ms + LEASE_MS;
        if beat.lists {
            known.recordings = Some(beat.recordings.clone());
        }
        true
    }
}

impl Hall {
    /// Takes what a recorder says.
    pub(super) fn hear(&mut self, now: Time, name: &str, beat: &Beat) {
        if !self.recorders.hear(name, beat, (self.options.clock)()) {
            return;
        }
        for one in &beat.records {
            if let Some(id) = one.session() {
                let input = Input::Recorder(name.to_owned(), one.begun);
                // What it may not record it is not told to, and stops.
                let _ = self.input(now, &id, input);
            }
        }
        for one in &beat.replays {
            if let Some(id) = one.session() {
                let _ = self.input(now, &id, Input::Player(name.to_owned(), one.playing()));
            }
        }
        for one in &beat.kept {
            if let Some(id) = one.session() {
                // Of a session that was forgotten nobody waits for it.
                let _ = self.input(now, &id, Input::Kept(one.number));
            }
        }
    }

    /// Lets a recorder have what nobody does.
    fn hand_out(&mut self, now: Time, name: &str, places: usize) {
        let (now_ms, mut left) = ((self.options.clock)(), places.min(TASKS_MAX));
        for (id, hosted) in &mut self.hosted {
            let machine = &mut hosted.machine;
            let (to_record, to_replay) = machine.awaits(now_ms);
            if to_record && left > 0 {
                left -= 1;
                // It is not refused: nobody has it, and the name was taken before.
                let _ = machine.handle(now, Input::Recorder(name.to_owned(), false));
                self.touched.insert(id.clone());
            }
            let replay = machine.session().watched();
            let fits = replay.is_some_and(|replay| self.recorders.has(name, &replay.recording));
            if to_replay && fits {
                let playing = Playing::default();
                let _ = machine.handle(now, Input::Player(name.to_owned(), playing));
                self.touched.insert(id.clone());
            }
        }
    }

    /// What a recorder has to do.
    pub(super) fn work(&mut self, name: &str, beat: &Beat) -> Result<Value, Failure> {
        let Some(known) = self.recorders.0.get(name) else {
            return Err(Failure::Busy);
        };
        let listed = known.recordings.is_some();
        // Not before what is wanted is kept: the revision that is told counts it already.
        let now = Time::from_millis((self.options.clock)());
        self.hand_out(now, name, beat.places);
        let mut records = Vec::new();
        let mut replays = Vec::new();
        let mut annotations = Vec::new();
        for (id, hosted) in &self.hosted {
            let machine = &hosted.machine;
            if machine.is_recorded_by(name) && records.len() < TASKS_MAX {
                let known = beat
                    .records
                    .iter()
                    .find(|one| one.session().as_ref() == Some(id));
                records.push((machine.session(), known.map_or(0, |one| one.after)));
            }
            if let Some(replay) = machine.session().watched()
                && machine.is_played_by(name)
                && replays.len() < TASKS_MAX
            {
                replays.push(json!({ "tenant": id.tenant, "name": id.name, "replay": replay }));
            }
            let unkept = machine.session().unkept().iter();
            let theirs = unkept.filter(|one| self.recorders.has(name, &one.recording));
            let theirs: Vec<_> = theirs.take(KEPT_MAX - annotations.len()).collect();
            annotations.extend(
                theirs
                    .into_iter()
                    .map(|one| json!({ "tenant": id.tenant, "name": id.name, "annotation": one })),
            );
        }
        let store = &mut self.options.store;
        let records = records.into_iter().map(|(session, after)| match after {
            0 => task(session, (session.seq(), Vec::new()), true),
            after => {
                let told = store
                    .records(session.id(), after, EVENTS)
                    .unwrap_or_default();
                let after = told.last().map_or(after, |last| last.seq);
                let shown = told.iter().filter(|one| may_be_kept(one)).map(view::record);
                task(session, (after, shown.collect()), false)
            }
        });
        Ok(json!({
            "revision": *self.counters.work.borrow(), "listed": listed,
            "records": records.collect::<Vec<_>>(), "replays": replays,
            "annotations": annotations,
        }))
    }

    /// Refuses what is no recording of this session.
    pub(super) fn may_replay(&self, id: &SessionId, input: &Input) -> Result<(), Failure> {
        let Input::Command(_, Command::Replay { recording }) = input else {
            return Ok(());
        };
        if self.recorders.of(id).iter().any(|one| one.id == *recording) {
            return Ok(());
        }
        let unknown = recording.chars().take(64).collect();
        Err(Failure::Refused(Refusal::NoRecording(unknown)))
    }
}

/// Tells recorders that there may be something for them.
pub(super) fn rouse(counters: &Counters, session: &Session, records: &[Record]) {
    let archived = |one: &Record| {
        matches!(
            one.event,
            Event::Recording { .. } | Event::Replay { .. } | Event::Annotated { .. }
        )
    };
    let concerned = session.recording().is_some() || session.watched().is_some();
    if concerned || records.iter().any(archived) {
        counters.work.send_modify(|revision| *revision += 1);
    }
}

fn task(session: &Session, (after, events): (u64, Vec<Value>), whole: bool) -> Value {
    let id = session.id();
    let mut task = json!({ "tenant": id.tenant, "name": id.name, "after": after });
    if whole {
        task["session"] = view::session(session);
    } else {
        task["events"] = json!(events);
    }
    task
}

/// What is nobody else's business is not recorded.
const fn may_be_kept(record: &Record) -> bool {
    match &record.event {
        Event::Keyed { .. } => false,
        Event::Chat { to, .. } => to.is_none(),
        _ => true,
    }
}
