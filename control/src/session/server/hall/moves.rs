//! Sessions that come and go: between servers, and back to what is kept.

use sangam_model::Time;
use sangam_session::{Machine, Record, Session, SessionId};

use super::super::super::store::{Left, Move, StoreError, TOLD_AGAIN, Where};
use super::super::Failure;
use super::Hall;

impl Hall {
    /// Goes back to what is kept.
    pub(super) fn revert(&mut self, batch: &[(SessionId, Record)], error: &StoreError) {
        for records in batch.chunk_by(|(one, _), (other, _)| one == other) {
            let Some((id, _)) = records.first() else {
                continue;
            };
            // Members come back by themselves, and see what is true.
            self.hosted.remove(id);
            if matches!(error, StoreError::Fenced(lost) if lost.contains(id)) {
                // Another server has it now; to take it back would never end. If none has, one
                // takes it.
                self.options.store.release(id);
                continue;
            }
            self.adopt(id);
        }
    }

    /// Goes on with a session as it is kept.
    fn adopt(&mut self, id: &SessionId) {
        let now = Time::from_millis((self.options.clock)());
        let adopted = self.options.store.load_one(id).and_then(|session| {
            let Some(session) = session else {
                return Ok(None);
            };
            self.tell_again(&session);
            // One that nobody else can have.
            let epoch = self.options.store.next_epoch(session.epoch() + 1)?;
            let machine = Machine::take_over(now, session, epoch);
            machine
                .map(Some)
                .map_err(|error| StoreError::Corrupt(error.to_string()))
        });
        match adopted {
            Ok(Some(machine)) => self.host(machine),
            // Its first record was never kept.
            Ok(None) => self.options.store.release(id),
            Err(error) => {
                tracing::error!(%error, %id, "a session is lost here");
                self.options.store.release(id);
            }
        }
    }

    /// Takes what other servers leave, and leaves what they have taken.
    pub(super) fn move_sessions(&mut self) {
        for change in self.options.store.moves(self.load()) {
            match change {
                Move::Come(left, epoch) => self.come(*left, epoch),
                // Its members are told by the end of their connections, and come back elsewhere.
                Move::Gone(id) => drop(self.hosted.remove(&id)),
            }
        }
    }

    /// Goes on with a session that was another server's.
    fn come(&mut self, left: Left, epoch: u64) {
        let now = Time::from_millis((self.options.clock)());
        let Left { session, last } = left;
        let id = session.id().clone();
        if let Some(herald) = &self.options.herald {
            herald.tell(&id, &last);
        }
        match Machine::take_over(now, session, epoch) {
            Ok(machine) => self.host(machine),
            Err(error) => {
                tracing::error!(%error, %id, "a session is lost here");
                self.options.store.release(&id);
            }
        }
    }

    /// Tells what an earlier holder may have kept and not told any more.
    pub(super) fn tell_again(&mut self, session: &Session) {
        let Some(herald) = &self.options.herald else {
            return;
        };
        let after = session.seq().saturating_sub(TOLD_AGAIN as u64);
        let last = self.options.store.records(session.id(), after, TOLD_AGAIN);
        match last {
            Ok(last) => herald.tell(session.id(), &last),
            Err(error) => tracing::warn!(%error, "what was told last is not told again"),
        }
    }

    /// Why a session that was asked for is not here.
    pub(super) fn not_here(&self, id: &SessionId) -> Failure {
        match self.options.store.place(id) {
            Where::At(url) => Failure::Elsewhere(url),
            Where::Moving => Failure::Moving(id.clone()),
            Where::Unknown => Failure::Unknown(id.clone()),
            Where::Nowhere => Failure::NoSession(id.clone()),
        }
    }
}
