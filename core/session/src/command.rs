//! What is asked of a session, and why it may be refused.

use core::fmt;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::limits::{MEMBERS_MAX, QUEUE_MAX, ROOMS_MAX};
use crate::{Key, Medium, MemberId, Mode, Rights, Role, State, Way};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Whoever runs the session: may do everything.
    Operator,
    /// A member: may do what its role and rights allow.
    Member(MemberId),
}

/// Somebody who wants to come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joining {
    /// Who it is, as somebody vouched for.
    pub identity: String,
    /// What others shall call it.
    pub name: String,
    /// What it is there for.
    pub role: Role,
    /// What its client can do.
    pub capabilities: BTreeSet<String>,
    /// What it may do.
    pub rights: Rights,
    /// What it will prove itself with when it comes back; without one it cannot.
    pub key: Option<Key>,
}

/// What may be asked of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Begin now, whatever the plan says, as soon as its services are ready; or go on.
    Activate,
    /// Pause.
    Deactivate,
    /// End for good.
    Finish,
    /// Call off what has not begun.
    Cancel,
    /// Other plans. What is left out stays.
    Plan {
        /// The title.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// When it begins, in milliseconds since 1970.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start_ms: Option<u64>,
        /// When it ends, in milliseconds since 1970.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end_ms: Option<u64>,
        /// Whether participants and observers wait to be let in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lobby: Option<bool>,
        /// Whether it is recorded from its beginning on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        record: Option<bool>,
    },
    /// Other ways in than the page, in place of those there were.
    Ways {
        /// All of them.
        #[serde(default)]
        ways: Vec<Way>,
    },
    /// Nobody new, or again.
    Lock {
        /// Whether nobody new may come.
        locked: bool,
    },
    /// Let somebody in from the lobby.
    Admit {
        /// Who.
        member: MemberId,
    },
    /// Send somebody away, for good.
    Remove {
        /// Who.
        member: MemberId,
    },
    /// Give somebody another role.
    Role {
        /// Who.
        member: MemberId,
        /// The role.
        role: Role,
    },
    /// Take a medium from somebody, or give it back; oneself may be muted by oneself.
    Mute {
        /// Who.
        member: MemberId,
        /// What.
        medium: Medium,
        /// Whether it is taken.
        muted: bool,
    },
    /// Raise or lower one's hand; a chair may lower another's.
    Hand {
        /// Whether it goes up.
        raised: bool,
        /// Whose; one's own if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        member: Option<MemberId>,
    },
    /// Take another name.
    Name {
        /// The name.
        name: String,
    },
    /// Ask for a floor of one's room.
    Request {
        /// For what.
        medium: Medium,
    },
    /// Give a floor back, or stop waiting for it.
    Release {
        /// For what.
        medium: Medium,
    },
    /// Give somebody a floor of its room, whether or not it asked.
    Grant {
        /// For what.
        medium: Medium,
        /// Who.
        member: MemberId,
    },
    /// Take a floor from somebody, or refuse its request.
    Revoke {
        /// For what.
        medium: Medium,
        /// Who.
        member: MemberId,
    },
    /// Other rules for a floor.
    Floor {
        /// Of which room.
        room: String,
        /// For what.
        medium: Medium,
        /// How it is given.
        mode: Mode,
        /// How many may hold it at once.
        limit: u16,
        /// For how many seconds it is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time_limit_s: Option<u32>,
    },
    /// Open a private room.
    Open {
        /// Its name: one level of a topic.
        room: String,
        /// What people call it.
        #[serde(default)]
        title: String,
    },
    /// Close a room; whoever is in it goes to `main`.
    Close {
        /// Its name.
        room: String,
    },
    /// Send somebody to a room.
    Move {
        /// Who.
        member: MemberId,
        /// The room.
        room: String,
    },
    /// Say something to one's room, or to one member.
    Chat {
        /// What.
        text: String,
        /// To whom alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<MemberId>,
    },
    /// React with an emoji.
    React {
        /// Which.
        text: String,
    },
    /// Have the session recorded, or no more.
    Record {
        /// Whether it is recorded.
        on: bool,
    },
    /// Watch a recording in one's room, together.
    Replay {
        /// Which, as the archive calls it.
        recording: String,
    },
    /// Pause what is replayed, go on, or go elsewhere in it.
    Play {
        /// Whether it goes on.
        playing: bool,
        /// Where to, in milliseconds since its beginning; where it is if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        position_ms: Option<u64>,
    },
    /// Say something of a place in what is replayed, for all who watch it later.
    Annotate {
        /// What.
        text: String,
        /// Of which place, in milliseconds since its beginning; of where it is if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        position_ms: Option<u64>,
    },
    /// End what is replayed.
    Stop,
    /// Leave.
    Leave,
}

