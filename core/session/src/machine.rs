//! The one who decides: what is asked becomes events, or is refused.

use std::collections::VecDeque;

use sangam_model::Time;

use crate::decide::Lease;
use crate::limits::{SERVICES_MAX, WAYS_MAX};
use crate::{
    Caller, Command, Event, Gone, Joining, Key, MemberId, Plan, Playing, RECORDER, Record, Refusal,
    Session, SessionId, State, Timer, Way, text,
};

/// What happens to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Somebody asks for something.
    Command(Caller, Command),
    /// Somebody wants to come in.
    Join(Joining),
    /// Somebody whose connection was gone is back, and proves it.
    Resume(MemberId, Key),
    /// A member's connection is gone.
    Lost(MemberId),
    /// A member is connected after all: it has proved who it is, and an older connection of it was
    /// lost since.
    Found(MemberId),
    /// A service became ready, or stopped to be.
    Service(String, bool),
    /// A recorder is there for the session, and records it already or does not yet.
    Recorder(String, bool),
    /// A player is there for what is replayed.
    Player(String, Playing),
    /// What was said of a recording by this event is part of it.
    Kept(u64),
    /// The deadline passed.
    Tick,
}

/// What came of an [`Input`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done; [`Machine::poll`] says what follows.
    Done,
    /// Somebody came in, or back, under this number.
    Joined(MemberId),
}

/// A session and what was decided since it was last asked.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(crate) session: Session,
    pub(crate) records: VecDeque<Record>,
    /// Milliseconds since 1970; never goes back.
    pub(crate) now_ms: u64,
    /// Who records it. That somebody does is in the log, that it goes on is not.
    pub(crate) recorder: Option<Lease>,
    /// Who replays in it.
    pub(crate) player: Option<Lease>,
}

impl Machine {
    /// A new session, held by `epoch`. `now` counts from 1970, here and everywhere.
    ///
    /// # Errors
    /// [`Refusal::Text`], [`Refusal::Range`], [`Refusal::Full`]: the plan makes no sense.
    pub fn create(now: Time, id: SessionId, plan: Plan, epoch: u64) -> Result<Self, Refusal> {
        let plan = sound(plan)?;
        let now_ms = ms(now);
        let session = id;
        let record = Record {
            seq: 1,
            at_ms: now_ms,
            epoch,
            event: Event::Created { session, plan },
        };
        let session = Session::begin(&record).expect("a log begins with a creation");
        let mut machine = Self {
            session,
            records: VecDeque::from([record]),
            now_ms,
            recorder: None,
            player: None,
        };
        machine.tick();
        Ok(machine)
    }

    /// Goes on where another holder stopped: with what the log amounts to, and a greater epoch.
    /// Whoever was connected is away until it comes back.
    ///
    /// # Errors
    /// [`Refusal::Fenced`] if somebody with this epoch or a greater one has written.
    pub fn take_over(now: Time, session: Session, epoch: u64) -> Result<Self, Refusal> {
        if epoch <= session.epoch {
            return Err(Refusal::Fenced);
        }
        let mut machine = Self {
            session,
            records: VecDeque::new(),
            now_ms: ms(now),
            recorder: None,
            player: None,
        };
        machine.session.epoch = epoch;
        machine.emit(Event::Fenced);
        machine.inherit();
        for member in machine.session.members.clone().into_values() {
            if member.away_ms.is_none() && !machine.session.is_replayed(member.id) {
                machine.emit(Event::Away { member: member.id });
            }
        }
        machine.tick();
        Ok(machine)
    }

