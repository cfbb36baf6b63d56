//! Listeners, and the connections that come by them.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use sangam_io::poll::{Interest, Poller};
use sangam_io::tcp;
use sangam_io::tls::{ServerConfig, TlsStream};
use sangam_model::Time;

use crate::connection::Connection;
use crate::server::Settings;
use crate::turn::Engine;
use crate::wire::Wire;

/// Connections accepted before others have their turn.
const ACCEPTS_MAX: usize = 64;

/// What connections by TLS are begun with; a newer one holds for new connections.
pub(crate) type Certificate = Arc<Mutex<Option<Arc<ServerConfig>>>>;

/// All listeners, whose tokens are their places.
#[derive(Debug)]
pub(crate) struct Listeners {
    plain: Vec<TcpListener>,
    secure: Vec<TcpListener>,
    certificate: Certificate,
    /// Whether the poller looks at them.
    watched: bool,
}

impl Listeners {
    /// Listens.
    pub(crate) fn open(
        settings: &Settings,
        certificate: Certificate,
        poller: &Poller,
    ) -> io::Result<Self> {
        let open = |addresses: &[SocketAddr]| -> io::Result<Vec<_>> {
            addresses.iter().map(listen).collect()
        };
        let mut listeners = Self {
            plain: open(&settings.listen)?,
            secure: open(&settings.listen_tls)?,
            certificate,
            watched: false,
        };
        listeners.watch(poller, true)?;
        Ok(listeners)
    }

    /// Where it listens, without and with TLS.
    pub(crate) fn addresses(&self) -> io::Result<[Vec<SocketAddr>; 2]> {
        let addresses = |all: &[TcpListener]| -> io::Result<Vec<_>> {
            all.iter().map(TcpListener::local_addr).collect()
        };
        Ok([addresses(&self.plain)?, addresses(&self.secure)?])
    }

    /// Looks at the listeners, or leaves them alone.
    fn watch(&mut self, poller: &Poller, wanted: bool) -> io::Result<()> {
        if wanted == self.watched {
            return Ok(());
        }
        self.watched = wanted;
        for (token, listener) in (0..).zip(self.plain.iter().chain(&self.secure)) {
            match wanted {
                true => poller.add(listener.as_fd(), token, Interest::Read)?,
                false => poller.remove(listener.as_fd())?,
            }
        }
        Ok(())
    }

    /// The next connection by the listener in this place.
    fn accept(&self, place: usize) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        let listener = self.plain.iter().chain(&self.secure).nth(place);
        listener.map_or(Ok(None), tcp::accept)
    }

    /// A connection by the listener in this place; `None` if it cannot be had.
    fn wire(&self, place: usize, socket: TcpStream) -> Option<Wire> {
        if place < self.plain.len() {
            return Some(Wire::Plain(socket));
        }
        let certificate = self.certificate.lock();
        let certificate = certificate.unwrap_or_else(PoisonError::into_inner);
        let tls = TlsStream::accept(socket, certificate.clone()?);
        let tls = tls.inspect_err(|error| tracing::error!(%error, "no TLS for RTSP"));
        tls.ok().map(|tls| Wire::Secure(Box::new(tls)))
    }
}

fn listen(address: &SocketAddr) -> io::Result<TcpListener> {
    if address.port() != 0 {
        tcp::is_free(*address)?;
    }
    tcp::listen(*address)
}

impl Engine {
    /// Takes connections of the listener with this token.
    pub(crate) fn accept(&mut self, token: u64, now: Time) {
        let Ok(place) = usize::try_from(token) else {
            return;
        };
        for _ in 0..ACCEPTS_MAX {
            match self.listeners.accept(place) {
                Ok(Some((socket, peer))) => {
                    let ip = peer.ip();
                    let all = self.connections.values();
                    let own = all.filter(|known| known.peer.ip() == ip).count();
                    let is_full = self.connections.len() >= self.settings.connections_max;
                    if is_full || own >= self.settings.per_address {
                        self.counts.connections_refused.one();
                        continue;
                    }
                    let Some(wire) = self.listeners.wire(place, socket) else {
                        self.counts.connections_refused.one();
                        continue;
                    };
                    let Ok(connection) = Connection::new(wire, peer, now) else {
                        continue;
                    };
                    let number = self.number();
                    let fd = connection.fd();
                    if self.poller.add(fd, number, Interest::Read).is_err() {
                        self.counts.connections_refused.one();
                        continue;
                    }
                    self.counts.connections.one();
                    self.connections.insert(number, connection);
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "no RTSP connection is accepted for a second");
                    self.counts.connections_refused.one();
                    return self.listen(false);
                }
            }
        }
    }

    /// Looks at the listeners, or leaves them alone until the next sweep: what cannot be accepted
    /// waits in the kernel, and would keep the thread awake.
    pub(crate) fn listen(&mut self, wanted: bool) {
        if let Err(error) = self.listeners.watch(&self.poller, wanted) {
            tracing::error!(%error, "an RTSP listener is lost");
        }
    }
}
