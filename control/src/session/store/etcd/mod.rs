//! Many servers, one store: an etcd cluster keeps the logs, says who holds which session, and
//! lets nobody write whom another has followed.

mod cluster;
mod keys;
mod logs;
mod many;
mod place;
mod places;
mod take;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, TlsOptions};
use sangam_model::BrokerId;
use sangam_session::{Record, Session, SessionId};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle, Runtime};

use super::{ControlStore, Listing, Load, Move, ServerSeen, StoreError, Tell, Where};
use cluster::Cluster;
use keys::Keys;
use logs::{Appended, Logs};
use place::Keeper;
use places::Places;

/// How long the cluster may take to answer. Longer than an election of a leader would let the
/// leases end.
const PATIENCE: Duration = Duration::from_secs(2);
const CONNECT: Duration = Duration::from_secs(3);
/// How often a member that sends nothing is asked whether it lives, while it has something to
/// answer. It hangs up on whoever asks more often than each 5 s, or with nothing else to ask.
const KEEP_ALIVE: Duration = Duration::from_secs(6);

/// Where the cluster is, and who this is.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// Its members: `http://host:2379` or `https://host:2379`.
    pub endpoints: Vec<String>,
    /// PEM certificates that its members' are signed by; the system's otherwise.
    pub authorities: Option<PathBuf>,
    /// Name and password.
    pub user: Option<(String, String)>,
    /// All keys begin so; networks that share a cluster have different ones.
    pub prefix: String,
    /// This server's broker.
    pub server: BrokerId,
    /// How members and programs reach this server: `http://host:port`.
    pub url: String,
}

/// A store in etcd. Its leases end with it.
pub struct Etcd {
    /// Of the keeper's thread.
    runtime: Handle,
    logs: Logs,
    places: Arc<Mutex<Places>>,
    /// How sessions will look after the next records.
    looks: BTreeMap<SessionId, Value>,
    moves: mpsc::Receiver<Move>,
    orders: tokio::sync::mpsc::UnboundedSender<place::Order>,
}

impl Etcd {
    /// Connects to the cluster and makes this server known there.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(options: &EtcdOptions) -> Result<Self, StoreError> {
        let (tell, moves) = mpsc::channel();
        let (orders, inbox) = tokio::sync::mpsc::unbounded_channel();
        let (ready, begun) = mpsc::sync_channel(1);
        let wanted = options.clone();
        let thread = thread::Builder::new().name("sangam-etcd".to_owned());
        let run = move || match begin(&wanted) {
            Ok((runtime, cluster)) => {
                let keys = Keys::new(&wanted.prefix);
                let places = Arc::new(Mutex::new(Places::new(&wanted)));
                let logs = Logs::new(cluster.clone(), keys.clone());
                let keeper = Keeper::new(cluster, keys, Arc::clone(&places), tell);
                let open = (runtime.handle().clone(), logs, places);
                // Whoever opens it waits.
                let _ = ready.send(Ok(open));
                runtime.block_on(keeper.run(inbox));
            }
            Err(error) => drop(ready.send(Err(error))),
        };
        thread.spawn(run).map_err(failed)?;
        let (runtime, logs, places) = begun.recv().map_err(failed)??;
        Ok(Self {
            runtime,
            logs,
            places,
            looks: BTreeMap::new(),
            moves,
            orders,
        })
    }

    /// Lets the keeper's thread do something: the caller's may have a runtime of its own.
    fn ask<T: Send + 'static, F>(&self, work: impl FnOnce(Logs) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let (tell, told) = mpsc::sync_channel(1);
        let work = work(self.logs.clone());
        self.runtime.spawn(async move {
            // The caller waits.
            let _ = tell.send(work.await);
        });
        told.recv().map_err(failed)?
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        known(&self.places)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // Others may take over at once.
        let (done, wait) = mpsc::channel();
        if self.orders.send(place::Order::End(done)).is_ok() {
            let _ = wait.recv_timeout(PATIENCE);
        }
    }
}

impl ControlStore for Etcd {
    fn next_epoch(&mut self, floor: u64) -> Result<u64, StoreError> {
        self.ask(|logs| async move { logs.next_epoch(floor).await })
    }

    fn append(&mut self, batch: &[(SessionId, Record)]) -> Result<(), StoreError> {
        let mut looks = std::mem::take(&mut self.looks);
        let of_one = batch.chunk_by(|(one, _), (other, _)| one == other);
        let all = of_one.map(|records| Appended {
            look: records.first().and_then(|(id, _)| looks.remove(id)),
            records: records.to_vec(),
        });
        let all: Vec<_> = all.collect();
        let holder = self.places().holder()?;
        self.ask(move |logs| async move {
            let work = all.into_iter().map(move |appended| {
                let logs = logs.clone();
                async move { logs.append(&appended, &holder).await }
            });
            worst(many::all(work.collect()).await)
        })
    }

