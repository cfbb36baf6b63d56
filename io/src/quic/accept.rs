//! What arrives: packets of connections, and strangers who want one.

use std::net::SocketAddr;
use std::time::Duration;

use quinn_proto::{
    Connection as Protocol, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent,
    Incoming, RandomConnectionIdGenerator, Transmit,
};
use sangam_model::Time;

use super::Key;
use super::connection::Connection;
use super::endpoint::Endpoint;

/// What arrives is copied into memory of this size, as quinn-proto wants to own it; used again
/// once nothing refers to it.
const ARENA: usize = 64 << 10;
/// Handshakes in progress above which strangers must prove their address first (RFC 9000
/// section 8.1.2): each costs a signature, and an attacker may forge addresses.
const HANDSHAKES_FREE: usize = 32;
/// Handshakes begun each second, at about 0.2 ms each: the thread has media to carry. Callers
/// repeat what is not answered.
const HANDSHAKES_PER_S: u32 = 1_000;
/// Bytes of a connection id; the first names the socket of a group.
const ID_LEN: usize = 8;
/// RFC 9000 section 17.2: set in packets of a handshake.
const LONG_HEADER: u8 = 0x80;

/// Bounds how often something happens each second.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    second: u64,
    count: u32,
}

impl Bucket {
    fn admits(&mut self, now: Time, per_second: u32) -> bool {
        let second = now.as_micros() / 1_000_000;
        if second != self.second {
            *self = Self { second, count: 0 };
        }
        self.count = self.count.saturating_add(1);
        self.count <= per_second
    }
}

/// Connection ids that name the socket they belong to, and are random otherwise.
#[derive(Debug)]
pub(super) struct ConnectionIds {
    member: u8,
    random: RandomConnectionIdGenerator,
}

impl ConnectionIds {
    pub(super) fn new(member: u8) -> Self {
        let random = RandomConnectionIdGenerator::new(ID_LEN - 1);
        Self { member, random }
    }
}

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [self.member; ID_LEN];
        id[1..].copy_from_slice(&self.random.generate_cid());
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        ID_LEN
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The socket of the group to whose connection a packet belongs. A handshake stays where its
/// first packet arrived, as the kernel sends packets from one address to one socket.
pub(super) fn member_of(packet: &[u8]) -> Option<u8> {
    let (first, rest) = packet.split_first()?;
    (first & LONG_HEADER == 0).then_some(*rest.first()?)
}

impl Endpoint {
    pub(super) fn datagram(&mut self, now: Time, from: SocketAddr, bytes: &[u8]) {
        if self.arena.capacity() < bytes.len() {
            self.arena.reserve(ARENA.max(bytes.len()));
        }
        self.arena.extend_from_slice(bytes);
        let data = self.arena.split();
        let mut answer = core::mem::take(&mut self.answer);
        answer.clear();
        let instant = self.epoch.instant(now);
        match self
            .protocol
            .handle(instant, from, None, None, data, &mut answer)
        {
            Some(DatagramEvent::ConnectionEvent(ConnectionHandle(index), event)) => {
                if let Some(Some(connection)) = self.connections.get_mut(index) {
                    connection.protocol.handle_event(event);
                    self.touch(index as Key);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.caller(now, incoming, &mut answer),
            Some(DatagramEvent::Response(transmit)) => self.answer(&transmit, &answer),
            None => {}
        }
        self.answer = answer;
    }

    /// Somebody wants a connection.
    fn caller(&mut self, now: Time, incoming: Incoming, answer: &mut Vec<u8>) {
        let proved = incoming.remote_address_validated();
        if !proved && !self.strangers.admits(now, self.config.strangers_per_s) {
            self.counters.ignored += 1;
            return self.protocol.ignore(incoming);
        }
        if self.count >= self.config.connections_max {
            self.counters.refused += 1;
            let transmit = self.protocol.refuse(incoming, answer);
            return self.answer(&transmit, answer);
        }
        if !proved && self.handshakes >= HANDSHAKES_FREE {
            self.counters.retried += 1;
            // Only those that have proved their address may not be asked again.
            if let Ok(transmit) = self.protocol.retry(incoming, answer) {
                self.answer(&transmit, answer);
            }
            return;
        }
        if !self.accepted.admits(now, HANDSHAKES_PER_S) {
            self.counters.ignored += 1;
            return self.protocol.ignore(incoming);
        }
        let instant = self.epoch.instant(now);
        match self.protocol.accept(incoming, instant, answer, None) {
            Ok((handle, connection)) => {
                self.add(handle, connection, true);
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.answer(&transmit, answer);
                }
            }
        }
    }

    pub(super) fn add(
        &mut self,
        ConnectionHandle(index): ConnectionHandle,
        protocol: Protocol,
        handshaking: bool,
    ) -> Key {
        let key = index as Key;
        if index >= self.connections.len() {
            self.connections.resize_with(index + 1, || None);
        }
        self.connections[index] = Some(Connection::new(protocol, key, handshaking));
        self.count += 1;
        self.handshakes += usize::from(handshaking);
        self.touch(key);
        key
    }

    /// Answers somebody without a connection, if the kernel takes it at once.
    fn answer(&mut self, transmit: &Transmit, bytes: &[u8]) {
        if let Some(room) = self.sender.room(&self.socket) {
            room.extend_from_slice(&bytes[..transmit.size]);
            self.sender.commit(transmit.destination);
        }
    }
}
