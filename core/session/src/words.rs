//! The words of a session: states, roles, media and names.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Refusal, text};

/// The room that every session has.
pub const MAIN: &str = "main";

/// Where a session stands (Wu et al., section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Known, and its time has not come, or a service is missing.
    Created,
    /// Will never take place. Final.
    Canceled,
    /// Takes place: media flows as floors say.
    Activated,
    /// Paused: everybody stays, nobody is heard.
    Deactivated,
    /// Is over. Final.
    Finished,
}

/// What a member is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Leads: may do everything.
    Chair,
    /// Presents: gets a moderated floor without asking, as long as one is free.
    Presenter,
    /// Takes part: asks for floors.
    Participant,
    /// Looks on: holds no floor.
    Observer,
}

/// What a floor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Medium {
    /// The microphone.
    Audio,
    /// The camera.
    Video,
    /// The screen, with its sound.
    Screen,
    /// The whiteboard.
    Board,
}

/// A member's number in its session; never given twice. Written `m17`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MemberId(pub u32);

/// A session's name: two levels of a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId {
    /// The first level of its topics.
    pub tenant: String,
    /// The second.
    pub name: String,
}

impl State {
    /// Whether a session in this state may go on to another.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Created, Self::Activated | Self::Canceled)
                | (Self::Activated, Self::Deactivated | Self::Finished)
                | (Self::Deactivated, Self::Activated | Self::Finished)
        )
    }

    /// Whether nothing can follow.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Canceled | Self::Finished)
    }

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Canceled => "canceled",
            Self::Activated => "activated",
            Self::Deactivated => "deactivated",
            Self::Finished => "finished",
        }
    }
}

impl Role {
    /// All, the most powerful first.
    pub const ALL: [Self; 4] = [
        Self::Chair,
        Self::Presenter,
        Self::Participant,
        Self::Observer,
    ];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chair => "chair",
            Self::Presenter => "presenter",
            Self::Participant => "participant",
            Self::Observer => "observer",
        }
    }
}

impl Medium {
    /// All.
    pub const ALL: [Self; 4] = [Self::Audio, Self::Video, Self::Screen, Self::Board];

    /// As it is written, in topics too.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Screen => "screen",
            Self::Board => "board",
        }
    }
}

impl SessionId {
    /// A name of two levels.
    ///
    /// # Errors
    /// [`Refusal::Text`] if a level cannot stand in a topic.
    pub fn new(tenant: &str, name: &str) -> Result<Self, Refusal> {
        Ok(Self {
            tenant: text::level("the tenant", tenant)?,
            name: text::level("the session's name", name)?,
        })
    }
}

impl fmt::Display for SessionId {
    /// `tenant/name`, the head of its topics.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.name)
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}", self.0)
    }
}

impl From<MemberId> for String {
    fn from(id: MemberId) -> Self {
        id.to_string()
    }
}

impl FromStr for MemberId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix('m').filter(|rest| !rest.starts_with('+'));
        let number = digits.and_then(|digits| digits.parse().ok());
        number
            .map(Self)
            .ok_or("a member is written m1, m2 and so on")
    }
}

impl TryFrom<String> for MemberId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}
