//! The thread that holds sessions: it decides, keeps, and only then tells.

mod hall;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use sangam_session::{
    Answer, Input, Joining, MemberId, Plan, Record, Refusal, Session, SessionId, Way,
};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};

use super::gates::Word;
use super::herald::{Herald, Told as ToldNews};
use super::hub::Told;
use super::recorders::{Beat, Listed as ListedRecording};
use super::store::{ControlStore, Listed, Listing, ServerSeen, StoreError};
use hall::Hall;

/// Asks that may wait for the thread.
const ASKS: usize = 16_384;
/// How long to wait when the queue is full.
const FULL: Duration = Duration::from_millis(20);

/// Tells brokers which topics are open.
pub type Tells = Box<dyn FnMut(&[Word]) + Send>;
/// Hears of records that were kept.
pub type Hears = Box<dyn FnMut(&SessionId, &[Record]) + Send>;

/// What a server is started with.
pub struct ServerOptions {
    /// Where sessions are kept.
    pub store: Box<dyn ControlStore>,
    /// Tells brokers which topics are open.
    pub gates: Tells,
    /// Hears of every record that was kept, in order.
    pub heard: Hears,
    /// Tells everybody who has a grant for it on reliable topics.
    pub herald: Option<Herald>,
    /// Sessions it takes at most.
    pub sessions_max: usize,
    /// Ways into every session that is made here without others; see [`Way::of`].
    pub ways: Vec<Way>,
    /// Milliseconds since 1970.
    pub clock: fn() -> u64,
}

/// Why something asked of a server was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// There is no such session.
    NoSession(SessionId),
    /// There is one of this name already.
    Exists(SessionId),
    /// The server at this URL has it, or should.
    Elsewhere(String),
    /// Its server is gone, and another is about to take over.
    Moving(SessionId),
    /// Whether there is such a session, and where, cannot be known now.
    Unknown(SessionId),
    /// The session refuses.
    Refused(Refusal),
    /// A later connection of the same person has joined.
    Replaced,
    /// The server has as many sessions as it may, or as much to do as it can.
    Busy,
    /// What was decided could not be kept, and is void.
    Store(String),
    /// The server is stopping.
    Stopped,
}

/// What a server counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Sessions it holds.
    pub sessions: u64,
    /// Connections of members.
    pub connections: u64,
    /// Records it has written since it started.
    pub records: u64,
    /// Share of its time that it was busy of late, in percent.
    pub busy_percent: u64,
    /// Changes that were refused.
    pub refused: u64,
    /// Events told on reliable topics.
    pub told: u64,
    /// Records that had no room there.
    pub untold: u64,
}

type Reader = Box<dyn FnOnce(Result<&Session, Failure>) + Send>;
type Reply = Box<dyn FnOnce(Result<Answer, Failure>) + Send>;

/// What is asked of the thread.
enum Ask {
    Create(SessionId, Plan, Reply),
    Input(SessionId, Input, Reply),
    Join(SessionId, Joining, u64, Reply),
    Read(SessionId, Reader),
    List(Listing, oneshot::Sender<Result<Listed, Failure>>),
    Records(SessionId, u64, usize, oneshot::Sender<Vec<Record>>),
    Connect(SessionId, MemberId, u64, mpsc::Sender<Told>),
    Disconnect(SessionId, MemberId, u64),
    Forget(SessionId, Reply),
    Beat(String, Box<Beat>, oneshot::Sender<Result<Value, Failure>>),
    Recordings(SessionId, oneshot::Sender<Vec<ListedRecording>>),
    Stop,
}

/// The way to a server's thread; cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    asks: SyncSender<Ask>,
    counters: Arc<Counters>,
}

