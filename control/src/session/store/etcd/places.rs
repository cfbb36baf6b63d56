//! What a server knows of the others, and of who has which session.

use std::collections::{BTreeMap, BTreeSet};

use sangam_model::BrokerId;
use sangam_route::rendezvous;
use sangam_session::SessionId;
use serde::{Deserialize, Serialize};

use super::super::load::lighter;
use super::super::{Load, ServerSeen, StoreError, Where};
use super::keys::{Keys, Live};
use super::logs::Holder;
use super::{EtcdOptions, failed};

/// What a server says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Server {
    pub(super) url: String,
    #[serde(flatten)]
    pub(super) load: Load,
}

/// What this server knows of who is where.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) own: BrokerId,
    url: String,
    /// What it has to do, as the hall says.
    pub(super) load: Load,
    pub(super) lease: Option<i64>,
    servers: BTreeMap<BrokerId, Server>,
    pub(super) holders: BTreeMap<SessionId, BrokerId>,
    known: BTreeSet<SessionId>,
}

impl Places {
    pub(super) fn new(options: &EtcdOptions) -> Self {
        Self {
            own: options.server,
            url: options.url.clone(),
            load: Load {
                sessions: 0,
                sessions_max: usize::MAX,
                busy_percent: 0,
            },
            lease: None,
            servers: BTreeMap::new(),
            holders: BTreeMap::new(),
            known: BTreeSet::new(),
        }
    }

    /// This server, as long as its lease lasts.
    pub(super) fn holder(&self) -> Result<Holder, StoreError> {
        let lease = self.lease.ok_or_else(|| failed("no answer; tried again"))?;
        Ok(Holder {
            server: self.own,
            lease,
        })
    }

    pub(super) fn of(&self, id: &SessionId) -> Where {
        if self.lease.is_none() {
            // What was known may be long over.
            return Where::Unknown;
        }
        let holder = self.holders.get(id);
        match holder.filter(|holder| **holder != self.own) {
            Some(other) => match self.servers.get(other) {
                Some(server) => Where::At(server.url.clone()),
                None => Where::Moving,
            },
            None if self.known.contains(id) => Where::Moving,
            None => Where::Nowhere,
        }
    }

    /// The server that has a session, by its URL.
    pub(super) fn url_of(&self, id: &SessionId) -> Option<&str> {
        match self.holders.get(id)? {
            holder if *holder == self.own => Some(&self.url),
            holder => self.servers.get(holder).map(|server| server.url.as_str()),
        }
    }

    /// This server, and the others that live.
    pub(super) fn servers(&self) -> Vec<ServerSeen> {
        let seen = |broker: BrokerId, server: &Server| ServerSeen {
            broker,
            url: server.url.clone(),
            sessions: server.load.sessions,
        };
        let own = seen(self.own, &self.introduction());
        let others = self.servers.iter().filter(|(name, _)| **name != self.own);
        let others = others.map(|(name, server)| seen(*name, server));
        std::iter::once(own).chain(others).collect()
    }

    /// What this server says of itself.
    pub(super) fn introduction(&self) -> Server {
        Server {
            url: self.url.clone(),
            load: self.load,
        }
    }

    pub(super) fn lighter(&self, own: Load) -> Option<String> {
        let others = self.servers.iter().filter(|(name, _)| **name != self.own);
        let others = others.map(|(_, server)| (&server.url, server.load));
        lighter(own, others).cloned()
    }

    /// A session is over: the news of it, when it comes, is of none that this server has.
    pub(super) fn forget(&mut self, id: &SessionId) {
        self.holders.remove(id);
    }

    /// It could not be forgotten.
    pub(super) fn keep(&mut self, id: &SessionId) {
        self.holders.insert(id.clone(), self.own);
    }

    pub(super) fn clear(&mut self) {
        self.lease = None;
        self.servers.clear();
        self.holders.clear();
        self.known.clear();
    }

    pub(super) fn put(&mut self, live: Live, value: &[u8]) {
        match live {
            Live::Server(name) => {
                if let Ok(server) = serde_json::from_slice(value) {
                    self.servers.insert(name, server);
                }
            }
            Live::Holder(id) => {
                if let Some(holder) = Keys::server_of(value) {
                    self.holders.insert(id, holder);
                }
            }
            Live::Fence(id) => {
                self.known.insert(id);
            }
        }
    }

