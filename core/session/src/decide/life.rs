//! The five states: beginning, pausing, ending.

use crate::machine::sound;
use crate::{Caller, Command, Event, Gone, Machine, Medium, Plan, RECORDER, Refusal, State, Way};

impl Machine {
    pub(super) fn become_state(&mut self, caller: Caller, state: State) -> Result<(), Refusal> {
        self.needs_chair(caller)?;
        let now = self.session.state;
        if !now.may_become(state) {
            return Err(Refusal::NotNow(now));
        }
        match state {
            State::Activated => self.activate(),
            _ => {
                self.end(state);
                Ok(())
            }
        }
    }

    fn activate(&mut self) -> Result<(), Refusal> {
        if !self.session.is_served() {
            return Err(Refusal::Forbidden(
                "a service that the session needs is not ready",
            ));
        }
        let state = State::Activated;
        self.emit(Event::State { state });
        Ok(())
    }

    /// Activates the session if its time has come and its services are ready.
    pub(crate) fn begin(&mut self) {
        let due = self.session.plan.start_ms.unwrap_or_default() <= self.now_ms;
        if due && self.session.is_served() && self.session.state == State::Created {
            let state = State::Activated;
            self.emit(Event::State { state });
        }
    }

    /// Goes on to a state in which nobody speaks: floors come back first.
    pub(crate) fn end(&mut self, state: State) {
        if !self.session.state.may_become(state) {
            return;
        }
        self.end_replay(Gone::Ended);
        if state.is_final() {
            self.forget_recorder();
        }
        let rooms: Vec<_> = self.session.rooms.keys().cloned().collect();
        for room in &rooms {
            for medium in Medium::ALL {
                self.clear((room, medium), Gone::Ended);
            }
        }
        self.emit(Event::State { state });
    }

    pub(super) fn plan(&mut self, caller: Caller, command: Command) -> Result<(), Refusal> {
        self.needs_chair(caller)?;
        let Command::Plan {
            title,
            start_ms,
            end_ms,
            lobby,
            record,
        } = command
        else {
            return Ok(());
        };
        let before = &self.session.plan;
        let record = record.unwrap_or(before.record);
        let mut needs = before.needs.clone();
        if before.record && !record {
            needs.retain(|need| need != RECORDER);
        }
        let plan = sound(Plan {
            title: title.unwrap_or_else(|| before.title.clone()),
            start_ms: start_ms.or(before.start_ms),
            end_ms: end_ms.or(before.end_ms),
            lobby: lobby.unwrap_or(before.lobby),
            needs,
            record,
            ..before.clone()
        })?;
        self.planned(plan);
        Ok(())
    }

    pub(super) fn ways(&mut self, caller: Caller, ways: Vec<Way>) -> Result<(), Refusal> {
        self.needs_chair(caller)?;
        let plan = sound(Plan {
            ways,
            ..self.session.plan.clone()
        })?;
        self.planned(plan);
        Ok(())
    }

    fn planned(&mut self, plan: Plan) {
        if plan != self.session.plan {
            self.emit(Event::Planned { plan });
            self.begin();
        }
    }

    pub(super) fn lock(&mut self, caller: Caller, locked: bool) -> Result<(), Refusal> {
        self.needs_chair(caller)?;
        if self.session.locked != locked {
            self.emit(Event::Locked { locked });
        }
        Ok(())
    }
}
