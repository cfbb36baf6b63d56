//! A UDP socket and all connections over it.

use core::fmt;
use core::mem;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::{ClientConfig, ConnectionHandle, Endpoint as Protocol};
use rustls::pki_types::CertificateDer;
use sangam_model::Time;

use super::accept::{Bucket, member_of};
use super::config::{Config, ConfigError};
use super::connection::Connection;
use super::sender::Sender;
use super::timers::{Epoch, Timers};
use super::{Event, Full, Key, Waiting};
use crate::pool::Packet;
use crate::tls::{Secret, ServerConfig};
use crate::udp::{RecvBatch, SendReport, UdpSocket};

/// Messages of one recvmmsg call; with UDP_GRO each may hold a whole burst.
const MESSAGES: usize = 16;
/// How soon to try again when the kernel takes no more.
const BLOCKED: core::time::Duration = core::time::Duration::from_millis(1);

/// A socket and its connections.
pub struct Endpoint {
    pub(super) protocol: Protocol,
    pub(super) config: Config,
    client: Option<ClientConfig>,
    pub(super) socket: UdpSocket,
    /// Callers answered without a proof of their address, and handshakes begun.
    pub(super) strangers: Bucket,
    pub(super) accepted: Bucket,
    pub(super) connections: Vec<Option<Connection>>,
    /// How many there are, and how many callers have not finished their handshake.
    pub(super) count: usize,
    pub(super) handshakes: usize,
    /// Away while its datagrams are handled.
    batch: Option<RecvBatch>,
    /// Where datagrams are copied to.
    pub(super) arena: BytesMut,
    /// Room for an answer to a stranger.
    pub(super) answer: Vec<u8>,
    pub(super) sender: Sender,
    pub(super) epoch: Epoch,
    timers: Timers,
    pub(super) events: VecDeque<(Key, Event)>,
    /// Connections that may have something to send.
    dirty: Vec<Key>,
    /// When to try again, as the kernel took not everything.
    blocked: Option<Time>,
    /// Packets that wait for all peers together.
    packets: usize,
    pub(super) counters: Counters,
}

