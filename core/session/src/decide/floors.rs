//! Floors: asked for, waited for, given, taken.

use crate::limits::QUEUE_MAX;
use crate::{
    Caller, Event, Floor, FloorRules, Gone, Machine, Medium, MemberId, Mode, Refusal, Role, State,
};

/// A floor by its room and medium.
type Place<'a> = (&'a str, Medium);

impl Machine {
    pub(super) fn request(&mut self, caller: Caller, medium: Medium) -> Result<(), Refusal> {
        let member = self.asking(caller)?.id;
        let room = self.room_of(member)?;
        self.may_hold(member, medium)?;
        let floor = self.floor_of((&room, medium))?;
        if floor.is_held_by(member) {
            return Ok(());
        }
        let role = self.known(member)?.role;
        let at_once = floor.rules.mode == Mode::Free || role <= Role::Presenter;
        if at_once && floor.has_room() {
            self.give((&room, medium), member);
            return Ok(());
        }
        if floor.is_awaited_by(member) {
            return Ok(());
        }
        if floor.queue.len() >= QUEUE_MAX {
            return Err(Refusal::queue());
        }
        self.emit(Event::Requested {
            room,
            medium,
            member,
        });
        Ok(())
    }

    pub(super) fn give_back(&mut self, caller: Caller, medium: Medium) -> Result<(), Refusal> {
        let member = self.asking(caller)?.id;
        let room = self.room_of(member)?;
        self.release((&room, medium), member, Gone::Itself);
        Ok(())
    }

    pub(super) fn grant(
        &mut self,
        caller: Caller,
        medium: Medium,
        member: MemberId,
    ) -> Result<(), Refusal> {
        self.needs_chair(caller)?;
        let room = self.room_of(member)?;
        self.may_hold(member, medium)?;
        let floor = self.floor_of((&room, medium))?;
        if floor.is_held_by(member) {
            return Ok(());
        }
        if !floor.has_room() {
            let most = usize::from(floor.rules.limit);
            return Err(Refusal::Full("who hold this floor", most));
        }
        self.give((&room, medium), member);
        Ok(())
    }

    pub(super) fn revoke(
        &mut self,
        caller: Caller,
        medium: Medium,
        member: MemberId,
    ) -> Result<(), Refusal> {
        self.needs_chair(caller)?;
        let room = self.room_of(member)?;
        self.release((&room, medium), member, Gone::Taken);
        Ok(())
    }

    pub(super) fn floor(
        &mut self,
        caller: Caller,
        place: Place<'_>,
        rules: FloorRules,
    ) -> Result<(), Refusal> {
        self.needs_chair(caller)?;
        if !rules.is_sound() {
            return Err(Refusal::Range(
                "a floor has 1 to 250 holders and, if any, a time limit of 1 to 86,400 s",
            ));
        }
        let floor = self.floor_of(place)?;
        if floor.rules == rules {
            return Ok(());
        }
        // Who came first keeps it.
        let surplus = floor.holders.iter().skip(usize::from(rules.limit));
        let surplus: Vec<_> = surplus.map(|holder| holder.member).collect();
        let (room, medium) = (place.0.to_owned(), place.1);
        for member in surplus {
            self.emit(Event::Released {
                room: room.clone(),
                medium,
                member,
                why: Gone::Taken,
            });
        }
        self.emit(Event::Floor {
            room,
            medium,
            rules,
        });
        self.promote(place);
        Ok(())
    }

    /// Ends a member's hold on a floor, or its wait; who is next in a free floor gets it.
    pub(crate) fn release(&mut self, place: Place<'_>, member: MemberId, why: Gone) {
        let Ok(floor) = self.floor_of(place) else {
            return;
        };
        let (room, medium) = (place.0.to_owned(), place.1);
        if floor.is_held_by(member) {
            self.emit(Event::Released {
                room,
                medium,
                member,
                why,
            });
            self.promote(place);
        } else if floor.is_awaited_by(member) {
            self.emit(Event::Withdrawn {
                room,
                medium,
                member,
                why,
            });
        }
    }

    /// Ends every hold on a floor, and every wait.
    pub(super) fn clear(&mut self, place: Place<'_>, why: Gone) {
        // First who waits, so that nobody is promoted.
        while let Some(member) = self
            .floor_of(place)
            .ok()
            .and_then(|f| f.queue.first().copied())
        {
            self.release(place, member, why);
        }
        while let Some(holder) = self
            .floor_of(place)
            .ok()
            .and_then(|f| f.holders.first().copied())
        {
            self.release(place, holder.member, why);
        }
    }

    /// Ends all holds and waits of a member.
    pub(super) fn drop_floors(&mut self, member: MemberId, why: Gone) {
        let room = self.known(member).ok().and_then(|one| one.room.clone());
        if let Some(room) = room {
            for medium in Medium::ALL {
                self.release((&room, medium), member, why);
            }
        }
    }

    fn promote(&mut self, place: Place<'_>) {
        while let Ok(floor) = self.floor_of(place) {
            let next = floor.queue.first().copied();
            match next {
                Some(next) if floor.rules.mode == Mode::Free && floor.has_room() => {
                    self.give(place, next);
                }
                _ => return,
            }
        }
    }

    fn give(&mut self, (room, medium): Place<'_>, member: MemberId) {
        let limit = self.floor_of((room, medium)).ok();
        let limit = limit.and_then(|floor| floor.rules.time_limit_s);
        let until_ms = limit.map(|limit| self.now_ms + u64::from(limit) * 1_000);
        self.emit(Event::Granted {
            room: room.to_owned(),
            medium,
            member,
            until_ms,
        });
    }

    /// Gives a floor, while a place is free, to one who stands for somebody else: nobody speaks who
    /// could speak too long.
    pub(super) fn lend(&mut self, place: Place<'_>, member: MemberId) {
        if self.floor_of(place).is_ok_and(Floor::has_room) {
            let (room, medium) = (place.0.to_owned(), place.1);
            self.emit(Event::Granted {
                room,
                medium,
                member,
                until_ms: None,
            });
        }
    }

    /// Whether this member may ever hold such a floor now.
    fn may_hold(&self, member: MemberId, medium: Medium) -> Result<(), Refusal> {
        if self.session.state != State::Activated {
            return Err(Refusal::NotNow(self.session.state));
        }
        let member = self.known(member)?;
        if member.role == Role::Observer {
            return Err(Refusal::Forbidden("an observer holds no floor"));
        }
        if member.muted.contains(&medium) || !member.rights.publish.contains(&medium) {
            return Err(Refusal::Muted(medium));
        }
        Ok(())
    }

    fn floor_of(&self, (room, medium): Place<'_>) -> Result<&Floor, Refusal> {
        let floor = self.session.floor(room, medium);
        floor.ok_or_else(|| Refusal::NoRoom(room.to_owned()))
    }
}