/// Why a session does not do what is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A text breaks a rule: which text, and what is wrong with it.
    Text(&'static str, &'static str),
    /// The caller may not do this.
    Forbidden(&'static str),
    /// There is no such member.
    NoMember(MemberId),
    /// There is no such room.
    NoRoom(String),
    /// There is no such recording of this session.
    NoRecording(String),
    /// A room of this name is open already.
    RoomExists(String),
    /// The session stands where this is not possible.
    NotNow(State),
    /// Nobody new may come.
    Locked,
    /// A chair has sent this identity away.
    Barred,
    /// Whoever comes back does not prove that it was here.
    WrongKey,
    /// A bound is reached: what there is too much of, and how much there may be.
    Full(&'static str, usize),
    /// A number lies out of its range.
    Range(&'static str),
    /// The medium is muted, or was never granted.
    Muted(Medium),
    /// Another server holds the session.
    Fenced,
}

impl Refusal {
    /// A word for programs; it never changes.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Text(..) => "text",
            Self::Forbidden(_) => "forbidden",
            Self::NoMember(_) => "no_member",
            Self::NoRoom(_) => "no_room",
            Self::NoRecording(_) => "no_recording",
            Self::RoomExists(_) => "room_exists",
            Self::NotNow(_) => "not_now",
            Self::Locked => "locked",
            Self::Barred => "barred",
            Self::WrongKey => "wrong_key",
            Self::Full(..) => "full",
            Self::Range(_) => "range",
            Self::Muted(_) => "muted",
            Self::Fenced => "fenced",
        }
    }

    pub(crate) const fn members() -> Self {
        Self::Full("members in this session", MEMBERS_MAX)
    }

    pub(crate) const fn rooms() -> Self {
        Self::Full("rooms in this session", ROOMS_MAX)
    }

    pub(crate) const fn queue() -> Self {
        Self::Full("people waiting for this floor", QUEUE_MAX)
    }
}

impl Joining {
    /// A participant who may do everything but lead.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            identity: name.to_owned(),
            name: name.to_owned(),
            role: Role::Participant,
            capabilities: BTreeSet::new(),
            rights: Rights::default(),
            key: None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(what, wrong) => write!(f, "{what} {wrong}"),
            Self::Forbidden(why) => f.write_str(why),
            Self::NoMember(member) => write!(f, "there is no member {member} here"),
            Self::NoRoom(room) => write!(f, "there is no room {room:?}"),
            Self::NoRecording(id) => write!(f, "there is no recording {id:?} of this session"),
            Self::RoomExists(room) => write!(f, "there is a room {room:?} already"),
            Self::NotNow(state) => write!(f, "not while the session is {}", state.name()),
            Self::Locked => f.write_str("the session is locked: nobody new may come"),
            Self::Barred => f.write_str("a chair has sent you away from this session"),
            Self::WrongKey => f.write_str("this is not the resume key of that member; join anew"),
            Self::Full(what, most) => write!(f, "there are {most} {what} already"),
            Self::Range(rule) => f.write_str(rule),
            Self::Muted(medium) => {
                write!(f, "you may not send {} here", medium.name())
            }
            Self::Fenced => f.write_str("another server holds this session; ask again"),
        }
    }
}

impl core::error::Error for Refusal {}
