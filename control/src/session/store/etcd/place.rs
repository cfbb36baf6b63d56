//! Which server holds which session, and who takes those whose server is gone.
//!
//! Servers and what they hold hang on leases: what a dead one held is free when its lease ends.
//! Each server watches that; the one that stands first for a session takes it, and others if it
//! does not. Two that try have one winner, and the loser's epoch writes nothing: who is first is a
//! matter of speed, not of safety.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{
    Client, EventType, GetOptions, LeaseKeepAliveStream, LeaseKeeper, PutOptions, WatchOptions,
    WatchStream,
};
use sangam_model::BrokerId;
use sangam_route::rendezvous;
use sangam_session::SessionId;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::super::{Move, StoreError, Where};
use super::keys::{Keys, Live};
use super::logs::{Holder, Logs};
use super::{EtcdOptions, PATIENCE, failed};

/// Seconds after which a server that is not heard of is gone. etcd grants no less than two.
const LEASE_S: i64 = 2;
/// How often it is heard of,
const BEAT: Duration = Duration::from_millis(500);
/// and how long it believes in its lease without an answer: less than others do.
const BELIEF: Duration = Duration::from_millis(1_600);
/// How often free sessions are looked for.
const LOOK: Duration = Duration::from_millis(100);
/// How long each server leaves a free session to those that stand before it.
const TURN: Duration = Duration::from_millis(300);
/// Sessions that are taken at one look, so that others are served as well.
const TAKEN_MAX: usize = 16;
/// Before the cluster is asked again after it failed.
const AGAIN: Duration = Duration::from_millis(500);
/// A server that has so many sessions more than another sends new ones there.
const APART: usize = 16;

/// What a server says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Server {
    url: String,
    sessions: usize,
}

/// What this server knows of who is where.
#[derive(Debug)]
pub(super) struct Places {
    own: BrokerId,
    url: String,
    /// Its sessions, as the hall says.
    pub(super) sessions: usize,
    lease: Option<i64>,
    servers: BTreeMap<BrokerId, Server>,
    holders: BTreeMap<SessionId, BrokerId>,
    known: BTreeSet<SessionId>,
}

/// What the hall wants.
pub(super) enum Order {
    /// A session that could not be gone on with is free for whoever can.
    Release(SessionId),
    /// This server ends.
    End(Sender<()>),
}

