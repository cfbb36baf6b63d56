//! Who comes, goes, and what becomes of them.

use crate::limits::{
    CAPABILITIES_MAX, CHAT_LEN_MAX, IDENTITY_LEN_MAX, MEMBERS_MAX, REACTION_LEN_MAX,
};
use crate::{
    Caller, Event, Gone, Joining, Key, MAIN, Machine, Medium, Member, MemberId, Refusal, Role, text,
};

impl Machine {
    pub(crate) fn join(&mut self, joining: Joining) -> Result<MemberId, Refusal> {
        let name = text::name("the name", &joining.name)?;
        self.may_join(&joining)?;
        let before = self.session.identities.get(&joining.identity).copied();
        if let Some(before) = before {
            self.leave(before, Gone::Replaced);
        }
        if self.session.members.len() >= MEMBERS_MAX {
            return Err(Refusal::members());
        }
        let id = MemberId(self.session.member_next);
        let leads = joining.rights.admin || joining.role <= Role::Presenter;
        let waits = self.session.plan.lobby && !leads;
        self.emit(Event::Joined {
            person: Member {
                id,
                identity: joining.identity,
                name,
                role: joining.role,
                capabilities: joining.capabilities,
                rights: joining.rights,
                room: (!waits).then(|| MAIN.to_owned()),
                muted: Default::default(),
                hand_ms: None,
                joined_ms: self.now_ms,
                away_ms: None,
            },
        });
        if let Some(key) = joining.key {
            self.emit(Event::Keyed { member: id, key });
        }
        Ok(id)
    }

    fn may_join(&self, joining: &Joining) -> Result<(), Refusal> {
        if self.session.state.is_final() {
            return Err(Refusal::NotNow(self.session.state));
        }
        let identity = &joining.identity;
        if identity.is_empty() || identity.len() > IDENTITY_LEN_MAX {
            return Err(Refusal::Text("the identity", "has between 1 and 128 bytes"));
        }
        text::printable("the identity", identity)?;
        if self.session.barred.contains(identity) {
            return Err(Refusal::Barred);
        }
        // Who leads must be able to unlock it.
        let leads = joining.rights.admin || joining.role == Role::Chair;
        if self.session.locked && !leads && !self.session.identities.contains_key(identity) {
            return Err(Refusal::Locked);
        }
        if joining.capabilities.len() > CAPABILITIES_MAX {
            return Err(Refusal::Full("capabilities", CAPABILITIES_MAX));
        }
        let mut words = joining.capabilities.iter();
        words.try_for_each(|word| text::word("a capability", word))
    }

    pub(crate) fn resume(&mut self, member: MemberId, key: &Key) -> Result<MemberId, Refusal> {
        // Whether the member is gone or the key wrong is nobody's business.
        if !self.session.is_key_of(member, key) {
            return Err(Refusal::WrongKey);
        }
        self.back(member);
        Ok(member)
    }

    pub(crate) fn back(&mut self, member: MemberId) {
        let known = self.session.member(member);
        if known.is_some_and(|known| known.away_ms.is_some()) {
            self.emit(Event::Back { member });
        }
    }

    /// Somebody is gone, and with it all it held.
    pub(crate) fn leave(&mut self, member: MemberId, why: Gone) {
        if self.session.members.contains_key(&member) {
            self.drop_floors(member, why);
            self.emit(Event::Left { member, why });
        }
    }

    pub(super) fn leave_by_itself(&mut self, caller: Caller) -> Result<(), Refusal> {
        let member = self.asking(caller)?.id;
        self.leave(member, Gone::Itself);
        Ok(())
    }

    pub(super) fn admit(&mut self, caller: Caller, member: MemberId) -> Result<(), Refusal> {
        self.needs_chair(caller)?;
        if self.known(member)?.is_in_lobby() {
            let room = MAIN.to_owned();
            self.emit(Event::Moved { member, room });
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, caller: Caller, member: MemberId) -> Result<(), Refusal> {
        self.needs_chair(caller)?;
        let identity = self.known(member)?.identity.clone();
        self.leave(member, Gone::Taken);
        self.emit(Event::Barred { identity });
        Ok(())
    }

    pub(super) fn role(
        &mut self,
        caller: Caller,
        member: MemberId,
        role: Role,
    ) -> Result<(), Refusal> {
        self.needs_chair(caller)?;
        if self.known(member)?.role == role {
            return Ok(());
        }
        self.emit(Event::Role { member, role });
        if role == Role::Observer {
            self.drop_floors(member, Gone::Taken);
        }
        Ok(())
    }

    pub(super) fn mute(
        &mut self,
        caller: Caller,
        member: MemberId,
        (medium, muted): (Medium, bool),
    ) -> Result<(), Refusal> {
        if caller != Caller::Member(member) || !muted {
            self.needs_chair(caller)?;
        }
        if self.known(member)?.muted.contains(&medium) == muted {
            return Ok(());
        }
        // One who is silent by itself gives the floor back and may ask for it again.
        if self.needs_chair(caller).is_ok() {
            self.emit(Event::Muted {
                member,
                medium,
                muted,
            });
        }
        if muted && let Some(room) = self.known(member)?.room.clone() {
            self.release((&room, medium), member, Gone::Muted);
        }
        Ok(())
    }

    pub(super) fn hand(
        &mut self,
        caller: Caller,
        raised: bool,
        member: Option<MemberId>,
    ) -> Result<(), Refusal> {
        let member = match member {
            Some(member) => member,
            None => self.asking(caller)?.id,
        };
        if caller != Caller::Member(member) {
            self.needs_chair(caller)?;
            if raised {
                return Err(Refusal::Forbidden("nobody raises another's hand"));
            }
        }
        if self.known(member)?.hand_ms.is_some() != raised {
            self.emit(Event::Hand { member, raised });
        }
        Ok(())
    }

    pub(super) fn name(&mut self, caller: Caller, name: &str) -> Result<(), Refusal> {
        let member = self.asking(caller)?.id;
        let name = text::name("the name", name)?;
        self.emit(Event::Named { member, name });
        Ok(())
    }

    pub(super) fn chat(
        &mut self,
        caller: Caller,
        text: String,
        to: Option<MemberId>,
    ) -> Result<(), Refusal> {
        let (from, room) = self.speaker(caller)?;
        if let Some(to) = to {
            self.known(to)?;
        }
        if text.trim().is_empty() || text.len() > CHAT_LEN_MAX {
            return Err(Refusal::Text("a message", "has between 1 and 2,000 bytes"));
        }
        text::printable("a message", &text)?;
        self.emit(Event::Chat {
            from,
            to,
            room: Some(room),
            text,
        });
        Ok(())
    }

    pub(super) fn react(&mut self, caller: Caller, text: String) -> Result<(), Refusal> {
        let (from, room) = self.speaker(caller)?;
        if text.is_empty() || text.len() > REACTION_LEN_MAX {
            return Err(Refusal::Text("a reaction", "is one emoji"));
        }
        text::printable("a reaction", &text)?;
        let room = Some(room);
        self.emit(Event::Reacted { from, room, text });
        Ok(())
    }

    /// Who may say something, and where.
    pub(super) fn speaker(&self, caller: Caller) -> Result<(MemberId, String), Refusal> {
        let member = self.asking(caller)?;
        if !member.rights.chat {
            return Err(Refusal::Forbidden("your token does not let you chat"));
        }
        Ok((member.id, self.room_of(member.id)?))
    }
}
