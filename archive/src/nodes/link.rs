//! The way to another node.

use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::handshake::Key;
use super::message::{Reply, Request, read, write};

/// A node in the same network is reached sooner, or it is away.
const CONNECT_WAIT: Duration = Duration::from_millis(700);
/// A disk that takes longer counts as away as well.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// The same for what a player waits for.
const READ_WAIT: Duration = Duration::from_millis(1_500);
/// A node that says nothing for so long is away: others take its place.
const ALIVE_WAIT: Duration = Duration::from_millis(600);
/// A node that was not reached is not tried again for so long: readers look elsewhere at once.
const AWAY: Duration = Duration::from_secs(1);
/// Connections kept for the next question.
const IDLE_MAX: usize = 8;

/// Asks one other node; as many at once as there are threads that ask.
#[derive(Debug)]
pub struct Link {
    address: String,
    key: Key,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    idle: Vec<TcpStream>,
    /// When it was not reached.
    away: Option<Instant>,
}

impl Link {
    /// To a node at HOST:PORT; it is connected to when it is asked something.
    #[must_use]
    pub fn new(address: &str, key: Key) -> Self {
        Self {
            address: address.to_owned(),
            key,
            inner: Mutex::default(),
        }
    }

    /// Where it leads.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Asks, and waits for the answer and its data.
    ///
    /// # Errors
    /// [`ErrorKind::NotConnected`] if the node is away, [`ErrorKind::PermissionDenied`] if it has
    /// another key, [`ErrorKind::NotFound`] if what is asked for is not there.
    pub fn ask(&self, request: &Request, data: &[u8]) -> io::Result<(Reply, Vec<u8>)> {
        let mut tries = self.take();
        let may_look_elsewhere = matches!(request, Request::Get { .. });
        if tries.is_none() && may_look_elsewhere && self.is_away() {
            return Err(ErrorKind::NotConnected.into());
        }
        loop {
            let was_idle = tries.is_some();
            let stream = match tries.take() {
                Some(stream) => stream,
                None => self.connect()?,
            };
            match converse(stream, request, data) {
                Ok((stream, reply, data)) => {
                    self.keep(stream);
                    return understood(reply, data);
                }
                // The node was started anew since.
                Err(error) if was_idle && is_broken(&error) => {}
                Err(error) => {
                    self.inner().away = Some(Instant::now());
                    return Err(error);
                }
            }
        }
    }

    /// The data of an answer that says no more.
    ///
    /// # Errors
    /// As [`Link::ask`].
    pub fn data(&self, request: &Request) -> io::Result<Vec<u8>> {
        self.ask(request, &[]).map(|(_, data)| data)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let connected = self.dial();
        self.inner().away = match &connected {
            Ok(_) => None,
            Err(_) => Some(Instant::now()),
        };
        connected.map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::InvalidData | ErrorKind::InvalidInput => error,
            _ => io::Error::new(
                ErrorKind::NotConnected,
                format!("{}: {error}", self.address),
            ),
        })
    }

    fn dial(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::from(ErrorKind::NotFound);
        for address in self.address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_WAIT) {
                Ok(mut stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(CONNECT_WAIT))?;
                    stream.set_write_timeout(Some(ANSWER_WAIT))?;
                    self.key.call(&mut stream)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn is_away(&self) -> bool {
        self.inner()
            .away
            .is_some_and(|since| since.elapsed() < AWAY)
    }

    fn take(&self) -> Option<TcpStream> {
        self.inner().idle.pop()
    }

    fn keep(&self, stream: TcpStream) {
        let mut inner = self.inner();
        inner.away = None;
        if inner.idle.len() < IDLE_MAX {
            inner.idle.push(stream);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn converse(
    mut stream: TcpStream,
    request: &Request,
    data: &[u8],
) -> io::Result<(TcpStream, Reply, Vec<u8>)> {
    let wait = match request {
        Request::Standing { .. } | Request::Desk { .. } => ALIVE_WAIT,
        Request::Get { .. } => READ_WAIT,
        _ => ANSWER_WAIT,
    };
    stream.set_read_timeout(Some(wait))?;
    write(&mut stream, request, data)?;
    let (reply, data) = read(&mut stream)?;
    Ok((stream, reply, data))
}

fn understood(reply: Reply, data: Vec<u8>) -> io::Result<(Reply, Vec<u8>)> {
    match reply {
        Reply::Missing => Err(ErrorKind::NotFound.into()),
        Reply::Failed { why } => Err(io::Error::other(why)),
        reply => Ok((reply, data)),
    }
}

/// Whether a connection ended, rather than that an answer did not come.
fn is_broken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
    )
}
