//! What happens in a session: the entries of its log.

use serde::{Deserialize, Serialize};

use crate::{
    Annotation, FloorRules, Key, Medium, Member, MemberId, Plan, Replay, Role, SessionId, State,
};

/// An event in its place in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its number; the first is 1, and none is left out.
    pub seq: u64,
    /// When it happened, in milliseconds since 1970 by the clock of the server that wrote it.
    pub at_ms: u64,
    /// Which holder of the session wrote it; never less than in the record before.
    pub epoch: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// Why a member left, or lost a floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gone {
    /// It wanted to.
    Itself,
    /// A chair took it.
    Taken,
    /// A chair muted it.
    Muted,
    /// Its time was over.
    Expired,
    /// Its connection was gone too long.
    Lost,
    /// The same identity joined again.
    Replaced,
    /// It left the room.
    Moved,
    /// The session is not active any more.
    Ended,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The session is known.
    Created {
        /// Its name.
        session: SessionId,
        /// What is planned.
        plan: Plan,
    },
    /// A server holds the session from now on; what an earlier one still writes is void.
    Fenced,
    /// Other plans.
    Planned {
        /// All of them.
        plan: Plan,
    },
    /// Another state.
    State {
        /// Which.
        state: State,
    },
    /// A service that the session needs is ready, or is not any more.
    Service {
        /// Which.
        name: String,
        /// Whether it is.
        ready: bool,
    },
    /// Nobody new may come, or somebody may again.
    Locked {
        /// Whether it is locked.
        locked: bool,
    },
    /// Somebody came, into a room or the lobby.
    Joined {
        /// Who.
        person: Member,
    },
    /// What a member proves itself with. Told to nobody.
    Keyed {
        /// Whose.
        member: MemberId,
        /// The key.
        key: Key,
    },
    /// A member's connection is gone; its place is kept for a while.
    Away {
        /// Whose.
        member: MemberId,
    },
    /// It came back.
    Back {
        /// Who.
        member: MemberId,
    },
    /// Somebody left.
    Left {
        /// Who.
        member: MemberId,
        /// Why.
        why: Gone,
    },
    /// An identity may not come back.
    Barred {
        /// Which.
        identity: String,
    },
    /// A member has another name.
    Named {
        /// Who.
        member: MemberId,
        /// The name.
        name: String,
    },
    /// A member has another role.
    Role {
        /// Who.
        member: MemberId,
        /// The role.
        role: Role,
    },
    /// A member is in another room; out of the lobby if it was there.
    Moved {
        /// Who.
        member: MemberId,
        /// The room.
        room: String,
    },
    /// A medium is taken from a member, or given back.
    Muted {
        /// Who.
        member: MemberId,
        /// What.
        medium: Medium,
        /// Whether it is taken.
        muted: bool,
    },
    /// A hand went up or down.
    Hand {
        /// Whose.
        member: MemberId,
        /// Whether it is up.
        raised: bool,
    },
    /// A room was opened.
    Opened {
        /// Its name.
        room: String,
        /// Its title.
        title: String,
    },
    /// A room was closed; nobody was in it any more.
    Closed {
        /// Its name.
        room: String,
    },
    /// A floor has other rules.
    Floor {
        /// Of which room.
        room: String,
        /// For what.
        medium: Medium,
        /// The rules.
        rules: FloorRules,
    },
    /// A member waits for a floor.
    Requested {
        /// Of which room.
        room: String,
        /// For what.
        medium: Medium,
        /// Who.
        member: MemberId,
    },
    /// A member waits no more, without having got it.
    Withdrawn {
        /// Of which room.
        room: String,
        /// For what.
        medium: Medium,
        /// Who.
        member: MemberId,
        /// Why.
        why: Gone,
    },
    /// A member holds a floor.
    Granted {
        /// Of which room.
        room: String,
        /// For what.
        medium: Medium,
        /// Who.
        member: MemberId,
        /// Until when, in milliseconds since 1970.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_ms: Option<u64>,
    },
    /// A member holds a floor no more.
    Released {
        /// Of which room.
        room: String,
        /// For what.
        medium: Medium,
        /// Who.
        member: MemberId,
        /// Why.
        why: Gone,
    },
    /// Somebody said something to its room, or to one member.
    Chat {
        /// Who.
        from: MemberId,
        /// To whom alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<MemberId>,
        /// In which room; everywhere if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        room: Option<String>,
        /// What.
        text: String,
    },
    /// Somebody reacted.
    Reacted {
        /// Who.
        from: MemberId,
        /// In which room.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        room: Option<String>,
        /// With what.
        text: String,
    },
    /// The session is to be recorded, or no more.
    Recording {
        /// Whether it is.
        on: bool,
        /// Who wants it; an operator if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        member: Option<MemberId>,
    },
    /// A recording is replayed: all of where that stands; or nothing any more.
    Replay {
        /// Where it stands.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replay: Option<Replay>,
        /// Why it is over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<Gone>,
    },
    /// Somebody said something of a place in what is replayed.
    Annotated {
        /// Who.
        from: MemberId,
        /// What, and of which place.
        annotation: Annotation,
    },
    /// What was said before of what is replayed.
    Recalled {
        /// Some of it.
        annotations: Vec<Annotation>,
    },
    /// What was said is part of the recording.
    Kept {
        /// The number of the event by which it was said.
        number: u64,
    },
}

impl Event {
    /// Whether other topics may be open after it: see [`crate::Session::doors`].
    #[must_use]
    pub const fn moves_doors(&self) -> bool {
        matches!(
            self,
            Self::Created { .. }
                | Self::Fenced
                | Self::State { .. }
                | Self::Opened { .. }
                | Self::Closed { .. }
                | Self::Granted { .. }
                | Self::Released { .. }
        )
    }
}