/// The running thread. Dropping it stops the server; what it holds is in its store.
pub struct Server {
    sessions: Sessions,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Counters {
    sessions: AtomicU64,
    connections: AtomicU64,
    records: AtomicU64,
    busy: AtomicU64,
    refused: AtomicU64,
    next: AtomicU64,
    /// Grows when there may be something for recorders.
    work: watch::Sender<u64>,
    servers: RwLock<Arc<Vec<ServerSeen>>>,
    news: Arc<ToldNews>,
}

impl Counters {
    /// The servers that share the store, as it knows them now.
    fn know(&self, servers: Vec<ServerSeen>) {
        // What is in it is replaced as a whole.
        let mut known = self.servers.write().unwrap_or_else(PoisonError::into_inner);
        if **known != servers {
            *known = Arc::new(servers);
        }
    }
}

impl Server {
    /// Takes over what the store holds, and serves.
    ///
    /// # Errors
    /// The store cannot be read, or the system gives no thread.
    pub fn start(mut options: ServerOptions) -> Result<Self, StoreError> {
        let epoch = options.store.next_epoch((options.clock)() / 1_000)?;
        let sessions = options.store.load()?;
        let (asks, inbox) = sync_channel(ASKS);
        let news = options.herald.as_ref().map(Herald::told);
        let counters = Arc::new(Counters {
            news: news.unwrap_or_default(),
            ..Counters::default()
        });
        let hall = Hall::new(options, epoch, Arc::clone(&counters), sessions);
        let thread = std::thread::Builder::new().name("sangam-session".to_owned());
        let thread = thread.spawn(move || hall.run(&inbox));
        let thread = thread.map_err(|error| StoreError::Failed(error.to_string()))?;
        Ok(Self {
            sessions: Sessions { asks, counters },
            thread: Some(thread),
        })
    }

    /// The way to it.
    #[must_use]
    pub fn sessions(&self) -> Sessions {
        self.sessions.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A thread that has panicked has said so.
        let _ = self.sessions.asks.send(Ask::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the session server had panicked");
        }
    }
}

impl Sessions {
    /// Makes a session.
    ///
    /// # Errors
    /// [`Failure::Exists`], [`Failure::Elsewhere`], [`Failure::Busy`], [`Failure::Refused`],
    /// [`Failure::Store`].
    pub async fn create(&self, id: SessionId, plan: Plan) -> Result<(), Failure> {
        let ask = |reply| Ask::Create(id, plan, reply);
        self.ask(ask).await.map(drop)
    }

    /// Asks something of a session; done once it is kept.
    ///
    /// # Errors
    /// [`Failure::NoSession`], [`Failure::Elsewhere`], [`Failure::Moving`], [`Failure::Refused`],
    /// [`Failure::Store`].
    pub async fn input(&self, id: &SessionId, input: Input) -> Result<Answer, Failure> {
        let id = id.clone();
        self.ask(|reply| Ask::Input(id, input, reply)).await
    }

    /// Lets somebody in by a connection, unless a later one of the same identity was let in
    /// before: this one was given up then, and must not end that one. The number is of
    /// [`Self::connection_number`].
    ///
    /// # Errors
    /// As [`Self::input`], and [`Failure::Replaced`].
    pub async fn join(
        &self,
        id: &SessionId,
        joining: Joining,
        number: u64,
    ) -> Result<Answer, Failure> {
        let id = id.clone();
        self.ask(|reply| Ask::Join(id, joining, number, reply))
            .await
    }

    /// Forgets a session that is over.
    ///
    /// # Errors
    /// [`Failure::NoSession`], [`Failure::Refused`] while it is not over.
    pub async fn forget(&self, id: &SessionId) -> Result<(), Failure> {
        let id = id.clone();
        self.ask(|reply| Ask::Forget(id, reply)).await.map(drop)
    }

    /// Reads from a session.
    ///
    /// # Errors
    /// [`Failure::NoSession`].
    pub async fn read<T: Send + 'static>(
        &self,
        id: &SessionId,
        read: impl FnOnce(&Session) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (answer, answered) = oneshot::channel();
        let reader = Box::new(move |session: Result<&Session, Failure>| {
            // Whoever asked may have given up.
            let _ = answer.send(session.map(read));
        });
        self.send(Ask::Read(id.clone(), reader))?;
        answered.await.map_err(|_| Failure::Stopped)?
    }

    /// Sessions of all servers that share the store, by `tenant/name`; those of others as they
    /// looked when they changed last.
    ///
    /// # Errors
    /// [`Failure::Store`], [`Failure::Stopped`], [`Failure::Busy`].
    pub async fn list(&self, wanted: Listing) -> Result<Listed, Failure> {
        let (answer, answered) = oneshot::channel();
        self.send(Ask::List(wanted, answer))?;
        answered.await.unwrap_or(Err(Failure::Stopped))
    }

    /// The servers that share the store, this one first; none if nobody shares it. Some seconds
    /// old at most.
    #[must_use]
    pub fn servers(&self) -> Arc<Vec<ServerSeen>> {
        // As above.
        let known = self.counters.servers.read();
        Arc::clone(&known.unwrap_or_else(PoisonError::into_inner))
    }

