//! What is kept under which key.

use sangam_model::BrokerId;
use sangam_session::SessionId;

/// Digits of a number in a key or a value that is compared: any `u64`.
const DIGITS: usize = 20;

/// The names of all keys.
///
/// ```text
/// PREFIX epoch                          the last that was given
/// PREFIX live/server/SERVER             its URL and how many sessions it has, while it lives
/// PREFIX live/holder/TENANT/NAME        the server that holds a session, while that lives
/// PREFIX live/fence/TENANT/NAME         the least epoch that may write; there while the session is
/// PREFIX log/TENANT/NAME/NUMBER         a record
/// PREFIX fold/TENANT/NAME               which parts of a folded state count
/// PREFIX state/TENANT/NAME/NUMBER/PART  a part
/// PREFIX look/TENANT/NAME               how it looks in a list
/// ```
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

/// What a key below [`Keys::live`] is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Live {
    Server(BrokerId),
    Holder(SessionId),
    Fence(SessionId),
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
        }
    }

    pub(super) fn epoch(&self) -> String {
        format!("{}epoch", self.prefix)
    }

    pub(super) fn live(&self) -> String {
        format!("{}live/", self.prefix)
    }

    pub(super) fn server(&self, server: BrokerId) -> String {
        format!("{}server/{}", self.live(), server.0)
    }

    /// The server that a value names.
    pub(super) fn server_of(value: &[u8]) -> Option<BrokerId> {
        str::from_utf8(value).ok()?.parse().ok().map(BrokerId)
    }

    pub(super) fn holder(&self, id: &SessionId) -> String {
        format!("{}holder/{id}", self.live())
    }

    pub(super) fn fence(&self, id: &SessionId) -> String {
        format!("{}fence/{id}", self.live())
    }

    /// The records of a session from a number on begin here.
    pub(super) fn log(&self, id: &SessionId, seq: u64) -> String {
        format!("{}log/{id}/{}", self.prefix, number(seq))
    }

    /// And end before this.
    pub(super) fn log_end(&self, id: &SessionId) -> String {
        // '0' follows '/'.
        format!("{}log/{id}0", self.prefix)
    }

    pub(super) fn fold(&self, id: &SessionId) -> String {
        format!("{}fold/{id}", self.prefix)
    }

    /// The parts of the state after a record.
    pub(super) fn state(&self, id: &SessionId, seq: u64) -> String {
        format!("{}state/{id}/{}/", self.prefix, number(seq))
    }

    pub(super) fn states_end(&self, id: &SessionId) -> String {
        format!("{}state/{id}0", self.prefix)
    }

    /// How a session looks in a list.
    pub(super) fn look(&self, id: &SessionId) -> String {
        format!("{}{id}", self.looks(None))
    }

    /// Before the looks of all sessions, or of those of a tenant.
    pub(super) fn looks(&self, tenant: Option<&str>) -> String {
        match tenant {
            Some(tenant) => format!("{}look/{tenant}/", self.prefix),
            None => format!("{}look/", self.prefix),
        }
    }

    /// And behind them.
    pub(super) fn looks_end(&self, tenant: Option<&str>) -> String {
        match tenant {
            Some(tenant) => format!("{}look/{tenant}0", self.prefix),
            None => format!("{}look0", self.prefix),
        }
    }

    /// The `tenant/name` of a look.
    pub(super) fn looked(&self, key: &[u8]) -> Option<SessionId> {
        let rest = str::from_utf8(key).ok()?.strip_prefix(&self.looks(None))?;
        let (tenant, name) = rest.split_once('/')?;
        SessionId::new(tenant, name).ok()
    }

    /// What a key below [`Self::live`] is about; `None` if it is of somebody else.
    pub(super) fn read(&self, key: &[u8]) -> Option<Live> {
        let rest = str::from_utf8(key).ok()?.strip_prefix(&self.live())?;
        let session = |rest: &str| {
            let (tenant, name) = rest.split_once('/')?;
            SessionId::new(tenant, name).ok()
        };
        match rest.split_once('/')? {
            ("server", name) => Some(Live::Server(Self::server_of(name.as_bytes())?)),
            ("holder", rest) => Some(Live::Holder(session(rest)?)),
            ("fence", rest) => Some(Live::Fence(session(rest)?)),
            _ => None,
        }
    }
}

/// Numbers that sort as their text does.
pub(super) fn number(number: u64) -> String {
    format!("{number:0DIGITS$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_were_written() {
        let keys = Keys::new("/sangam/");
        let id = SessionId::new("acme", "weekly").unwrap();
        let read = |key: String| keys.read(key.as_bytes());
        let server = BrokerId(7);
        assert_eq!(read(keys.server(server)), Some(Live::Server(server)));
        assert_eq!(read(keys.holder(&id)), Some(Live::Holder(id.clone())));
        assert_eq!(read(keys.fence(&id)), Some(Live::Fence(id.clone())));
        assert_eq!(read(keys.log(&id, 1)), None);
        assert_eq!(read(keys.live() + "holder/acme/a b"), None);
    }

    #[test]
    fn looks_of_a_tenant_lie_between_their_bounds_and_those_of_others_do_not() {
        let keys = Keys::new("/sangam/");
        let of = |tenant: &str| SessionId::new(tenant, "weekly").unwrap();
        let (from, to) = (keys.looks(Some("acme")), keys.looks_end(Some("acme")));
        let inside = |key: &String| *key >= from && *key < to;
        let own = keys.look(&of("acme"));
        assert!(inside(&own));
        assert_eq!(keys.looked(own.as_bytes()), Some(of("acme")));
        for other in ["acm", "acme-", "acme.", "acme0", "acmeA", "b"] {
            let look = keys.look(&of(other));
            assert!(!inside(&look), "{other}");
            assert!(look >= keys.looks(None) && look < keys.looks_end(None));
        }
    }

    #[test]
    fn records_sort_by_number_and_end_before_those_of_other_sessions() {
        let keys = Keys::new("/");
        let of = |name: &str| SessionId::new("acme", name).unwrap();
        let id = of("a");
        assert!(keys.log(&id, 9) < keys.log(&id, 10));
        assert!(keys.log(&id, u64::MAX) < keys.log_end(&id));
        assert!(keys.state(&id, u64::MAX) < keys.states_end(&id));
        for other in ["a.", "a-b", "ab", "a0", "A"] {
            let first = keys.log(&of(other), 0);
            assert!(
                first < keys.log(&id, 0) || first >= keys.log_end(&id),
                "{other}"
            );
        }
    }
}
