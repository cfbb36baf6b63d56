//! A stream that is dialled: from the first packet of TCP, through a proxy, TLS and HTTP, to units.

use core::time::Duration;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};

use sangam_model::Time;

use super::error::FramedError;
use super::framed::{Framed, OutLimits, Progress};
use super::opening::{Dial, Proxy, Tunnel};
use crate::poll::{Interest, Poller};
use crate::tcp::connect;

/// How long a connection may take to open, proxy, TLS and HTTP included; the kernel alone would
/// try for two minutes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a stream is dialled, and what is spoken there.
#[derive(Clone, Debug)]
pub struct Way {
    /// Of the peer, or of the proxy; tried in turn. At least one.
    pub addresses: Vec<SocketAddr>,
    /// Through which it is reached.
    pub proxy: Option<Proxy>,
    /// What comes before units.
    pub dial: Dial,
}

/// A stream from its first packet on.
#[derive(Debug)]
pub struct Connection {
    phase: Phase,
    /// When to give up opening it; `None` once it is open.
    opening: Option<Time>,
    /// The poller tells when there is room to write.
    writing: bool,
}

/// How far a connection is.
#[derive(Debug)]
enum Phase {
    Connecting(TcpStream),
    /// The proxy is asked.
    Tunnel(Tunnel),
    /// TLS and HTTP, then units.
    Units(Box<Framed>),
}

impl Connection {
    /// Begins to dial the address whose turn it is. Watch it for [`Interest::ReadWrite`].
    ///
    /// # Errors
    /// What can be known at once: no descriptor, no route.
    pub fn dial(way: &Way, turn: usize, now: Time) -> io::Result<Self> {
        let address = way.addresses[turn % way.addresses.len()];
        Ok(Self {
            phase: Phase::Connecting(connect(address)?),
            opening: Some(now + PATIENCE),
            writing: true,
        })
    }

    /// A stream whose units flow already. Watch it for [`Interest::Read`].
    #[must_use]
    pub fn over(framed: Framed) -> Self {
        Self {
            phase: Phase::Units(Box::new(framed)),
            opening: None,
            writing: false,
        }
    }

    /// The descriptor, for a poller.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.phase {
            Phase::Connecting(socket) => socket.as_fd(),
            Phase::Tunnel(tunnel) => tunnel.socket().as_fd(),
            Phase::Units(framed) => framed.fd(),
        }
    }

    /// When to give it up, unless it is open by then.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.opening
    }

    /// What it waited for, once its deadline has passed.
    #[must_use]
    pub fn overdue(&self) -> &'static str {
        match self.phase {
            Phase::Connecting(_) => "the connection does not open",
            Phase::Tunnel(_) => "the proxy does not answer",
            Phase::Units(_) => "the broker does not finish TLS or HTTP",
        }
    }

    /// The stream, once units flow.
    pub fn framed(&mut self) -> Option<&mut Framed> {
        match &mut self.phase {
            Phase::Units(framed) if framed.is_open() => Some(framed),
            _ => None,
        }
    }

    /// Opens it as far as the socket allows; of no effect once it is open.
    ///
    /// # Errors
    /// Why it does not open.
    pub fn advance(mut self, way: &Way, limits: OutLimits) -> Result<Self, FramedError> {
        self.phase = match self.phase {
            Phase::Connecting(socket) => match (socket.take_error()?, &way.proxy) {
                (Some(error), _) => return Err(error.into()),
                (None, Some(proxy)) => Phase::Tunnel(Tunnel::new(socket, proxy)),
                (None, None) => units(socket, way, limits)?,
            },
            phase => phase,
        };
        self.phase = match self.phase {
            Phase::Tunnel(mut tunnel) => match tunnel.advance()? {
                true => units(tunnel.into_socket(), way, limits)?,
                false => Phase::Tunnel(tunnel),
            },
            phase => phase,
        };
        if self.opening.is_some() {
            // Before anything is read: a broker says nothing before it is spoken to.
            self.write()?;
        }
        Ok(self)
    }

    /// Hands every whole unit that has arrived to `unit`; before units flow, goes on opening.
    ///
    /// # Errors
    /// Whatever ends the stream.
    pub fn read(&mut self, unit: impl FnMut(&[u8])) -> Result<Progress, FramedError> {
        match &mut self.phase {
            Phase::Units(framed) => framed.read_units(unit),
            Phase::Connecting(_) | Phase::Tunnel(_) => Ok(Progress::Idle),
        }
    }

    /// Whether it has opened since this was asked last.
    pub fn has_opened(&mut self) -> bool {
        self.framed().is_some() && self.opening.take().is_some()
    }

    /// Writes what the kernel takes; whether it waits for room.
    ///
    /// # Errors
    /// Whatever ends the stream.
    pub fn write(&mut self) -> Result<bool, FramedError> {
        match &mut self.phase {
            Phase::Connecting(_) => Ok(true),
            Phase::Tunnel(tunnel) => Ok(tunnel.is_asking()),
            Phase::Units(framed) => framed.write().map(|done| !done),
        }
    }

    /// Has the poller tell of room to write, or not.
    ///
    /// # Errors
    /// The descriptor is not watched by this poller.
    pub fn watch(&mut self, writing: bool, poller: &Poller, token: u64) -> io::Result<()> {
        if self.writing == writing {
            return Ok(());
        }
        self.writing = writing;
        poller.modify(self.fd(), token, self.interest())
    }

    /// What the poller is to tell of it.
    #[must_use]
    pub fn interest(&self) -> Interest {
        match self.writing {
            true => Interest::ReadWrite,
            false => Interest::Read,
        }
    }
}

fn units(socket: TcpStream, way: &Way, limits: OutLimits) -> Result<Phase, FramedError> {
    let framed = Framed::dial(socket, &way.dial, limits)?;
    Ok(Phase::Units(Box::new(framed)))
}
