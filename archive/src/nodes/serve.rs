//! Answers other nodes.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use super::handshake::Key;
use super::message::{Reply, Request, Standing, read, write};
use super::remote::to_bytes;
use crate::blocks::{BlockDisk, PieceId};
use crate::films::{FilmError, Films};

/// Connections at once: eight of each of so many nodes; beyond, they are closed.
const CONNECTIONS_MAX: usize = 512;
/// Whoever does not show its key in so long is closed.
const KEY_WAIT: Duration = Duration::from_secs(2);
/// An answer that is not taken for so long ends a connection.
const UNREAD_WAIT: Duration = Duration::from_secs(10);
/// After a failed accept.
const REST: Duration = Duration::from_millis(100);

/// What else a node does for others: it sends films.
pub trait Desk: Send + Sync {
    /// What it says of itself, to a node or, from 0, to a command.
    fn standing(&self, from: u32) -> Value;

    /// Does what a node asks for.
    ///
    /// # Errors
    /// Why it cannot be done.
    fn order(&self, from: u32, order: Value) -> Result<Value, String>;
}

/// What came from others.
#[derive(Debug, Default)]
pub struct Seen {
    /// Connections.
    pub connections: AtomicU64,
    /// Connections closed: another key, no key, or too many.
    pub refused: AtomicU64,
    /// Questions.
    pub requests: AtomicU64,
    /// Questions that could not be answered.
    pub failed: AtomicU64,
    /// Bytes of blocks that others got.
    pub bytes: AtomicU64,
}

/// The thread that listens, and one for each connection.
#[derive(Debug)]
pub struct NodeServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    films: Arc<Films>,
    key: Key,
    desk: Arc<dyn Desk>,
    seen: Arc<Seen>,
    stop: AtomicBool,
    open: Mutex<HashMap<u64, TcpStream>>,
}

impl core::fmt::Debug for Shared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl NodeServer {
    /// Listens for nodes that have the key.
    ///
    /// # Errors
    /// The address is in use or not of this host, or there is no thread.
    pub fn start(
        listen: SocketAddr,
        films: Arc<Films>,
        key: Key,
        desk: Arc<dyn Desk>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            films,
            key,
            desk,
            seen: Arc::default(),
            stop: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let thread = thread::Builder::new().name("sangam-nodes".to_owned());
        let at = shared.clone();
        let thread = thread.spawn(move || at.listen(&listener))?;
        Ok(Self {
            address,
            shared,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What came from others.
    #[must_use]
    pub fn seen(&self) -> Arc<Seen> {
        self.shared.seen.clone()
    }
}

impl Drop for NodeServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for stream in self.shared.open().values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // It waits for a connection: this is one.
        let _ = TcpStream::connect_timeout(&self.address, REST);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread for other nodes had panicked");
        }
    }
}

impl Shared {
    fn listen(self: &Arc<Self>, listener: &TcpListener) {
        for (number, stream) in (0_u64..).zip(listener.incoming()) {
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            let stream = match stream {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a node is not let in");
                    thread::park_timeout(REST);
                    continue;
                }
            };
            self.seen.connections.fetch_add(1, Ordering::Relaxed);
            let has_room = self.open().len() < CONNECTIONS_MAX;
            let Some(kept) = stream.try_clone().ok().filter(|_| has_room) else {
                self.seen.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            self.open().insert(number, kept);
            let at = self.clone();
            let thread = thread::Builder::new().name("sangam-node".to_owned());
            let started = thread.spawn(move || {
                at.serve(stream);
                at.open().remove(&number);
            });
            if let Err(error) = started {
                tracing::warn!(%error, "a node is not let in");
                self.open().remove(&number);
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: TcpStream) {
        let peer = stream.peer_addr().ok();
        let prepared = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(KEY_WAIT)))
            .and_then(|()| stream.set_write_timeout(Some(UNREAD_WAIT)))
            .and_then(|()| self.key.answer(&mut stream))
            .and_then(|()| stream.set_read_timeout(None));
        if let Err(error) = prepared {
            if !self.stop.load(Ordering::Acquire) {
                self.seen.refused.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(?peer, %error, "somebody who is no node of this archive");
            }
            return;
        }
        loop {
            let (request, data) = match read::<Request>(&mut stream) {
                Ok(read) => read,
                Err(error) => {
                    if error.kind() == ErrorKind::InvalidData {
                        tracing::warn!(?peer, %error, "a node says what nobody understands");
                    }
                    return;
                }
            };
            self.seen.requests.fetch_add(1, Ordering::Relaxed);
            let (reply, data) = self.answer(request, data);
            if matches!(reply, Reply::Failed { .. }) {
                self.seen.failed.fetch_add(1, Ordering::Relaxed);
            }
            self.seen
                .bytes
                .fetch_add(data.len() as u64, Ordering::Relaxed);
            if write(&mut stream, &reply, &data).is_err() {
                return;
            }
        }
    }