    /// Records of a session after a number; those that are kept no more are left out.
    ///
    /// # Errors
    /// [`Failure::Stopped`], [`Failure::Busy`].
    pub async fn records(
        &self,
        id: &SessionId,
        after: u64,
        most: usize,
    ) -> Result<Vec<Record>, Failure> {
        let (answer, answered) = oneshot::channel();
        self.send(Ask::Records(id.clone(), after, most, answer))?;
        answered.await.map_err(|_| Failure::Stopped)
    }

    /// Takes what a recorder says; what it has to do, as a document.
    ///
    /// # Errors
    /// [`Failure::Busy`] if there are too many recorders, [`Failure::Stopped`].
    pub async fn beat(&self, recorder: &str, beat: Beat) -> Result<Value, Failure> {
        let (answer, answered) = oneshot::channel();
        self.send(Ask::Beat(recorder.to_owned(), Box::new(beat), answer))?;
        answered.await.unwrap_or(Err(Failure::Stopped))
    }

    /// The recordings of a session that recorders have told of, the oldest first.
    ///
    /// # Errors
    /// [`Failure::Stopped`], [`Failure::Busy`].
    pub async fn recordings(&self, id: &SessionId) -> Result<Vec<ListedRecording>, Failure> {
        let (answer, answered) = oneshot::channel();
        self.send(Ask::Recordings(id.clone(), answer))?;
        answered.await.map_err(|_| Failure::Stopped)
    }

    /// Tells of a greater number whenever there may be something for recorders.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.counters.work.subscribe()
    }

    /// The number of a connection that begins: of several of one member the last to begin stays,
    /// in whatever order they are let in.
    #[must_use]
    pub fn connection_number(&self) -> u64 {
        self.counters.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Connects a member: it is told of everything from now on. The number is of
    /// [`Self::connection_number`].
    ///
    /// # Errors
    /// [`Failure::Stopped`], [`Failure::Busy`].
    pub fn connect(
        &self,
        id: &SessionId,
        member: MemberId,
        number: u64,
        sink: mpsc::Sender<Told>,
    ) -> Result<(), Failure> {
        self.send(Ask::Connect(id.clone(), member, number, sink))
    }

    /// A connection is gone, or did not come about.
    pub async fn disconnect(&self, id: &SessionId, member: MemberId, number: u64) {
        let mut ask = Ask::Disconnect(id.clone(), member, number);
        // A full queue is no reason to keep a member that is gone.
        while let Err(TrySendError::Full(back)) = self.asks.try_send(ask) {
            tokio::time::sleep(FULL).await;
            ask = back;
        }
    }

    /// What was counted.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let counters = &self.counters;
        Statistics {
            sessions: counters.sessions.load(Ordering::Relaxed),
            connections: counters.connections.load(Ordering::Relaxed),
            records: counters.records.load(Ordering::Relaxed),
            busy_percent: counters.busy.load(Ordering::Relaxed),
            refused: counters.refused.load(Ordering::Relaxed),
            told: counters.news.events.load(Ordering::Relaxed),
            untold: counters.news.lost.load(Ordering::Relaxed),
        }
    }

    async fn ask(&self, ask: impl FnOnce(Reply) -> Ask) -> Result<Answer, Failure> {
        let (answer, answered) = oneshot::channel();
        self.send(ask(Box::new(|done| {
            // Whoever asked may have given up.
            let _ = answer.send(done);
        })))?;
        answered.await.unwrap_or(Err(Failure::Stopped))
    }

    fn send(&self, ask: Ask) -> Result<(), Failure> {
        self.asks.try_send(ask).map_err(|error| match error {
            TrySendError::Full(_) => Failure::Busy,
            TrySendError::Disconnected(_) => Failure::Stopped,
        })
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSession(id) => write!(f, "there is no session {id}"),
            Self::Exists(id) => write!(f, "there is a session {id} already"),
            Self::Elsewhere(url) => write!(f, "the server at {url} does that"),
            Self::Moving(id) => write!(f, "the session {id} is being taken over"),
            Self::Unknown(id) => write!(f, "it cannot be known now which server has {id}"),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Replaced => f.write_str("you have joined by a later connection"),
            Self::Busy => f.write_str("the session server has as much to do as it can"),
            Self::Store(why) => write!(f, "nothing was changed: {why}"),
            Self::Stopped => f.write_str("the session server is stopping"),
        }
    }
}

impl std::error::Error for Failure {}

/// Milliseconds since 1970 by the system's clock.
#[must_use]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let ms = since.unwrap_or_default().as_millis();
    u64::try_from(ms).unwrap_or(u64::MAX)
}
