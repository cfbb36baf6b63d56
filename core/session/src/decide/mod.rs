//! Decisions: who may do what, and what follows.
//!
//! Each of them checks everything first and then emits events, so that what is refused has changed
//! nothing.

mod annotations;
mod archive;
mod floors;
mod life;
mod people;
mod rooms;

pub(crate) use archive::Lease;

use crate::{Answer, Caller, Command, FloorRules, Machine, Member, MemberId, Refusal, State};

impl Machine {
    pub(crate) fn command(&mut self, caller: Caller, command: Command) -> Result<Answer, Refusal> {
        if self.session.state.is_final() && command != Command::Leave {
            return Err(Refusal::NotNow(self.session.state));
        }
        match command {
            Command::Activate => self.become_state(caller, State::Activated),
            Command::Deactivate => self.become_state(caller, State::Deactivated),
            Command::Finish => self.become_state(caller, State::Finished),
            Command::Cancel => self.become_state(caller, State::Canceled),
            Command::Plan { .. } => self.plan(caller, command),
            Command::Ways { ways } => self.ways(caller, ways),
            Command::Lock { locked } => self.lock(caller, locked),
            Command::Admit { member } => self.admit(caller, member),
            Command::Remove { member } => self.remove(caller, member),
            Command::Role { member, role } => self.role(caller, member, role),
            Command::Mute {
                member,
                medium,
                muted,
            } => self.mute(caller, member, (medium, muted)),
            Command::Hand { raised, member } => self.hand(caller, raised, member),
            Command::Name { name } => self.name(caller, &name),
            Command::Request { medium } => self.request(caller, medium),
            Command::Release { medium } => self.give_back(caller, medium),
            Command::Grant { medium, member } => self.grant(caller, medium, member),
            Command::Revoke { medium, member } => self.revoke(caller, medium, member),
            Command::Floor {
                room,
                medium,
                mode,
                limit,
                time_limit_s,
            } => {
                let rules = FloorRules {
                    mode,
                    limit,
                    time_limit_s,
                };
                self.floor(caller, (&room, medium), rules)
            }
            Command::Open { room, title } => self.open(caller, &room, &title),
            Command::Close { room } => self.close(caller, &room),
            Command::Move { member, room } => self.send_to(caller, member, room),
            Command::Chat { text, to } => self.chat(caller, text, to),
            Command::React { text } => self.react(caller, text),
            Command::Record { on } => self.record(caller, on),
            Command::Replay { recording } => self.replay(caller, recording),
            Command::Play {
                playing,
                position_ms,
            } => self.play(caller, playing, position_ms),
            Command::Annotate { text, position_ms } => self.annotate(caller, &text, position_ms),
            Command::Stop => self.stop(caller),
            Command::Leave => self.leave_by_itself(caller),
        }?;
        Ok(Answer::Done)
    }

    /// Lets chairs and operators through.
    pub(crate) fn needs_chair(&self, caller: Caller) -> Result<(), Refusal> {
        match caller {
            Caller::Operator => Ok(()),
            Caller::Member(member) if self.known(member)?.leads() => Ok(()),
            Caller::Member(_) => Err(Refusal::Forbidden("only a chair may do this")),
        }
    }

    /// The member that asks; operators are none.
    pub(crate) fn asking(&self, caller: Caller) -> Result<&Member, Refusal> {
        match caller {
            Caller::Member(member) => self.known(member),
            Caller::Operator => Err(Refusal::Forbidden("only a member may do this")),
        }
    }

    pub(crate) fn known(&self, member: MemberId) -> Result<&Member, Refusal> {
        let known = self.session.members.get(&member);
        known.ok_or(Refusal::NoMember(member))
    }

    /// The room a member is in.
    pub(crate) fn room_of(&self, member: MemberId) -> Result<String, Refusal> {
        let room = self.known(member)?.room.clone();
        room.ok_or(Refusal::Forbidden("not while waiting in the lobby"))
    }
}
