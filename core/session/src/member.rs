//! A member: who somebody is, where, and what it may do.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Medium, MemberId, Role};

/// What a member may do, whatever its role: its token says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// Media it may ever send.
    pub publish: BTreeSet<Medium>,
    /// Whether it may receive.
    pub subscribe: bool,
    /// Whether it may chat and react.
    pub chat: bool,
    /// Whether it may lead, as a chair may.
    pub admin: bool,
}

/// Somebody in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its number.
    pub id: MemberId,
    /// Who it is, as its token says; shared by nobody else in the session.
    pub identity: String,
    /// What others call it.
    pub name: String,
    /// What it is there for.
    pub role: Role,
    /// What its client can do, in words the clients agree on.
    pub capabilities: BTreeSet<String>,
    /// What its token grants.
    pub rights: Rights,
    /// The room it is in; none while it waits in the lobby.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<String>,
    /// Media that a chair has taken from it.
    pub muted: BTreeSet<Medium>,
    /// Since when its hand is up, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hand_ms: Option<u64>,
    /// When it came, in milliseconds since 1970.
    pub joined_ms: u64,
    /// Since when its connection is gone, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away_ms: Option<u64>,
}

/// What a member proves itself with when it comes back: a hash of the secret that it was given, as
/// hexadecimal digits. The session never sees the secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key(pub String);

impl Default for Rights {
    /// Everything but leading.
    fn default() -> Self {
        Self {
            publish: Medium::ALL.into(),
            subscribe: true,
            chat: true,
            admin: false,
        }
    }
}

impl Member {
    /// Whether it may do what chairs do.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.role == Role::Chair || self.rights.admin
    }

    /// Whether it waits to be let in.
    #[must_use]
    pub const fn is_in_lobby(&self) -> bool {
        self.room.is_none()
    }
}
