//! What recorders and session servers tell each other: `PUT /v1/recorders/RECORDER`.
//!
//! A recorder comes by itself, says what it does and has, and is told what it has to do. It asks
//! again and again; whoever is silent for [`sangam_session::limits::LEASE_MS`] is taken for gone.

use sangam_session::{Annotation, Person, Playing, Said, SessionId};
use serde::{Deserialize, Serialize};

/// Recordings of one recorder that are listed, the newest of them.
pub(super) const LISTED_MAX: usize = 500;
/// Sessions that one recorder records, and in which it replays.
pub(super) const TASKS_MAX: usize = 64;
/// Annotations that a recorder tells it has written down, and that it is given at once.
pub(super) const KEPT_MAX: usize = 200;

/// What a recorder says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beat {
    /// The revision it was told last.
    #[serde(default)]
    pub known: Option<u64>,
    /// How many more sessions it can record.
    pub places: usize,
    /// What it records.
    #[serde(default)]
    pub records: Vec<Following>,
    /// What it replays.
    #[serde(default)]
    pub replays: Vec<Player>,
    /// Whether its recordings are given.
    #[serde(default)]
    pub lists: bool,
    /// Its recordings.
    #[serde(default)]
    pub recordings: Vec<Listed>,
    /// Annotations that are part of their recordings now.
    #[serde(default)]
    pub kept: Vec<Kept>,
}

/// An annotation that a recorder has written down.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    tenant: String,
    name: String,
    /// The number of the event by which it was said.
    pub number: u64,
}

/// A session that a recorder records.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Following {
    tenant: String,
    name: String,
    /// The last event it knows.
    pub after: u64,
    /// Whether it records already.
    pub begun: bool,
}

/// What comes of a replay.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Player {
    tenant: String,
    name: String,
    order: u64,
    #[serde(default)]
    length_ms: Option<u64>,
    #[serde(default)]
    people: Vec<Person>,
    #[serde(default)]
    position_ms: Option<u64>,
    #[serde(default)]
    said: Vec<Said>,
    #[serde(default)]
    recalled: Vec<Annotation>,
    #[serde(default)]
    failed: bool,
}

/// A recording of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// What its archive calls it.
    pub id: String,
    /// The session's tenant.
    pub tenant: String,
    /// The session's name.
    pub name: String,
    /// When it began, in milliseconds since 1970.
    pub begin_ms: u64,
    /// How long it is so far, in milliseconds.
    pub length_ms: u64,
    /// Whether it was ended in order.
    pub over: bool,
    /// How much was said of it by those who watched it.
    #[serde(default)]
    pub annotations: u64,
}

impl Beat {
    /// Whether it keeps the bounds.
    pub(super) fn is_sound(&self) -> bool {
        let is_short =
            |one: &Listed| one.id.len() <= 32 && SessionId::new(&one.tenant, &one.name).is_ok();
        self.records.len() <= TASKS_MAX
            && self.replays.len() <= TASKS_MAX
            && self.recordings.len() <= LISTED_MAX
            && self.kept.len() <= KEPT_MAX
            && self.recordings.iter().all(is_short)
    }

    /// The same once it was heard: what was news is none any more.
    pub(super) fn heard(&self) -> Self {
        let replays = self.replays.iter().map(|one| Player {
            tenant: one.tenant.clone(),
            name: one.name.clone(),
            order: one.order,
            length_ms: None,
            people: Vec::new(),
            position_ms: None,
            said: Vec::new(),
            recalled: Vec::new(),
            failed: false,
        });
        Self {
            known: None,
            places: self.places,
            records: self.records.clone(),
            replays: replays.collect(),
            lists: false,
            recordings: Vec::new(),
            kept: Vec::new(),
        }
    }
}

impl Following {
    /// Which session; none if it cannot be one.
    pub(super) fn session(&self) -> Option<SessionId> {
        SessionId::new(&self.tenant, &self.name).ok()
    }
}

impl Player {
    /// Which session; none if it cannot be one.
    pub(super) fn session(&self) -> Option<SessionId> {
        SessionId::new(&self.tenant, &self.name).ok()
    }

    /// The same in a session's words.
    pub(super) fn playing(&self) -> Playing {
        Playing {
            order: self.order,
            found: self.length_ms.map(|length| (length, self.people.clone())),
            position_ms: self.position_ms,
            said: self.said.clone(),
            recalled: self.recalled.clone(),
            failed: self.failed,
        }
    }
}

impl Kept {
    /// Which session; none if it cannot be one.
    pub(super) fn session(&self) -> Option<SessionId> {
        SessionId::new(&self.tenant, &self.name).ok()
    }
}

impl Listed {
    /// Whether it is of this session.
    pub(super) fn is_of(&self, id: &SessionId) -> bool {
        self.tenant == id.tenant && self.name == id.name
    }
}