    /// The session as it stands.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// Takes what happens, and first what is due. Nothing changes if it is refused.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn handle(&mut self, now: Time, input: Input) -> Result<Answer, Refusal> {
        self.now_ms = self.now_ms.max(ms(now));
        self.tick();
        match input {
            Input::Tick => Ok(Answer::Done),
            Input::Join(joining) => self.join(joining).map(Answer::Joined),
            Input::Resume(member, key) => self.resume(member, &key).map(Answer::Joined),
            Input::Lost(member) => {
                let member = self.session.member(member);
                if let Some(member) = member.filter(|member| member.away_ms.is_none()) {
                    let member = member.id;
                    self.emit(Event::Away { member });
                }
                Ok(Answer::Done)
            }
            Input::Found(member) => {
                self.back(member);
                Ok(Answer::Done)
            }
            Input::Service(name, ready) => self.service(name, ready),
            Input::Recorder(name, records) => self.recorder(&name, records).map(|()| Answer::Done),
            Input::Player(name, playing) => self.played(&name, playing).map(|()| Answer::Done),
            Input::Kept(number) => {
                self.kept(number);
                Ok(Answer::Done)
            }
            Input::Command(caller, command) => self.command(caller, command),
        }
    }

    /// What was decided, in order; until `None`.
    pub fn poll(&mut self) -> Option<Record> {
        self.records.pop_front()
    }

    /// When to call [`Self::handle`] with a tick.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let timer = self.session.timers.first().map(|(at, _)| *at);
        let leases = [&self.recorder, &self.player].into_iter().flatten();
        let at = leases.map(|lease| lease.until_ms).chain(timer).min()?;
        Some(Time::from_micros(at.saturating_mul(1_000)))
    }

    /// Decides something: it is part of the session from now on.
    pub(crate) fn emit(&mut self, event: Event) {
        let record = Record {
            seq: self.session.seq + 1,
            at_ms: self.now_ms,
            epoch: self.session.epoch,
            event,
        };
        let applied = self.session.apply(&record);
        debug_assert!(applied, "the next record of this epoch is always taken");
        self.records.push_back(record);
    }

    /// Does what is due. What a timer leads to is an event that ends the timer, so this ends.
    fn tick(&mut self) {
        let is_over = |lease: &Option<Lease>, now_ms: u64| {
            lease.as_ref().is_some_and(|lease| lease.until_ms <= now_ms)
        };
        if is_over(&self.recorder, self.now_ms) {
            self.forget_recorder();
        }
        if is_over(&self.player, self.now_ms) {
            self.end_replay(Gone::Lost);
        }
        while let Some((at, timer)) = self.session.timers.first().cloned() {
            if at > self.now_ms {
                return;
            }
            let seq = self.session.seq;
            match timer {
                Timer::Start => self.begin(),
                Timer::End if self.session.state == State::Created => self.end(State::Canceled),
                Timer::End => self.end(State::Finished),
                Timer::Away(member) => self.leave(member, Gone::Lost),
                Timer::Replay => self.replay_ends(),
                Timer::Floor(room, medium, member) => {
                    self.release((&room, medium), member, Gone::Expired);
                }
            }
            if self.session.seq == seq {
                debug_assert!(false, "a timer that leads to nothing");
                self.session.timers.pop_first();
            }
        }
    }

    /// Waits for who recorded and replayed, as they may be there still.
    fn inherit(&mut self) {
        let lease = || Some(Lease::inherited(self.now_ms));
        if self.session.recording.is_some() && self.session.ready.contains(RECORDER) {
            self.recorder = lease();
        }
        if self.session.replay.is_some() {
            self.player = lease();
        }
    }

    fn service(&mut self, name: String, ready: bool) -> Result<Answer, Refusal> {
        if !self.session.services().any(|(known, _)| known == name) {
            return Err(Refusal::Range("the session does not need this service"));
        }
        if self.session.ready.contains(&name) != ready {
            self.emit(Event::Service { name, ready });
            self.begin();
        }
        Ok(Answer::Done)
    }
}

/// Milliseconds since 1970.
fn ms(time: Time) -> u64 {
    time.as_micros() / 1_000
}

/// A plan that makes sense.
pub(crate) fn sound(mut plan: Plan) -> Result<Plan, Refusal> {
    plan.title = text::name("the title", &plan.title)?;
    if plan.needs.len() > SERVICES_MAX {
        return Err(Refusal::Full("services that a session needs", SERVICES_MAX));
    }
    if plan.record && !plan.needs.iter().any(|need| need == RECORDER) {
        plan.needs.push(RECORDER.to_owned());
    }
    for need in &plan.needs {
        text::word("a service's name", need)?;
    }
    if plan.ways.len() > WAYS_MAX {
        return Err(Refusal::Full("other ways into a session", WAYS_MAX));
    }
    let ways = plan.ways.into_iter().map(Way::checked);
    plan.ways = ways.collect::<Result<_, _>>()?;
    let start = plan.start_ms.unwrap_or_default();
    if plan.end_ms.is_some_and(|end| end <= start) {
        return Err(Refusal::Range("a session ends after it has begun"));
    }
    Ok(plan)
}
