//! ICE by TCP (RFC 6544), the way for peers whose network lets no UDP pass: units behind a 16-bit
//! length (RFC 4571). A connection belongs to the shard of the peer that its first unit names.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use sangam_io::poll::Interest;
use sangam_io::port::{Context, PeerKey, Peers};
use sangam_io::stream::{Framed, OutLimits, Progress};
use sangam_io::tcp;
use sangam_model::Time;
use str0m::net::Protocol;

use crate::counts::Counts;
use crate::credentials;
use crate::inbound::Inbound;
use crate::places::Places;
use crate::port::{CONNECTIONS, LISTENERS, WebRtcPort};
use crate::table::Note;

/// Connections of one shard that belong to nobody yet.
const STRANGERS: usize = 256;
/// How long one may stay so.
const NAME_WITHIN: Duration = Duration::from_secs(5);
/// What may wait for a peer that does not read: a second of a good video. Beyond, packets are lost
/// as on any other path, which the peer's estimate notices.
const QUEUE: OutLimits = OutLimits {
    units: 1_024,
    bytes: 512 << 10,
};

/// All connections of one shard.
pub(crate) struct Connections {
    listeners: Vec<TcpListener>,
    open: Peers<Connection>,
    by_address: HashMap<SocketAddr, u32>,
    strangers: usize,
}

struct Connection {
    /// Away while its units are read.
    framed: Option<Framed>,
    from: SocketAddr,
    to: SocketAddr,
    owner: Option<PeerKey>,
    since: Time,
    /// The poller tells when the queue can go on.
    waits: bool,
}

/// A connection on its way to the shard of its peer, with the unit that named it.
pub(crate) struct Moved {
    framed: Framed,
    from: SocketAddr,
    to: SocketAddr,
    first: Vec<u8>,
}

impl Connections {
    pub(crate) fn new(listeners: Vec<TcpListener>) -> Self {
        Self {
            listeners,
            open: Peers::default(),
            by_address: HashMap::new(),
            strangers: 0,
        }
    }

    pub(crate) fn start(&self, cx: &Context<'_>) -> io::Result<()> {
        use std::os::fd::AsFd;
        for (token, listener) in LISTENERS.zip(&self.listeners) {
            cx.poller.add(
                listener.as_fd(),
                cx.token | u64::from(token),
                Interest::Read,
            )?;
        }
        Ok(())
    }

    fn next(&self, listener: usize, places: &Places) -> Option<(Framed, SocketAddr, SocketAddr)> {
        let (stream, from) = match tcp::accept(self.listeners.get(listener)?) {
            Ok(accepted) => accepted?,
            Err(error) => {
                tracing::warn!(%error, "accepting a connection for ICE failed");
                return None;
            }
        };
        let local = stream.local_addr().ok()?;
        let to = places.told(local, Some(local.ip()));
        Some((Framed::new(stream, QUEUE), from, to))
    }

    fn add(
        &mut self,
        framed: Framed,
        ends: (SocketAddr, SocketAddr),
        cx: &mut Context<'_>,
    ) -> Option<u32> {
        let (from, to) = ends;
        let key = self.open.insert(Connection {
            framed: None,
            from,
            to,
            owner: None,
            since: cx.now,
            waits: false,
        });
        let token = cx.token | u64::from(CONNECTIONS + key);
        if cx.poller.add(framed.fd(), token, Interest::Read).is_err() {
            self.open.remove(key);
            return None;
        }
        if let Some(connection) = self.open.get_mut(key) {
            connection.framed = Some(framed);
        }
        self.by_address.insert(from, key);
        self.strangers += 1;
        Some(key)
    }

    fn remove(&mut self, key: u32) -> Option<Connection> {
        let connection = self.open.remove(key)?;
        self.by_address.remove(&connection.from);
        self.strangers -= usize::from(connection.owner.is_none());
        Some(connection)
    }

    fn own(&mut self, key: u32, owner: PeerKey) {
        if let Some(connection) = self.open.get_mut(key) {
            self.strangers -= usize::from(connection.owner.is_none());
            connection.owner = Some(owner);
        }
    }

    /// Queues a unit; drops it if the peer does not read, or is gone.
    fn push(&mut self, to: SocketAddr, unit: &[u8], counts: &Counts) {
        let key = self.by_address.get(&to);
        let connection = key.and_then(|key| self.open.get_mut(*key));
        let Some(connection) = connection else {
            return counts.tcp_dropped.one();
        };
        let framed = connection.framed.as_mut();
        if framed.is_none_or(|framed| framed.push_bytes(unit).is_err()) {
            counts.tcp_dropped.one();
        }
    }

    /// Writes what was queued; false if the connection is at its end.
    fn write(&mut self, key: u32, cx: &mut Context<'_>) -> bool {
        let Some(connection) = self.open.get_mut(key) else {
            return true;
        };
        let Some(framed) = &mut connection.framed else {
            return true;
        };
        let waits = match framed.write() {
            Ok(done) => !done,
            Err(_) => return false,
        };
        if waits != connection.waits {
            connection.waits = waits;
            let interest = if waits {
                Interest::ReadWrite
            } else {
                Interest::Read
            };
            let token = cx.token | u64::from(CONNECTIONS + key);
            return cx.poller.modify(framed.fd(), token, interest).is_ok();
        }
        true
    }
}

