//! One client's TCP connection.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use rtsp_types::headers::HeaderName;
use rtsp_types::{Method, Version};
use sangam_model::Time;

use crate::ingest::Announcement;
use crate::limits::{INBOUND_MAX, OUTBOUND_HIGH, OUTBOUND_MAX, READ_MAX};
use crate::message::{Answer, Found, Request, find};
use crate::notify;
use crate::wire::Wire;

/// Pipelines of one connection that are remembered.
const PIPELINES_MAX: usize = 8;

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    wire: Wire,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    inbound: Vec<u8>,
    /// How much of it was understood, and how much behind that was looked through.
    understood: usize,
    seen: usize,
    outbound: Vec<u8>,
    /// How much of it was sent.
    sent: usize,
    /// Some of that has not left yet.
    is_behind: bool,
    /// A request that waits for a disk; those behind it wait as well.
    pub(crate) pending: Option<Request>,
    /// What it is about to publish.
    pub(crate) announced: Option<Box<Announcement>>,
    /// RFC 7826 section 18.33: pipelines and the sessions that they are about.
    pipelines: Vec<(String, String)>,
    /// Requests of ours.
    told: u32,
    /// By channel: whose it is.
    pub(crate) channels: BTreeMap<u8, u64>,
    /// When something was heard.
    pub(crate) heard: Time,
    /// Since when nothing was read there of what waits here.
    pub(crate) waits_since: Option<Time>,
    /// Wrong passwords.
    pub(crate) failures: u32,
    /// Once all is sent it is closed.
    pub(crate) is_closing: bool,
    /// Whether the poller tells when there is room.
    pub(crate) wants_room: bool,
    /// Whether a film waits for room.
    is_awaited: bool,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The client closed it, or it broke.
    Closed,
    /// Too much came at once.
    Flooded,
    /// Too much waits.
    Unread,
    /// What came is no TLS, or the client does not believe the certificate.
    Insecure,
}

/// What a client said.
#[derive(Debug)]
pub(crate) enum Said {
    /// A request.
    Request(Request),
    /// Nonsense.
    Nonsense,
    /// A packet by this channel, and where it lies: [`Connection::bytes`].
    Packet(u8, Range<usize>),
}

impl Connection {
    /// A connection that was accepted.
    ///
    /// # Errors
    /// It is gone already.
    pub(crate) fn new(wire: Wire, peer: SocketAddr, now: Time) -> io::Result<Self> {
        Ok(Self {
            local: wire.socket().local_addr()?,
            wire,
            peer,
            inbound: Vec::new(),
            understood: 0,
            seen: 0,
            outbound: Vec::new(),
            sent: 0,
            is_behind: false,
            pending: None,
            announced: None,
            pipelines: Vec::new(),
            told: 0,
            channels: BTreeMap::new(),
            heard: now,
            waits_since: None,
            failures: 0,
            is_closing: false,
            wants_room: false,
            is_awaited: false,
        })
    }

