//! What a session has of the archive: the recording that is made of it, and the one that is
//! replayed in it.

use serde::{Deserialize, Serialize};

use crate::limits::{
    ANNOTATION_LEN_MAX, LENGTH_MS_MAX, NAME_CHARS_MAX, PLAYED_MAX, RECALLED_MAX, RECORDING_LEN_MAX,
    SAID_MAX, WORD_LEN_MAX,
};
use crate::{Medium, MemberId, Refusal, text};

/// The service that records.
pub const RECORDER: &str = "recorder";
/// The capability of members that are a recording of somebody.
pub const REPLAYED: &str = "replayed";

/// A recording that is wanted. Whether it is made says the service [`RECORDER`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// Who wanted it; the plan or an operator if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberId>,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
}

/// A recording that everybody in a room watches together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// Which: what the archive calls it.
    pub recording: String,
    /// Where it is watched.
    pub room: String,
    /// Who began it; an operator if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberId>,
    /// Since when it is watched, in milliseconds since 1970: with `order` it tells each turn of a
    /// replay from all others that there ever were here.
    #[serde(default)]
    pub since_ms: u64,
    /// The number of the event by which somebody began it, paused it or went elsewhere in it:
    /// what a player says of an earlier one is late.
    pub order: u64,
    /// Whether it goes on.
    pub playing: bool,
    /// Where it was at `at_ms`, in milliseconds since its beginning.
    pub position_ms: u64,
    /// When it was there, in milliseconds since 1970.
    pub at_ms: u64,
    /// How long it is, in milliseconds; none before a player has found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_ms: Option<u64>,
    /// Members that stand for those who were recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub people: Vec<Played>,
}

/// A member that stands for one of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Played {
    /// Who it is in the recording.
    pub source: MemberId,
    /// Who it is here.
    pub member: MemberId,
}

/// Somebody in a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// Who it is there.
    pub source: MemberId,
    /// What it was called.
    pub name: String,
    /// What there is of it; of nobody the board.
    #[serde(default)]
    pub media: Vec<Medium>,
}

/// Something that was said in a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Said {
    /// Who said it, there.
    pub source: MemberId,
    /// What.
    pub text: String,
}

/// What somebody said of a place in a recording while watching it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Annotation {
    /// Which recording: what the archive calls it.
    pub recording: String,
    /// The place, in milliseconds since its beginning.
    pub position_ms: u64,
    /// When it was said, in milliseconds since 1970.
    pub said_ms: u64,
    /// The number of the event by which it was said; with `said_ms` it tells it from all others.
    pub number: u64,
    /// What the one was called who said it.
    pub name: String,
    /// What.
    pub text: String,
}

/// What a player tells of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Playing {
    /// The [`Replay::order`] that it follows.
    pub order: u64,
    /// It has found the recording: how long that is, and who is in it.
    pub found: Option<(u64, Vec<Person>)>,
    /// Where it goes on from now, if that is not where it was asked to.
    pub position_ms: Option<u64>,
    /// What was said there just now.
    pub said: Vec<Said>,
    /// What was said of the recording by those who watched it before.
    pub recalled: Vec<Annotation>,
    /// It cannot play it.
    pub failed: bool,
}

impl Replay {
    /// Where it is, in milliseconds since its beginning.
    #[must_use]
    pub fn position(&self, now_ms: u64) -> u64 {
        let passed = match self.playing && self.length_ms.is_some() {
            true => now_ms.saturating_sub(self.at_ms),
            false => 0,
        };
        let end = self.length_ms.unwrap_or(u64::MAX);
        self.position_ms.saturating_add(passed).min(end)
    }

    /// When it is over, in milliseconds since 1970, if it goes on.
    #[must_use]
    pub fn ends_ms(&self) -> Option<u64> {
        let left = self.length_ms?.saturating_sub(self.position_ms);
        self.playing.then(|| self.at_ms.saturating_add(left))
    }

    /// The member that stands for somebody.
    #[must_use]
    pub fn stands_for(&self, source: MemberId) -> Option<MemberId> {
        let found = self.people.iter().find(|one| one.source == source);
        found.map(|one| one.member)
    }
}

impl Playing {
    /// Whether it keeps the bounds.
    pub(crate) fn is_sound(&self) -> bool {
        let found = self.found.as_ref().is_none_or(|(length, people)| {
            let named = |one: &Person| one.name.chars().count() <= NAME_CHARS_MAX;
            *length <= LENGTH_MS_MAX && people.len() <= PLAYED_MAX && people.iter().all(named)
        });
        let position = self.position_ms.unwrap_or_default();
        let few = self.said.len() <= SAID_MAX && self.recalled.len() <= RECALLED_MAX;
        found && position <= LENGTH_MS_MAX && few
    }
}

impl Annotation {
    /// What tells it from all others.
    pub(crate) const fn key(&self) -> (u64, u64) {
        (self.said_ms, self.number)
    }

    /// Whether it keeps the bounds, as what comes from an archive may not.
    pub(crate) fn is_sound(&self) -> bool {
        let places = self.position_ms <= LENGTH_MS_MAX;
        places && is_annotation(&self.text).is_ok() && text::name("the name", &self.name).is_ok()
    }
}

/// Lets through what may be said of a recording.
pub(crate) fn is_annotation(said: &str) -> Result<(), Refusal> {
    if said.trim().is_empty() || said.len() > ANNOTATION_LEN_MAX {
        return Err(Refusal::Text(
            "an annotation",
            "has between 1 and 500 bytes",
        ));
    }
    text::printable("an annotation", said)
}

/// Whether this may be what an archive calls a recording.
pub(crate) fn is_name(recording: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=RECORDING_LEN_MAX).contains(&recording.len()) && recording.bytes().all(plain)
}

/// Whether this may be what a recorder calls itself: 1 to 32 of `a-z A-Z 0-9 - _ .`.
#[must_use]
pub fn is_recorder(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=WORD_LEN_MAX).contains(&name.len()) && name.bytes().all(plain)
}