    fn answer(&self, request: Request, data: Vec<u8>) -> (Reply, Vec<u8>) {
        let films = &self.films;
        let answered = match request {
            Request::Standing { from } => self.standing(from).map(plain),
            Request::Roster => films.roster_text().map(with),
            Request::Renew => films.take_roster(&data).map(|_| plain(Reply::Done)),
            Request::Join { address, weight } => films
                .let_join(&address, weight)
                .map(|(node, disk, text)| (Reply::Joined { node, disk }, text)),
            Request::Films => films
                .numbers()
                .map(|numbers| with(numbers.into_iter().flat_map(u64::to_be_bytes).collect())),
            Request::Index { film } => films.index_text(film).map(|text| match text {
                Some(text) => with(text),
                None => plain(Reply::Missing),
            }),
            Request::Learn { film } => films.learn_index(film, &data).map(|()| plain(Reply::Done)),
            Request::Lease { node } => films.lease(node).map(|so| plain(Reply::Is { so })),
            Request::Putting => films.is_putting().map(|so| plain(Reply::Is { so })),
            Request::Desk { from, order } => {
                return match self.desk.order(from, order) {
                    Ok(said) => plain(Reply::Desk { said }),
                    Err(why) => plain(Reply::Failed { why }),
                };
            }
            Request::Get { disk, piece } => self.on(disk, |disk| disk.get(piece).map(with)),
            Request::Put { disk, piece } => self.put(disk, piece, &data),
            Request::Remove {
                disk,
                piece,
                changes,
            } => self.remove((disk, changes), piece),
            Request::List { disk } => self.on(disk, |disk| {
                let pieces = disk.list()?;
                Ok(with(pieces.into_iter().flat_map(to_bytes).collect()))
            }),
        };
        answered.unwrap_or_else(|error| {
            let why = error.to_string();
            plain(Reply::Failed { why })
        })
    }

    fn standing(&self, from: u32) -> Result<Reply, FilmError> {
        Ok(Reply::Standing(Standing {
            node: self.films.own_node(),
            edition: self.films.roster()?.edition,
            films: self.films.numbers()?.len() as u64,
            desk: self.desk.standing(from),
        }))
    }

    /// Something with a disk of this node.
    fn on(
        &self,
        disk: u32,
        act: impl FnOnce(&dyn BlockDisk) -> io::Result<(Reply, Vec<u8>)>,
    ) -> Result<(Reply, Vec<u8>), FilmError> {
        let done = self.films.own_disk(disk).and_then(|disk| act(&*disk));
        match done {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(plain(Reply::Missing)),
            done => done.map_err(|error| FilmError::Io(format!("disk {disk}"), error)),
        }
    }

    /// Whoever clears up keeps away meanwhile.
    fn put(&self, disk: u32, piece: PieceId, data: &[u8]) -> Result<(Reply, Vec<u8>), FilmError> {
        let _lock = self.films.share()?;
        self.on(disk, |disk| {
            disk.put(piece, data).map(|()| plain(Reply::Done))
        })
    }

    /// Not by disks of before: what another node moved there since belongs there.
    fn remove(
        &self,
        (disk, changes): (u32, u64),
        piece: PieceId,
    ) -> Result<(Reply, Vec<u8>), FilmError> {
        if changes < self.films.roster()?.changes {
            let why = "the disks were changed since".to_owned();
            return Ok(plain(Reply::Failed { why }));
        }
        self.on(disk, |disk| disk.remove(piece).map(|()| plain(Reply::Done)))
    }
}

const fn plain(reply: Reply) -> (Reply, Vec<u8>) {
    (reply, Vec::new())
}

const fn with(data: Vec<u8>) -> (Reply, Vec<u8>) {
    (Reply::Done, data)
}