    /// For the poller.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.wire.fd()
    }

    /// Whether nobody on the way can read it.
    pub(crate) const fn is_secure(&self) -> bool {
        self.wire.is_secure()
    }

    /// Says that it ends.
    pub(crate) fn end(&mut self) {
        self.wire.end();
    }

    /// Reads what came.
    ///
    /// # Errors
    /// Why it ends.
    pub(crate) fn read(&mut self, now: Time) -> Result<(), End> {
        self.inbound.drain(..self.understood);
        self.understood = 0;
        let mut room = [0; 16 << 10];
        let mut read = 0;
        // The poller knows nothing of what is decrypted, which is a record or two.
        while read < READ_MAX || self.wire.has_more() {
            match self.wire.read(&mut room) {
                Ok(0) => return Err(End::Closed),
                Ok(len) => {
                    read += len;
                    self.heard = now;
                    // Nothing is said any more that would be listened to.
                    if !self.is_closing {
                        self.inbound.extend(&room[..len]);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => return Err(End::Insecure),
                Err(_) => return Err(End::Closed),
            }
            if self.inbound.len() > INBOUND_MAX {
                return Err(End::Flooded);
            }
        }
        Ok(())
    }

    /// The next that the client said, unless a request before it waits.
    pub(crate) fn next(&mut self) -> Option<Said> {
        while self.pending.is_none() && !self.is_closing {
            let rest = &self.inbound[self.understood..];
            let first = rest.first()?;
            let is_packet = *first == b'$';
            let channel = rest.get(1).copied().unwrap_or_default();
            let (said, len) = match find(rest, &mut self.seen) {
                Found::Request(request, len) => (Some(Said::Request(request)), len),
                Found::Other(len) => {
                    let body = self.understood + 4..self.understood + len;
                    let packet = || Said::Packet(channel, body);
                    (is_packet.then(packet), len)
                }
                Found::More => return None,
                Found::Broken => (Some(Said::Nonsense), rest.len()),
            };
            self.understood += len;
            self.seen = 0;
            if said.is_some() {
                return said;
            }
        }
        None
    }

    /// What the client said there, until it is read from again.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.inbound.get(range).unwrap_or_default()
    }

    /// Puts an answer behind what waits.
    pub(crate) fn answer(&mut self, answer: Answer, to: (Version, Option<&str>)) {
        answer.write(to, &mut self.outbound);
    }

    /// Puts a request of ours behind what waits; its answer is not waited for.
    pub(crate) fn tell(&mut self, method: &Method, url: &str, headers: Vec<(HeaderName, String)>) {
        self.told = self.told.wrapping_add(1);
        notify::write((method, url), self.told, headers, &mut self.outbound);
    }

    /// The session that the first request of a pipeline set up.
    pub(crate) fn pipelined(&self, pipeline: &str) -> Option<&str> {
        let mut known = self.pipelines.iter();
        let found = known.find(|(known, _)| known == pipeline);
        found.map(|(_, session)| session.as_str())
    }

    /// What a pipeline set up; of many the oldest is forgotten.
    pub(crate) fn pipeline(&mut self, pipeline: &str, session: &str) {
        if self.pipelines.len() == PIPELINES_MAX {
            self.pipelines.remove(0);
        }
        let pair = (pipeline.to_owned(), session.to_owned());
        self.pipelines.push(pair);
    }

    /// Puts a packet behind what waits (RFC 2326 section 10.12); false if it is too long.
    pub(crate) fn packet(&mut self, channel: u8, bytes: &[u8]) -> bool {
        let Ok(len) = u16::try_from(bytes.len()) else {
            return false;
        };
        self.outbound.extend([b'$', channel]);
        self.outbound.extend(len.to_be_bytes());
        self.outbound.extend(bytes);
        true
    }

    /// Whether there is room for what does not wait.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting() < OUTBOUND_HIGH
    }

    /// Whether a film has to wait: until [`Connection::has_room_again`].
    pub(crate) fn is_full(&mut self) -> bool {
        let is_full = self.waiting() >= OUTBOUND_HIGH;
        self.is_awaited |= is_full;
        is_full
    }

    /// Whether films that waited may go on; said once.
    pub(crate) fn has_room_again(&mut self) -> bool {
        let has_room = self.is_awaited && self.waiting() < OUTBOUND_HIGH;
        self.is_awaited &= !has_room;
        has_room
    }

    /// Bytes that wait.
    fn waiting(&self) -> usize {
        self.outbound.len() - self.sent
    }

    /// Whether something waits.
    pub(crate) fn has_waiting(&self) -> bool {
        self.is_behind || self.sent < self.outbound.len()
    }

    /// Sends what the kernel takes.
    ///
    /// # Errors
    /// Why it ends.
    pub(crate) fn flush(&mut self, now: Time) -> Result<(), End> {
        while self.sent < self.outbound.len() {
            match self.wire.write(&self.outbound[self.sent..]) {
                Ok(0) => return Err(End::Closed),
                Ok(len) => {
                    self.sent += len;
                    self.waits_since = None;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Closed),
            }
        }
        self.is_behind = match self.wire.flush() {
            Ok(is_done) => !is_done,
            Err(_) => return Err(End::Closed),
        };
        if self.sent == self.outbound.len() {
            self.outbound.clear();
            self.sent = 0;
        } else if self.sent >= OUTBOUND_HIGH {
            self.outbound.drain(..self.sent);
            self.sent = 0;
        }
        if self.has_waiting() {
            self.waits_since.get_or_insert(now);
        }
        if self.waiting() > OUTBOUND_MAX {
            return Err(End::Unread);
        }
        match self.is_closing && !self.has_waiting() {
            true => Err(End::Closed),
            false => Ok(()),
        }
    }

    /// Two free channels, if there are any: those that were asked for, or others.
    pub(crate) fn channels(&mut self, wanted: Option<(u8, u8)>, session: u64) -> Option<(u8, u8)> {
        let is_free = |channels: &BTreeMap<u8, u64>, pair: &(u8, u8)| {
            !channels.contains_key(&pair.0) && !channels.contains_key(&pair.1)
        };
        let all = (0..=u8::MAX / 2).map(|half| (2 * half, 2 * half + 1));
        let mut offers = wanted.into_iter().chain(all);
        let found = offers.find(|pair| is_free(&self.channels, pair))?;
        self.channels.insert(found.0, session);
        self.channels.insert(found.1, session);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;

    #[test]
    fn films_go_on_once_there_is_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, peer) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut connection = Connection::new(Wire::Plain(stream), peer, Time::ZERO).unwrap();
        assert!(!connection.is_full());
        for _ in 0..5 {
            assert!(connection.packet(0, &[0; 60_000]));
        }
        assert!(connection.is_full() && !connection.has_room_again());
        let reader = thread::spawn(move || {
            let mut read = Vec::new();
            client.read_to_end(&mut read).unwrap();
            read.len()
        });
        while connection.has_waiting() {
            connection.flush(Time::ZERO).unwrap();
        }
        assert!(connection.has_room_again() && !connection.has_room_again());
        drop(connection);
        assert_eq!(reader.join().unwrap(), 5 * 60_004);
    }
}