    pub(super) fn delete(&mut self, live: &Live) {
        match live {
            Live::Server(name) => drop(self.servers.remove(name)),
            Live::Holder(id) => drop(self.holders.remove(id)),
            Live::Fence(id) => drop(self.known.remove(id)),
        }
    }

    pub(super) fn free(&self) -> impl Iterator<Item = &SessionId> {
        let known = self.known.iter();
        known.filter(|id| !self.holders.contains_key(*id))
    }

    /// How many servers stand before this one for a session: those that are full stand last.
    pub(super) fn before(&self, id: &SessionId) -> usize {
        let servers = self.servers.keys().copied();
        let order = rendezvous(&id.to_string(), servers, self.servers.len());
        let own_is_full = self.load.is_full();
        let own_rank = order.iter().position(|server| *server == self.own);
        let own_rank = own_rank.unwrap_or(order.len());
        let stands_before = |(rank, server): &(usize, &BrokerId)| {
            let is_full = self
                .servers
                .get(*server)
                .is_some_and(|one| one.load.is_full());
            **server != self.own && (is_full, *rank) < (own_is_full, own_rank)
        };
        order.iter().enumerate().filter(stands_before).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(lease: Option<i64>) -> (Places, SessionId) {
        let mut places = Places::new(&EtcdOptions {
            endpoints: Vec::new(),
            authorities: None,
            user: None,
            prefix: "/".to_owned(),
            server: BrokerId(1),
            url: "http://a".to_owned(),
        });
        let id = SessionId::new("acme", "weekly").unwrap();
        places.lease = lease;
        let other = br#"{"url": "http://b", "sessions": 3}"#;
        places.put(Live::Server(BrokerId(2)), other);
        places.put(Live::Fence(id.clone()), b"7");
        (places, id)
    }

    #[test]
    fn a_session_is_with_its_holder_as_long_as_that_lives() {
        let (mut places, id) = known(Some(9));
        assert_eq!(places.of(&id), Where::Moving);
        places.put(Live::Holder(id.clone()), b"2");
        assert_eq!(places.of(&id), Where::At("http://b".to_owned()));
        assert_eq!(places.url_of(&id), Some("http://b"));
        places.delete(&Live::Server(BrokerId(2)));
        assert_eq!((places.of(&id), places.url_of(&id)), (Where::Moving, None));
        let never = SessionId::new("acme", "never").unwrap();
        assert_eq!(places.of(&never), Where::Nowhere);
    }

    #[test]
    fn who_hears_nothing_of_the_cluster_says_of_no_session_that_it_is_not_there() {
        let (mut places, id) = known(None);
        places.clear();
        assert_eq!(places.of(&id), Where::Unknown);
    }

    #[test]
    fn the_servers_are_this_one_and_then_those_that_live() {
        let (mut places, _) = known(Some(9));
        // As the cluster tells it, which is older than what this one knows.
        places.put(
            Live::Server(BrokerId(1)),
            br#"{"url": "http://a", "sessions": 0}"#,
        );
        places.load.sessions = 5;
        let seen = places.servers();
        let seen: Vec<_> = seen
            .iter()
            .map(|one| (one.url.as_str(), one.sessions))
            .collect();
        assert_eq!(seen, [("http://a", 5), ("http://b", 3)]);
    }

    #[test]
    fn who_is_full_takes_over_last() {
        let (mut places, _) = known(Some(9));
        let own = br#"{"url": "http://a", "sessions": 0}"#;
        places.put(Live::Server(BrokerId(1)), own);
        let ids: Vec<_> = (0..20)
            .map(|n| SessionId::new("acme", &format!("s{n}")).unwrap())
            .collect();
        let turns = |places: &Places| -> usize { ids.iter().map(|id| places.before(id)).sum() };
        let shared = turns(&places);
        assert!((1..20).contains(&shared), "{shared}");
        places.load.busy_percent = 90;
        assert_eq!(turns(&places), 20, "the other stands before it for all");
        let full = br#"{"url": "http://b", "sessions": 3, "sessions_max": 3}"#;
        places.put(Live::Server(BrokerId(2)), full);
        assert_eq!(turns(&places), shared);
        places.load.busy_percent = 0;
        assert_eq!(turns(&places), 0);
    }
}