/// What an endpoint counted since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// What became of its datagrams.
    pub sent: SendReport,
    /// Attempts that had to prove their address.
    pub retried: u64,
    /// Attempts that were refused as there are too many connections.
    pub refused: u64,
    /// Attempts that were not answered as too many came.
    pub ignored: u64,
    /// Events that the path did not take any more when their turn came.
    pub oversized: u64,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("socket", &self.socket)
            .field("connections", &self.count)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// An endpoint on a socket, which should forbid fragments and may join what arrives.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(socket: UdpSocket, config: &Config) -> Result<Self, ConfigError> {
        Ok(Self {
            protocol: Protocol::new(config.endpoint().into(), config.server()?, true, None),
            client: config.client()?,
            config: config.clone(),
            socket,
            strangers: Bucket::default(),
            accepted: Bucket::default(),
            connections: Vec::new(),
            count: 0,
            handshakes: 0,
            batch: Some(RecvBatch::new(MESSAGES, usize::from(u16::MAX))),
            arena: BytesMut::new(),
            answer: Vec::new(),
            sender: Sender::new(),
            epoch: Epoch::new(),
            timers: Timers::default(),
            events: VecDeque::new(),
            dirty: Vec::new(),
            blocked: None,
            packets: 0,
            counters: Counters::default(),
        })
    }

    /// Shows this certificate to callers from now on; nothing if it does already.
    ///
    /// # Errors
    /// [`ConfigError`]; then nothing changes.
    pub fn show(&mut self, certificate: &Arc<ServerConfig>) -> Result<(), ConfigError> {
        let shown = self.config.server.as_ref();
        if shown.is_some_and(|shown| Arc::ptr_eq(shown, certificate)) {
            return Ok(());
        }
        self.config.server = Some(certificate.clone());
        self.protocol.set_server_config(self.config.server()?);
        Ok(())
    }

    /// Calls by this configuration from now on; nothing if it does already.
    ///
    /// # Errors
    /// [`ConfigError`]; then nothing changes.
    pub fn call_with(&mut self, client: &Arc<rustls::ClientConfig>) -> Result<(), ConfigError> {
        let known = self.config.client.as_ref();
        if known.is_some_and(|known| Arc::ptr_eq(known, client)) {
            return Ok(());
        }
        self.config.client = Some(client.clone());
        self.client = self.config.client()?;
        Ok(())
    }

    /// The socket's descriptor, for a poller.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    /// The address the socket is bound to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    /// Starts a connection. `name` is what the peer's certificate must be for: a host name or an
    /// address.
    ///
    /// # Errors
    /// Why it cannot even be tried.
    pub fn connect(&mut self, now: Time, to: SocketAddr, name: &str) -> Result<Key, String> {
        let config = self
            .client
            .clone()
            .ok_or("no roots of trust to dial with")?;
        if self.count >= self.config.connections_max {
            return Err("too many connections".into());
        }
        let instant = self.epoch.instant(now);
        let (handle, connection) = self
            .protocol
            .connect(instant, config, to, name)
            .map_err(|error| error.to_string())?;
        Ok(self.add(handle, connection, false))
    }

    /// Takes what has arrived, up to a batch, and whether there may be more. Packets of
    /// connections of another socket of the group go to `foreign`, with its number.
    ///
    /// # Errors
    /// What the kernel reports about the socket.
    pub fn receive(
        &mut self,
        now: Time,
        mut foreign: impl FnMut(u8, SocketAddr, &[u8]),
    ) -> io::Result<bool> {
        let Some(mut batch) = self.batch.take() else {
            return Ok(false);
        };
        let got = self.socket.recv(&mut batch);
        if got.is_ok() {
            for datagram in batch.datagrams() {
                match member_of(datagram.bytes) {
                    Some(member) if member != self.config.member => {
                        foreign(member, datagram.source, datagram.bytes);
                    }
                    _ => self.datagram(now, datagram.source, datagram.bytes),
                }
            }
        }
        let full = got.as_ref().is_ok_and(|got| *got == batch.capacity());
        self.batch = Some(batch);
        self.collect_all(now);
        got.map(|_| full)
    }

    /// Takes one datagram that another socket of the group received.
    pub fn handed_over(&mut self, now: Time, from: SocketAddr, bytes: &[u8]) {
        self.datagram(now, from, bytes);
        self.collect_all(now);
    }

    /// What happened, until `None`.
    pub fn poll(&mut self) -> Option<(Key, Event)> {
        self.events.pop_front()
    }

    /// Queues a link frame.
    ///
    /// # Errors
    /// The peer does not read, or is gone.
    pub fn send_frame(&mut self, key: Key, frame: &[u8]) -> Result<(), Full> {
        self.touch(key);
        self.get_mut(key).ok_or(Full)?.frame(frame)
    }

    /// Queues an event.
    ///
    /// # Errors
    /// The path does not take as much, or the peer is gone.
    pub fn send_event(&mut self, key: Key, packet: Packet, now: Time) -> Result<(), Full> {
        self.touch(key);
        let connection = self.get_mut(key).ok_or(Full)?;
        let before = connection.packets();
        connection.event(packet, now)?;
        let after = connection.packets();
        self.packets += after - before;
        Ok(())
    }

    /// Packets that wait for all peers together, each holding a buffer of its pool.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// What waits for a peer.
    #[must_use]
    pub fn waiting(&self, key: Key, now: Time) -> Waiting {
        let connection = self.get(key);
        connection.map_or_else(Waiting::default, |connection| connection.waiting(now))
    }

    /// Where the peer is now: clients may move.
    #[must_use]
    pub fn peer(&self, key: Key) -> Option<SocketAddr> {
        Some(self.get(key)?.protocol.remote_address())
    }

    /// The certificate that the peer has shown, if it had to show one.
    #[must_use]
    pub fn certificate(&self, key: Key) -> Option<CertificateDer<'static>> {
        let identity = self.get(key)?.protocol.crypto_session().peer_identity()?;
        let chain = identity.downcast::<Vec<CertificateDer<'static>>>().ok()?;
        chain.into_iter().next()
    }

    /// A secret of the two ends of a connection for a purpose (RFC 8446 section 7.5).
    #[must_use]
    pub fn secret(&self, key: Key, purpose: &[u8]) -> Option<Secret> {
        let mut secret = [0; size_of::<Secret>()];
        let session = self.get(key)?.protocol.crypto_session();
        let exported = session.export_keying_material(&mut secret, purpose, &[]);
        exported.is_ok().then_some(secret)
    }

    /// Sends what waits and may leave now; `false` if the kernel does not take all of it.
    pub fn flush(&mut self, now: Time) -> bool {
        let mut dirty = mem::take(&mut self.dirty);
        let served = dirty.iter().take_while(|key| self.serve(**key, now));
        let served = served.count();
        dirty.drain(..served);
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
        let all = self.sender.flush(&self.socket) && self.dirty.is_empty();
        self.blocked = (!all).then(|| now + BLOCKED);
        all
    }

    /// When [`Endpoint::timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        if !self.events.is_empty() {
            return Some(Time::ZERO);
        }
        let deadlines = [self.timers.first(), self.blocked];
        deadlines.into_iter().flatten().min()
    }

    /// Runs the timers that are due.
    pub fn timeout(&mut self, now: Time) {
        let instant = self.epoch.instant(now);
        while let Some((at, key)) = self.timers.pop(now) {
            let Some(connection) = self.get_mut(key).filter(|c| c.armed == Some(at)) else {
                continue;
            };
            connection.armed = None;
            let due = connection.protocol.poll_timeout();
            if due.is_some_and(|due| due <= instant) {
                connection.protocol.handle_timeout(instant);
                self.touch(key);
            } else {
                self.arm(key);
            }
        }
        self.collect_all(now);
    }

    /// Ends a connection: what waits for the peer leaves if it can at once, then the reason.
    pub fn close(&mut self, key: Key, now: Time, reason: &str) {
        let instant = self.epoch.instant(now);
        let Some(connection) = self
            .connections
            .get_mut(key as usize)
            .and_then(Option::as_mut)
        else {
            return;
        };
        let before = connection.packets();
        connection.transmit(instant, &mut self.sender, &self.socket);
        connection.close(instant, reason);
        self.packets -= before;
        self.events.retain(|(other, _)| *other != key);
        self.touch(key);
    }

    /// Connections, those that are being closed included.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.count
    }

    /// What was counted since this was last asked.
    pub fn counters(&mut self) -> Counters {
        self.counters.sent = self.sender.report();
        mem::take(&mut self.counters)
    }

    fn get(&self, key: Key) -> Option<&Connection> {
        self.connections.get(key as usize)?.as_ref()
    }

    fn get_mut(&mut self, key: Key) -> Option<&mut Connection> {
        self.connections.get_mut(key as usize)?.as_mut()
    }

    /// Notes that a connection may have something to send or to tell.
    pub(super) fn touch(&mut self, key: Key) {
        if let Some(connection) = self.get_mut(key)
            && !mem::replace(&mut connection.dirty, true)
        {
            self.dirty.push(key);
        }
    }

    /// Sends what one connection may send; `false` if the kernel takes no more.
    fn serve(&mut self, key: Key, now: Time) -> bool {
        let instant = self.epoch.instant(now);
        let Some(connection) = self
            .connections
            .get_mut(key as usize)
            .and_then(Option::as_mut)
        else {
            return true;
        };
        let before = connection.packets();
        let done = connection.transmit(instant, &mut self.sender, &self.socket);
        self.packets -= before - connection.packets();
        if !done {
            return false;
        }
        connection.dirty = false;
        self.counters.oversized += mem::take(&mut connection.oversized);
        self.arm(key);
        self.collect(key, now);
        true
    }

    /// Takes what the connections that were touched have to tell.
    fn collect_all(&mut self, now: Time) {
        for index in 0..self.dirty.len() {
            self.collect(self.dirty[index], now);
        }
    }

    fn collect(&mut self, key: Key, now: Time) {
        let instant = self.epoch.instant(now);
        let Some(connection) = self
            .connections
            .get_mut(key as usize)
            .and_then(Option::as_mut)
        else {
            return;
        };
        let mut drained = false;
        while let Some(event) = connection.protocol.poll_endpoint_events() {
            drained |= event.is_drained();
            let handle = ConnectionHandle(key as usize);
            if let Some(reply) = self.protocol.handle_event(handle, event) {
                connection.protocol.handle_event(reply);
            }
        }
        let before = connection.packets();
        connection.collect(instant, &mut self.events);
        self.packets -= before - connection.packets();
        if connection.handshaking && !connection.protocol.is_handshaking() {
            connection.handshaking = false;
            self.handshakes -= 1;
        }
        if drained {
            self.connections[key as usize] = None;
            self.count -= 1;
        }
    }

    /// Sees to it that a timer fires no later than the connection wants.
    fn arm(&mut self, key: Key) {
        let epoch = self.epoch;
        let Some(connection) = self.get_mut(key) else {
            return;
        };
        let Some(at) = connection.protocol.poll_timeout().map(|at| epoch.time(at)) else {
            return;
        };
        if connection.armed.is_none_or(|armed| at < armed) {
            connection.armed = Some(at);
            self.timers.add(at, key);
        }
    }
}
