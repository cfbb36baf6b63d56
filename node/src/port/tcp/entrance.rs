//! Where streams come in, and how they begin.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, BorrowedFd};

use sangam_io::stream::{Framed, OutLimits};
use sangam_io::tcp::accept;
use sangam_wire::Hello;

use crate::certificate::Certificate;
use crate::config::Transport;
use crate::lane::{Caller, Reception};

/// A listener and what is spoken there.
#[derive(Debug)]
pub(crate) struct Entrance {
    pub(crate) listener: TcpListener,
    pub(crate) transport: Transport,
    pub(crate) certificate: Certificate,
    /// Where neighbours go.
    pub(crate) reception: Reception,
}

/// Somebody who came, or `None` if the opening cannot even begin.
pub(super) type Arrival = (Option<Framed>, SocketAddr);

impl Entrance {
    /// Hands a neighbour over to the lane; whether that takes it.
    pub(super) fn hand_over(&self, framed: Framed, (hello, address): (Hello, SocketAddr)) -> bool {
        let caller = Caller {
            framed,
            hello,
            address,
            transport: self.transport,
        };
        self.reception.hand_over(caller)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// The next who waits.
    ///
    /// # Errors
    /// No descriptor is left, or the listener failed.
    pub(super) fn next(&self, limits: OutLimits) -> io::Result<Option<Arrival>> {
        let Some((stream, address)) = accept(&self.listener)? else {
            return Ok(None);
        };
        let framed = match self.certificate.opening(self.transport) {
            Some(opening) => Framed::accept(stream, &opening, limits),
            None => return Ok(Some((None, address))),
        };
        let framed = framed.inspect_err(|error| tracing::warn!(%error, "a stream cannot begin"));
        Ok(Some((framed.ok(), address)))
    }
}