impl Places {
    pub(super) fn new(options: &EtcdOptions) -> Self {
        Self {
            own: options.server,
            url: options.url.clone(),
            sessions: 0,
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

    pub(super) fn lighter(&self, sessions: usize) -> Option<String> {
        let others = self.servers.iter().filter(|(name, _)| **name != self.own);
        let (_, least) = others.min_by_key(|(_, server)| server.sessions)?;
        (least.sessions + APART < sessions).then(|| least.url.clone())
    }

    /// A session is over: the news of it, when it comes, is of none that this server has.
    pub(super) fn forget(&mut self, id: &SessionId) {
        self.holders.remove(id);
    }

    /// It could not be forgotten.
    pub(super) fn keep(&mut self, id: &SessionId) {
        self.holders.insert(id.clone(), self.own);
    }

    fn clear(&mut self) {
        self.lease = None;
        self.servers.clear();
        self.holders.clear();
        self.known.clear();
    }

    fn put(&mut self, live: Live, value: &[u8]) {
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

    fn delete(&mut self, live: &Live) {
        match live {
            Live::Server(name) => drop(self.servers.remove(name)),
            Live::Holder(id) => drop(self.holders.remove(id)),
            Live::Fence(id) => drop(self.known.remove(id)),
        }
    }

    fn free(&self) -> impl Iterator<Item = &SessionId> {
        let known = self.known.iter();
        known.filter(|id| !self.holders.contains_key(*id))
    }

    /// How many servers stand before this one for a session.
    fn before(&self, id: &SessionId) -> usize {
        let servers = self.servers.keys().copied();
        let order = rendezvous(&id.to_string(), servers, self.servers.len());
        let before = order.iter().take_while(|server| **server != self.own);
        before.count()
    }
}

/// Keeps this server's lease and looks after free sessions.
pub(super) struct Keeper {
    client: Client,
    keys: Keys,
    logs: Logs,
    places: Arc<Mutex<Places>>,
    tell: Sender<Move>,
    /// Since when a session is free.
    free: BTreeMap<SessionId, Instant>,
}

/// A lease and a watch.
struct Line {
    holder: Holder,
    keeper: LeaseKeeper,
    answers: LeaseKeepAliveStream,
    watch: WatchStream,
    /// When the cluster was asked to prolong the lease, until it answers.
    asked: Option<Instant>,
    /// When it was asked the last time that it answered: the lease has lasted since then at least.
    prolonged: Instant,
    told: usize,
}

impl Keeper {
    pub(super) fn new(
        client: Client,
        keys: Keys,
        places: Arc<Mutex<Places>>,
        tell: Sender<Move>,
    ) -> Self {
        Self {
            logs: Logs::new(client.clone(), keys.clone()),
            client,
            keys,
            places,
            tell,
            free: BTreeMap::new(),
        }
    }

    /// Until the store is dropped.
    pub(super) async fn run(mut self, mut orders: UnboundedReceiver<Order>) {
        loop {
            match timeout(2 * PATIENCE, self.begin()).await {
                Ok(Ok(line)) => {
                    let lease = line.holder.lease;
                    let end = self.keep(line, &mut orders).await;
                    self.lose();
                    // It ends by itself otherwise.
                    let _ = self.client.lease_revoke(lease).await;
                    match end {
                        Ok(Some(done)) => {
                            // Whoever waited may have given up.
                            let _ = done.send(());
                            return;
                        }
                        Ok(None) => return,
                        Err(error) => tracing::warn!(%error, "sessions are left to others"),
                    }
                }
                Ok(Err(error)) => tracing::warn!(%error, "no sessions are taken"),
                Err(_) => tracing::warn!("etcd does not answer: no sessions are taken"),
            }
            sleep(AGAIN).await;
        }
    }

    /// Makes this server known, and learns who is where.
    async fn begin(&mut self) -> Result<Line, StoreError> {
        let granted_at = Instant::now();
        let granted = self.client.lease_grant(LEASE_S, None).await;
        let lease = granted.map_err(failed)?.id();
        let (keeper, answers) = self.client.lease_keep_alive(lease).await.map_err(failed)?;
        let server = self.places().own;
        let holder = Holder { server, lease };
        self.introduce(&holder).await?;
        let all = GetOptions::new().with_prefix();
        let got = self.client.get(self.keys.live(), Some(all)).await;
        let got = got.map_err(failed)?;
        let revision = got
            .header()
            .map_or(0, etcd_client::ResponseHeader::revision);
        let options = WatchOptions::new()
            .with_prefix()
            .with_start_revision(revision + 1);
        let watch = self.client.watch(self.keys.live(), Some(options)).await;
        let watch = watch.map_err(failed)?;
        let mut places = self.places();
        places.clear();
        places.lease = Some(lease);
        for kv in got.kvs() {
            if let Some(live) = self.keys.read(kv.key()) {
                places.put(live, kv.value());
            }
        }
        let told = places.sessions;
        drop(places);
        Ok(Line {
            holder,
            keeper,
            answers,
            watch,
            asked: None,
            prolonged: granted_at,
            told,
        })
    }

    async fn introduce(&mut self, holder: &Holder) -> Result<(), StoreError> {
        let server = {
            let places = self.places();
            Server {
                url: places.url.clone(),
                sessions: places.sessions,
            }
        };
        let text = serde_json::to_vec(&server).map_err(failed)?;
        let lease = PutOptions::new().with_lease(holder.lease);
        let key = self.keys.server(holder.server);
        let put = self.client.put(key, text, Some(lease)).await;
        put.map(drop).map_err(failed)
    }

    /// As long as the lease lasts; then why not, or whom to tell that it is over.
    async fn keep(
        &mut self,
        mut line: Line,
        orders: &mut UnboundedReceiver<Order>,
    ) -> Result<Option<Sender<()>>, StoreError> {
        let (mut beat, mut look) = (interval(BEAT), interval(LOOK));
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if line.prolonged.elapsed() > BELIEF {
                return Err(failed("the lease was not prolonged in time"));
            }
            tokio::select! {
                _ = beat.tick() => {
                    if line.asked.is_none() {
                        line.asked = Some(Instant::now());
                        line.keeper.keep_alive().await.map_err(failed)?;
                    }
                    let sessions = self.places().sessions;
                    if sessions != line.told {
                        line.told = sessions;
                        self.introduce(&line.holder).await?;
                    }
                }
                answer = line.answers.message() => {
                    let answer = answer.map_err(failed)?.ok_or_else(|| failed("it ended"))?;
                    if answer.ttl() <= 0 {
                        return Err(failed("the lease has ended"));
                    }
                    line.prolonged = line.asked.take().unwrap_or(line.prolonged);
                }
                news = line.watch.message() => {
                    let news = news.map_err(failed)?.ok_or_else(|| failed("the watch ended"))?;
                    if news.canceled() {
                        return Err(failed(news.cancel_reason()));
                    }
                    self.learn(&news, &line.holder);
                }
                _ = look.tick() => self.take(&line.holder).await?,
                order = orders.recv() => match order {
                    Some(Order::Release(id)) => self.logs.release(&id, &line.holder).await?,
                    Some(Order::End(done)) => return Ok(Some(done)),
                    None => return Ok(None),
                },
            }
        }
    }

    fn learn(&self, news: &etcd_client::WatchResponse, holder: &Holder) {
        let mut places = self.places();
        for event in news.events() {
            let Some(kv) = event.kv() else { continue };
            let Some(live) = self.keys.read(kv.key()) else {
                continue;
            };
            match event.event_type() {
                EventType::Put => {
                    let other = Keys::server_of(kv.value()) != Some(holder.server);
                    if let (Live::Holder(id), true) = (&live, other) {
                        self.lost(&places, id);
                    }
                    places.put(live, kv.value());
                }
                EventType::Delete => {
                    if let Live::Holder(id) = &live {
                        self.lost(&places, id);
                    }
                    places.delete(&live);
                }
            }
        }
    }

    /// A session is not, or no more, this server's.
    fn lost(&self, places: &Places, id: &SessionId) {
        if places.holders.get(id) == Some(&places.own) {
            // The store ends before this does.
            let _ = self.tell.send(Move::Gone(id.clone()));
        }
    }

    /// Takes free sessions whose turn it is.
    async fn take(&mut self, holder: &Holder) -> Result<(), StoreError> {
        let now = Instant::now();
        let free: BTreeMap<_, _> = {
            let places = self.places();
            let free = places.free().cloned();
            free.map(|id| {
                let wait = TURN * u32::try_from(places.before(&id)).unwrap_or(u32::MAX);
                (id, wait)
            })
            .collect()
        };
        self.free.retain(|id, _| free.contains_key(id));
        let mut due = Vec::new();
        for (id, wait) in free {
            let since = *self.free.entry(id.clone()).or_insert(now);
            if now - since >= wait {
                due.push(id);
            }
        }
        for id in due.into_iter().take(TAKEN_MAX) {
            let epoch = self.logs.next_epoch(0).await?;
            if self.logs.take_over(&id, epoch, holder).await? {
                tracing::info!(%id, epoch, "a session is taken over");
                self.places().holders.insert(id.clone(), holder.server);
                // The store ends before this does.
                let _ = self.tell.send(Move::Come(id.clone()));
            }
            self.free.remove(&id);
        }
        Ok(())
    }

    /// The lease is gone, and with it all that was held.
    fn lose(&self) {
        let mut places = self.places();
        let own = places
            .holders
            .iter()
            .filter(|(_, name)| **name == places.own);
        for (id, _) in own {
            // As above.
            let _ = self.tell.send(Move::Gone(id.clone()));
        }
        places.clear();
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        // Whoever panicked with it has left whole entries.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
