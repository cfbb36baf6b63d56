//! Which server holds which session, and who takes those whose server is gone.
//!
//! Servers and what they hold hang on leases: what a dead one held is free when its lease ends.
//! Each server watches that; the one that stands first for a session takes it, and others if it
//! does not. Two that try have one winner, and the loser's epoch writes nothing: who is first is a
//! matter of speed, not of safety.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{
    EventType, GetOptions, LeaseKeepAliveStream, LeaseKeeper, PutOptions, WatchStream,
};
use sangam_session::SessionId;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::super::{Load, Move, StoreError};
use super::cluster::Cluster;
use super::keys::{Keys, Live};
use super::logs::{Holder, Logs};
use super::places::Places;
use super::take::{Batch, TOGETHER, take};
use super::{PATIENCE, failed};

/// Seconds after which a server that is not heard of is gone. etcd grants no less than two.
const LEASE_S: i64 = 2;
/// How often it is heard of,
const BEAT: Duration = Duration::from_millis(500);
/// and how long it believes in its lease without an answer: less than others do.
const BELIEF: Duration = Duration::from_millis(1_600);
/// How many percent busier or less busy a server is when it says so.
const BUSY_STEP: u64 = 5;
/// How often free sessions are looked for.
const LOOK: Duration = Duration::from_millis(100);
/// How long each server leaves a free session to those that stand before it.
const TURN: Duration = Duration::from_millis(300);
/// How long a session is left alone that could not be read: others may.
const LATER: Duration = Duration::from_secs(5);
/// Before the cluster is asked again after it failed.
const AGAIN: Duration = Duration::from_millis(500);

/// What the hall wants.
pub(super) enum Order {
    /// A session that could not be gone on with is free for whoever can.
    Release(SessionId),
    /// This server ends.
    End(Sender<()>),
}

/// Keeps this server's lease and looks after free sessions.
pub(super) struct Keeper {
    cluster: Cluster,
    keys: Keys,
    logs: Logs,
    places: Arc<Mutex<Places>>,
    tell: Sender<Move>,
    /// A lease that was not prolonged in time, on which sessions may still hang.
    left: Option<i64>,
    /// Since when a session is free.
    free: BTreeMap<SessionId, Instant>,
    /// Until when one is left alone.
    spared: BTreeMap<SessionId, Instant>,
}

/// A lease and a watch.
struct Line {
    holder: Holder,
    keeper: LeaseKeeper,
    answers: LeaseKeepAliveStream,
    watch: WatchStream,
    /// The revision up to which it has told everything.
    known: i64,
    /// Sessions that are being taken: a batch at most.
    taking: JoinSet<Batch>,
    /// When the cluster was asked to prolong the lease, until it answers.
    asked: Option<Instant>,
    /// When it was asked the last time that it answered: the lease has lasted since then at least.
    prolonged: Instant,
    /// What others were told that this server has to do.
    told: Load,
}

