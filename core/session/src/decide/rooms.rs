//! Private rooms.

use crate::limits::ROOMS_MAX;
use crate::{Caller, Event, Gone, MAIN, Machine, MemberId, Refusal, text};

impl Machine {
    pub(super) fn open(&mut self, caller: Caller, room: &str, title: &str) -> Result<(), Refusal> {
        self.needs_chair(caller)?;
        let room = text::level("the room", room)?;
        let title = match title {
            "" => room.clone(),
            title => text::name("the title", title)?,
        };
        if self.session.rooms.contains_key(&room) || room == "service" {
            return Err(Refusal::RoomExists(room));
        }
        if self.session.rooms.len() >= ROOMS_MAX {
            return Err(Refusal::rooms());
        }
        self.emit(Event::Opened { room, title });
        Ok(())
    }

    pub(super) fn close(&mut self, caller: Caller, room: &str) -> Result<(), Refusal> {
        self.needs_chair(caller)?;
        if room == MAIN {
            return Err(Refusal::Forbidden("the room main stays"));
        }
        if !self.session.rooms.contains_key(room) {
            return Err(Refusal::NoRoom(room.to_owned()));
        }
        let replay = self.session.replay.as_ref();
        if replay.is_some_and(|replay| replay.room == room) {
            self.end_replay(Gone::Ended);
        }
        let members = self.session.members.values();
        let inside = members.filter(|member| member.room.as_deref() == Some(room));
        let inside: Vec<MemberId> = inside.map(|member| member.id).collect();
        for member in inside {
            self.bring(member, MAIN);
        }
        let room = room.to_owned();
        self.emit(Event::Closed { room });
        Ok(())
    }

    pub(super) fn send_to(
        &mut self,
        caller: Caller,
        member: MemberId,
        room: String,
    ) -> Result<(), Refusal> {
        self.needs_chair(caller)?;
        if !self.session.rooms.contains_key(&room) {
            return Err(Refusal::NoRoom(room));
        }
        if self.known(member)?.room.as_ref() != Some(&room) {
            self.bring(member, &room);
        }
        Ok(())
    }

    /// Floors of the room it leaves stay there.
    fn bring(&mut self, member: MemberId, room: &str) {
        self.drop_floors(member, Gone::Moved);
        let room = room.to_owned();
        self.emit(Event::Moved { member, room });
    }
}