    /// None: whose holder is gone comes by [`Self::moves`].
    fn load(&mut self) -> Result<Vec<Session>, StoreError> {
        Ok(Vec::new())
    }

    fn load_one(&mut self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let id = id.clone();
        self.ask(|logs| async move { logs.load(&id).await })
    }

    fn records(
        &mut self,
        id: &SessionId,
        after: u64,
        most: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let id = id.clone();
        self.ask(move |logs| async move { logs.records(&id, after, most).await })
    }

    fn compact(&mut self, session: &Session, keep: u64) -> Result<(), StoreError> {
        let (session, holder) = (session.clone(), self.places().holder()?);
        self.ask(move |logs| async move { logs.compact(&session, keep, &holder).await })
    }

    fn forget(&mut self, id: &SessionId) -> Result<(), StoreError> {
        let holder = self.places().holder()?;
        // Before another of the same name may begin.
        self.places().forget(id);
        let of = id.clone();
        let done = self.ask(move |logs| async move { logs.forget(&of, &holder).await });
        if done.is_err() {
            self.places().keep(id);
        }
        done
    }

    fn claim(&mut self, id: &SessionId, epoch: u64) -> Result<bool, StoreError> {
        let holder = self.places().holder()?;
        let id = id.clone();
        self.ask(move |logs| async move { logs.claim(&id, epoch, &holder).await })
    }

    fn release(&mut self, id: &SessionId) {
        // The keeper ends with this alone.
        let _ = self.orders.send(place::Order::Release(id.clone()));
    }

    fn moves(&mut self, load: Load) -> Vec<Move> {
        self.places().load = load;
        self.moves.try_iter().collect()
    }

    fn place(&self, id: &SessionId) -> Where {
        self.places().of(id)
    }

    fn lighter(&self, load: Load) -> Option<String> {
        self.places().lighter(load)
    }

    fn servers(&self) -> Vec<ServerSeen> {
        self.places().servers()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn outline(&mut self, looks: BTreeMap<SessionId, Value>) {
        self.looks = looks;
    }

    fn list(&mut self, wanted: Listing, tell: Tell) {
        let (logs, places) = (self.logs.clone(), Arc::clone(&self.places));
        self.runtime.spawn(async move {
            let found = logs.list(&wanted).await;
            tell(found.map(|found| {
                let places = known(&places);
                let placed = |(id, mut look): (SessionId, Value)| {
                    // What is no object was not written by a server.
                    let fields = look.as_object_mut()?;
                    if let Some(url) = places.url_of(&id) {
                        fields.insert("server".to_owned(), json!(url));
                    }
                    Some((id.to_string(), look))
                };
                found.into_iter().filter_map(placed).collect()
            }));
        });
    }
}

/// What is known of the other servers.
fn known(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    // Whoever panicked with it has left whole entries.
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One error for all: that sessions are others' matters more than what failed.
fn worst(done: Vec<Result<(), StoreError>>) -> Result<(), StoreError> {
    let (mut lost, mut first) = (Vec::new(), Ok(()));
    for error in done.into_iter().filter_map(Result::err) {
        match error {
            StoreError::Fenced(ids) => lost.extend(ids),
            other => first = first.and(Err(other)),
        }
    }
    match lost.is_empty() {
        true => first,
        false => Err(StoreError::Fenced(lost)),
    }
}

fn begin(options: &EtcdOptions) -> Result<(Runtime, Cluster), StoreError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let cluster = runtime.block_on(connect(options))?;
    Ok((runtime, cluster))
}

async fn connect(options: &EtcdOptions) -> Result<Cluster, StoreError> {
    let mut how = ConnectOptions::new()
        .with_connect_timeout(CONNECT)
        .with_timeout(PATIENCE)
        .with_keep_alive(KEEP_ALIVE, PATIENCE);
    if let Some((name, password)) = &options.user {
        how = how.with_user(name, password);
    }
    if let Some(path) = &options.authorities {
        let read = std::fs::read(path);
        let pem = read.map_err(|error| failed(format!("{}: {error}", path.display())))?;
        how = how.with_tls(TlsOptions::new().ca_certificate(Certificate::from_pem(pem)));
    }
    let client = Client::connect(&options.endpoints, Some(how)).await;
    let cluster = Cluster::new(client.map_err(failed)?);
    // It connects when it is first asked something.
    cluster.get("\0", None).await?;
    Ok(cluster)
}

fn failed(error: impl Display) -> StoreError {
    StoreError::Failed(format!("etcd: {error}"))
}