impl WebRtcPort {
    pub(crate) fn accept(&mut self, listener: usize, cx: &mut Context<'_>) {
        self.idle_connections(cx);
        while let Some((framed, from, to)) =
            self.parts.connections.next(listener, &self.parts.places)
        {
            self.parts.counts.tcp_accepted.one();
            if self.parts.connections.strangers >= STRANGERS {
                // Dropping the stream closes it.
                self.parts.counts.strangers.one();
                continue;
            }
            self.parts.connections.add(framed, (from, to), cx);
        }
    }

    /// A connection of another shard whose first unit names a peer of this one.
    pub(crate) fn adopt(&mut self, moved: Moved, cx: &mut Context<'_>) {
        let Moved {
            framed,
            from,
            to,
            first,
        } = moved;
        if let Some(key) = self.parts.connections.add(framed, (from, to), cx) {
            self.unit(key, &first, cx);
            self.read(key, cx);
        }
    }

    /// Reads what has arrived by a connection.
    pub(crate) fn read(&mut self, key: u32, cx: &mut Context<'_>) {
        let connection = self.parts.connections.open.get_mut(key);
        let Some(mut framed) = connection.and_then(|one| one.framed.take()) else {
            return;
        };
        // The first unit may belong to another shard, and all that follow with it.
        let mut elsewhere = None;
        let progress = framed.read_units(|unit| match &mut elsewhere {
            None => elsewhere = self.unit(key, unit, cx),
            Some(_) => self.parts.counts.strangers.one(),
        });
        let over = !matches!(progress, Ok(Progress::Idle | Progress::More));
        let Some(connection) = self.parts.connections.open.get_mut(key) else {
            return;
        };
        if let Some((shard, first)) = elsewhere.filter(|_| !over) {
            let (from, to) = (connection.from, connection.to);
            let _ = cx.poller.remove(framed.fd());
            self.parts.connections.remove(key);
            let moved = Box::new(Moved {
                framed,
                from,
                to,
                first,
            });
            if !self.parts.group.tell(shard, Note::Connection(moved)) {
                self.parts.counts.overflow.one();
            }
            return;
        }
        connection.framed = Some(framed);
        if over || !self.parts.connections.write(key, cx) {
            self.parts.connections.remove(key);
        }
    }

    /// One unit; the shard it belongs to, if that is another one.
    fn unit(&mut self, key: u32, unit: &[u8], cx: &mut Context<'_>) -> Option<(u16, Vec<u8>)> {
        let connection = self.parts.connections.open.get(key)?;
        let inbound = Inbound {
            bytes: unit,
            from: connection.from,
            to: connection.to,
            proto: Protocol::Tcp,
        };
        if let Some(owner) = connection.owner {
            self.drive(owner, Some(inbound), cx);
            return None;
        }
        let Some(ufrag) = inbound.addressee() else {
            self.parts.counts.strangers.one();
            return None;
        };
        let shard = credentials::shard_of(&ufrag)?;
        if shard != self.parts.number {
            return Some((shard, unit.to_vec()));
        }
        if let Some(owner) = self.signed(ufrag, inbound, cx.now) {
            self.parts.connections.own(key, owner);
            self.drive(owner, Some(inbound), cx);
        }
        None
    }

    /// Writes what peers want sent by connections.
    pub(crate) fn send_units(&mut self, cx: &mut Context<'_>) {
        if self.out.units.is_empty() {
            return;
        }
        let mut touched = Vec::new();
        for (to, unit) in std::mem::take(&mut self.out.units) {
            self.parts.connections.push(to, &unit, &self.parts.counts);
            let key = self.parts.connections.by_address.get(&to).copied();
            touched.extend(key.filter(|key| touched.last() != Some(key)));
        }
        for key in touched {
            if !self.parts.connections.write(key, cx) {
                self.parts.connections.remove(key);
            }
        }
    }

    /// The peer of these connections is gone.
    pub(crate) fn connections_end(&mut self, owner: PeerKey) {
        let connections = &mut self.parts.connections;
        if connections.by_address.is_empty() {
            return;
        }
        for key in connections.open.keys() {
            let of_owner = |one: &Connection| one.owner == Some(owner);
            if connections.open.get(key).is_some_and(of_owner) {
                connections.remove(key);
            }
        }
    }

    /// Closes connections that have named nobody in time.
    pub(crate) fn idle_connections(&mut self, cx: &mut Context<'_>) {
        let connections = &mut self.parts.connections;
        if connections.strangers == 0 {
            return;
        }
        for key in connections.open.keys() {
            let old = |one: &Connection| one.owner.is_none() && cx.now - one.since > NAME_WITHIN;
            if connections.open.get(key).is_some_and(old) {
                connections.remove(key);
                self.parts.counts.strangers.one();
            }
        }
    }
}
