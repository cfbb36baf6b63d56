//! A floor: who may send one medium in one room, and who waits for it.

use serde::{Deserialize, Serialize};

use crate::MemberId;
use crate::limits::{FLOOR_TIME_S_MAX, HOLDERS_MAX};

/// How a floor is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Whoever asks gets it while a place is free, and then in turn.
    Free,
    /// A chair gives it.
    Moderated,
}

/// The rules of one floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloorRules {
    /// How it is given.
    pub mode: Mode,
    /// How many may hold it at once, `1..=HOLDERS_MAX`.
    pub limit: u16,
    /// For how many seconds it is given, `1..=FLOOR_TIME_S_MAX`; without end if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<u32>,
}

/// Who holds a floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The member.
    pub member: MemberId,
    /// Until when, in milliseconds since 1970; without end if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
}

/// One floor. A member holds it, or waits for it, or neither; never both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// Its rules.
    #[serde(flatten)]
    pub rules: FloorRules,
    /// Who holds it, at most [`FloorRules::limit`]; the first was first.
    pub holders: Vec<Holder>,
    /// Who waits for it; the first asked first.
    pub queue: Vec<MemberId>,
}

impl FloorRules {
    /// Anybody, up to so many at once.
    #[must_use]
    pub const fn free(limit: u16) -> Self {
        Self {
            mode: Mode::Free,
            limit,
            time_limit_s: None,
        }
    }

    /// Whether they lie in range.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let time = self.time_limit_s.unwrap_or(1);
        (1..=HOLDERS_MAX).contains(&self.limit) && (1..=FLOOR_TIME_S_MAX).contains(&time)
    }
}

impl Floor {
    /// A floor that nobody holds.
    #[must_use]
    pub const fn new(rules: FloorRules) -> Self {
        Self {
            rules,
            holders: Vec::new(),
            queue: Vec::new(),
        }
    }

    /// Whether this member may send.
    #[must_use]
    pub fn is_held_by(&self, member: MemberId) -> bool {
        self.holders.iter().any(|holder| holder.member == member)
    }

    /// Whether this member waits.
    #[must_use]
    pub fn is_awaited_by(&self, member: MemberId) -> bool {
        self.queue.contains(&member)
    }

    /// Whether one more may hold it.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.holders.len() < usize::from(self.rules.limit)
    }
}