impl Keeper {
    pub(super) fn new(
        cluster: Cluster,
        keys: Keys,
        places: Arc<Mutex<Places>>,
        tell: Sender<Move>,
    ) -> Self {
        Self {
            logs: Logs::new(cluster.clone(), keys.clone()),
            cluster,
            keys,
            places,
            tell,
            left: None,
            free: BTreeMap::new(),
            spared: BTreeMap::new(),
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
                    match end {
                        Ok(done) => {
                            // It ends by itself otherwise.
                            let _ = self.cluster.lease_revoke(lease).await;
                            if let Some(done) = done {
                                // Whoever waited may have given up.
                                let _ = done.send(());
                            }
                            return;
                        }
                        Err(error) => {
                            tracing::warn!(%error, "sessions are left to others");
                            self.left = Some(lease);
                        }
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
        if let Some(lease) = self.left {
            // A new leader of the cluster would let it last for seconds.
            self.cluster.lease_revoke(lease).await?;
            self.left = None;
        }
        let granted_at = Instant::now();
        let lease = self.cluster.lease_grant(LEASE_S).await?;
        let (keeper, answers) = self.cluster.lease_keep_alive(lease).await?;
        let server = self.places().own;
        let holder = Holder { server, lease };
        self.introduce(&holder).await?;
        let all = GetOptions::new().with_prefix();
        let got = self.cluster.get(self.keys.live(), Some(all)).await?;
        let known = got
            .header()
            .map_or(0, etcd_client::ResponseHeader::revision);
        let watch = self.cluster.watch(&self.keys.live(), known + 1).await?;
        let mut places = self.places();
        places.clear();
        places.lease = Some(lease);
        for kv in got.kvs() {
            if let Some(live) = self.keys.read(kv.key()) {
                places.put(live, kv.value());
            }
        }
        let told = places.load;
        drop(places);
        Ok(Line {
            holder,
            keeper,
            answers,
            watch,
            known,
            taking: JoinSet::new(),
            asked: None,
            prolonged: granted_at,
            told,
        })
    }

    async fn introduce(&mut self, holder: &Holder) -> Result<(), StoreError> {
        let text = serde_json::to_vec(&self.places().introduction()).map_err(failed)?;
        let lease = PutOptions::new().with_lease(holder.lease);
        let key = self.keys.server(holder.server);
        self.cluster.put(&key, text, lease).await
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
                        // Whoever heard it no more ends the answers too.
                        let _ = line.keeper.keep_alive().await;
                    }
                    let load = self.places().load;
                    let same = load.sessions == line.told.sessions;
                    if !same || load.busy_percent.abs_diff(line.told.busy_percent) >= BUSY_STEP {
                        // It is said again at the next beat if the member that was asked has died.
                        let said = timeout(BEAT, self.introduce(&line.holder)).await;
                        if matches!(said, Ok(Ok(()))) {
                            line.told = load;
                        }
                    }
                }
                answer = line.answers.message() => match answer {
                    Ok(Some(answer)) if answer.ttl() <= 0 => {
                        return Err(failed("the lease has ended"));
                    }
                    Ok(Some(_)) => {
                        line.prolonged = line.asked.take().unwrap_or(line.prolonged);
                    }
                    Ok(None) | Err(_) => self.go_on(&mut line).await?,
                },
                news = line.watch.message() => match news {
                    Ok(Some(news)) if news.canceled() => {
                        return Err(failed(news.cancel_reason()));
                    }
                    Ok(Some(news)) => {
                        self.learn(&news, &line.holder);
                        // Not the header's revision: events up to that may follow.
                        let told = news.events().iter().filter_map(|event| event.kv());
                        let told = told.map(etcd_client::KeyValue::mod_revision);
                        line.known = told.fold(line.known, i64::max);
                    }
                    Ok(None) | Err(_) => self.go_on(&mut line).await?,
                },
                _ = look.tick() => self.take(&mut line),
                Some(ended) = line.taking.join_next(), if !line.taking.is_empty() => {
                    self.took(ended, &line.holder)?;
                    // Whatever is left waits for no look.
                    self.take(&mut line);
                }
                order = orders.recv() => match order {
                    Some(Order::Release(id)) => self.logs.release(&id, &line.holder).await?,
                    Some(Order::End(done)) => return Ok(Some(done)),
                    None => return Ok(None),
                },
            }
        }
    }

    /// The member that prolonged the lease or told the news is gone: another does so, and what is
    /// held stays held, if the lease lasts until then.
    async fn go_on(&self, line: &mut Line) -> Result<(), StoreError> {
        // Who answers and hangs up at once is not asked all the time.
        sleep(LOOK).await;
        let left = BELIEF.saturating_sub(line.prolonged.elapsed());
        let again = async {
            let lease = self.cluster.lease_keep_alive(line.holder.lease).await?;
            let watch = self
                .cluster
                .watch(&self.keys.live(), line.known + 1)
                .await?;
            Ok((lease, watch))
        };
        let again = timeout(left, again).await;
        let again = again.map_err(|_| failed("no other member answers"))?;
        ((line.keeper, line.answers), line.watch) = again?;
        line.asked = None;
        Ok(())
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

    /// Begins to take free sessions whose turn it is, while the lease is looked after.
    fn take(&mut self, line: &mut Line) {
        if !line.taking.is_empty() {
            return;
        }
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
        self.spared.retain(|_, until| *until > now);
        let mut due = Vec::new();
        for (id, wait) in free {
            let since = *self.free.entry(id.clone()).or_insert(now);
            if now - since >= wait && !self.spared.contains_key(&id) {
                due.push((wait, id));
            }
        }
        // First those for which this server stands first: another takes the others.
        due.sort_by_key(|(wait, _)| *wait);
        let ids: Vec<_> = due.into_iter().take(TOGETHER).map(|(_, id)| id).collect();
        if !ids.is_empty() {
            line.taking.spawn(take(self.logs.clone(), ids, line.holder));
        }
    }

    /// Tells the hall what was taken.
    fn took(&mut self, ended: Result<Batch, JoinError>, holder: &Holder) -> Result<(), StoreError> {
        let (epoch, tried) = ended.map_err(failed)??;
        let mut well = Ok(());
        for (id, done) in tried {
            self.free.remove(&id);
            match done {
                Ok(Some(session)) => {
                    tracing::info!(%id, epoch, "a session is taken over");
                    self.places().holders.insert(id, holder.server);
                    // The store ends before this does.
                    let _ = self.tell.send(Move::Come(session, epoch));
                }
                Ok(None) => {
                    // Another has it: the watch will say so.
                    self.spared.insert(id, Instant::now() + TURN);
                }
                Err(error @ StoreError::Corrupt(_)) => {
                    tracing::error!(%error, %id, "a session cannot be taken over");
                    self.spared.insert(id, Instant::now() + LATER);
                }
                // It may be held and not read: it is free again when the lease ends.
                Err(error) => well = Err(error),
            }
        }
        well
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
