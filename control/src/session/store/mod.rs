//! Where sessions are kept.

mod embedded;
mod etcd;
mod load;

use std::collections::BTreeMap;
use std::fmt;

use sangam_model::BrokerId;
use sangam_session::{Record, Session, SessionId};
use serde_json::Value;

pub use embedded::Embedded;
pub use etcd::{Etcd, EtcdOptions};
pub use load::Load;

/// Keeps the logs of sessions. Calls may wait for a disk: they come from a thread of their own.
pub trait ControlStore: Send {
    /// A number greater than all it gave before, also to others, and no less than `floor`: the
    /// epoch of a new holder. With the time as floor, brokers believe also a holder whose store
    /// was lost.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn next_epoch(&mut self, floor: u64) -> Result<u64, StoreError>;

    /// Keeps records, and returns when they would survive a crash. After an error each session has
    /// none of its records, some of the first, or all of them: load it again.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if some of them are of an earlier epoch than what is kept.
    fn append(&mut self, batch: &[(SessionId, Record)]) -> Result<(), StoreError>;

    /// Every session, as its log amounts to.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn load(&mut self) -> Result<Vec<Session>, StoreError>;

    /// One session; `None` if it is not known.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn load_one(&mut self, id: &SessionId) -> Result<Option<Session>, StoreError>;

    /// At most `most` records of a session after number `after`. None of those that
    /// [`Self::compact`] has folded are left.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn records(
        &mut self,
        id: &SessionId,
        after: u64,
        most: usize,
    ) -> Result<Vec<Record>, StoreError>;

    /// Keeps what a session amounts to instead of its log, but for the last `keep` records.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn compact(&mut self, session: &Session, keep: u64) -> Result<(), StoreError>;

    /// Forgets a session.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn forget(&mut self, id: &SessionId) -> Result<(), StoreError>;

    /// Takes the name of a session that is about to begin with this epoch; false if there is one of
    /// this name.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn claim(&mut self, _id: &SessionId, _epoch: u64) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Leaves a session that could not be gone on with to whoever can.
    fn release(&mut self, _id: &SessionId) {}

    /// What has come to this server, which has so much to do, and what has left it. To be asked
    /// often.
    fn moves(&mut self, _load: Load) -> Vec<Move> {
        Vec::new()
    }

    /// Where a session is that is not here.
    fn place(&self, _id: &SessionId) -> Where {
        Where::Nowhere
    }

    /// The URL of a server that takes a new session instead of this one, which has so much to do.
    fn lighter(&self, _load: Load) -> Option<String> {
        None
    }

    /// The servers that share this store, this one first; none if nobody shares it.
    fn servers(&self) -> Vec<ServerSeen> {
        Vec::new()
    }

    /// Whether others share this store, so that it wants to know how sessions look.
    fn is_shared(&self) -> bool {
        false
    }

    /// How sessions look after the records that are appended next; both are kept together.
    fn outline(&mut self, _looks: BTreeMap<SessionId, Value>) {}

    /// Sessions of all servers that share this store. It may answer later, from a thread of its
    /// own.
    fn list(&mut self, _wanted: Listing, tell: Tell) {
        tell(Ok(Listed::default()));
    }
}

/// Takes what [`ControlStore::list`] has found.
pub type Tell = Box<dyn FnOnce(Result<Listed, StoreError>) + Send>;

/// How sessions look, as the list shows them, by `tenant/name`.
pub type Listed = BTreeMap<String, Value>;

/// A page of the list of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Only sessions of this tenant; of all, if there is none.
    pub tenant: Option<String>,
    /// Only sessions whose `tenant/name` sorts behind this.
    pub after: String,
    /// At most so many, the first ones.
    pub most: usize,
}

/// One of the servers that share a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSeen {
    /// Its broker.
    pub broker: BrokerId,
    /// How members and programs reach it: `http://host:port`.
    pub url: String,
    /// Sessions it has.
    pub sessions: usize,
}

/// A session as an earlier holder left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// As it is kept.
    pub session: Session,
    /// Its last records, which that one may not have told everybody any more.
    pub last: Vec<Record>,
}

/// Records of an earlier holder that are told again: more than it can have kept and not told.
pub(super) const TOLD_AGAIN: usize = 128;

/// A session changes servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// It is here from now on: as it was left, and the epoch that its holder has now.
    Come(Box<Left>, u64),
    /// It is here no more.
    Gone(SessionId),
}

/// Where a session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// With no server: there is no such session.
    Nowhere,
    /// Between two servers.
    Moving,
    /// The store does not answer.
    Unknown,
    /// With the server at this URL.
    At(String),
}

/// Why a store does not do what is asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// Other servers have taken over these sessions.
    Fenced(Vec<SessionId>),
    /// What is kept cannot be understood.
    Corrupt(String),
    /// The disk or the file.
    Failed(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced(lost) => {
                let names: Vec<_> = lost.iter().map(ToString::to_string).collect();
                write!(f, "another server holds {}", names.join(", "))
            }
            Self::Corrupt(what) => write!(f, "the session store cannot be read: {what}"),
            Self::Failed(what) => write!(f, "the session store fails: {what}"),
        }
    }
}

impl std::error::Error for StoreError {}
