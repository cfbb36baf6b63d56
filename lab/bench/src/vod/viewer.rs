//! One viewer: an RTSP connection, and the session behind it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use sangam_film::{Counts, Options, Session, Stage};
use sangam_io::poll::{Interest, Poller};
use sangam_io::tcp;
use sangam_model::Time;

use super::audience::Look;
use crate::error::Error;

const READ: usize = 16 << 10;

/// What a viewer watches, and how.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    /// Where the server is.
    pub(crate) server: SocketAddr,
    /// Everything else; ports are the audience's.
    pub(crate) options: Options,
}

/// One viewer.
pub(super) struct Viewer {
    pub(super) session: Session<()>,
    pub(super) address: Ipv4Addr,
    stream: TcpStream,
    outbox: Vec<u8>,
    joined: Time,
    is_gone: bool,
    /// When it was looked after last, and the seconds of film that it wanted until then.
    wanted: (Time, f64),
    /// When something of the film came last, and the longest time without since it was marked.
    came: Option<Time>,
    gap: Duration,
}

impl Viewer {
    /// Connects; what is to be said is said once the connection is there.
    pub(super) fn new(wish: Wish, address: Ipv4Addr, now: Time) -> Result<Self, Error> {
        let failed = |error| Error::System("a viewer's connection", error);
        let from = Some(IpAddr::V4(address));
        let stream = tcp::connect_from(from, wish.server).map_err(failed)?;
        let ssrc = u32::from(address);
        let session = Session::new(wish.options, Some(wish.server), ssrc);
        let session = session.map_err(|error| Error::Option(error.to_string()))?;
        Ok(Self {
            session,
            address,
            stream,
            outbox: Vec::new(),
            joined: now,
            is_gone: false,
            wanted: (now, 0.0),
            came: None,
            gap: Duration::ZERO,
        })
    }

    /// Whether the connection ended.
    pub(super) const fn is_gone(&self) -> bool {
        self.is_gone
    }

    pub(super) const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Calls another server, if the film goes on there.
    ///
    /// # Errors
    /// If the new connection cannot be waited for.
    pub(super) fn follow(&mut self, now: Time, (poller, token): (&Poller, u64)) -> io::Result<()> {
        while let Some(server) = self.session.wants() {
            // What was closed was let go of before.
            let _ = poller.remove(self.stream.as_fd());
            self.outbox.clear();
            match tcp::connect_from(Some(IpAddr::V4(self.address)), server) {
                Ok(stream) => {
                    poller.add(stream.as_fd(), token, Interest::Read)?;
                    (self.stream, self.is_gone) = (stream, false);
                }
                Err(_) => self.session.hear(now, &[]),
            }
        }
        Ok(())
    }

    /// Takes a datagram of the film.
    pub(super) fn take(&mut self, now: Time, bytes: &[u8]) {
        if let Some(before) = self.came.replace(now) {
            self.gap = self.gap.max(now.since(before));
        }
        self.session.packet(now, bytes, |_| ());
    }

    /// Looks from now on how long nothing comes.
    pub(super) const fn mark(&mut self) {
        self.gap = Duration::ZERO;
    }

    fn has_all(&self) -> bool {
        *self.session.stage() == Stage::Ended || self.session.order().is_ending()
    }

    /// Lets time pass. A viewer with enough in its buffer asks for less than the film's rate, and
    /// wants no more then; one that has all of its film wants nothing.
    pub(super) fn tick(&mut self, now: Time) {
        let (before, wanted) = self.wanted;
        let seconds = now.since(before).as_secs_f64();
        let rate = match self.has_all() {
            true => 0.0,
            false => self.session.rate().min(1.0),
        };
        self.wanted = (now, wanted + seconds * rate);
        self.session.tick(now, |_| ());
    }

    /// Reads what the server says, and says what there is to say.
    pub(super) fn converse(&mut self, now: Time) {
        let mut room = [0; READ];
        while !self.is_gone {
            match self.stream.read(&mut room) {
                Ok(0) => {
                    self.is_gone = true;
                    self.session.hear(now, &[]);
                }
                Ok(len) => self.session.hear(now, &room[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::NotConnected => break,
                Err(_) => {
                    self.is_gone = true;
                    self.session.hear(now, &[]);
                }
            }
        }
        self.speak();
    }

    /// Says what there is to say.
    pub(super) fn speak(&mut self) {
        self.outbox.extend(self.session.said());
        while !self.outbox.is_empty() && !self.is_gone {
            match self.stream.write(&self.outbox) {
                Ok(len) => drop(self.outbox.drain(..len)),
                // Not connected yet, or not read: it is tried again with the next tick.
                Err(_) => break,
            }
        }
    }

    /// What it sees.
    pub(super) fn look(&self, now: Time) -> Look {
        let counts: Counts = self.session.counts();
        // One that goes on is none that is over.
        let open = match (self.session.stage(), self.came) {
            (Stage::Playing, Some(came)) => now.since(came),
            _ => Duration::ZERO,
        };
        Look {
            joined: self.joined,
            is_playing: *self.session.stage() == Stage::Playing,
            has_all: self.has_all(),
            has_ended: *self.session.stage() == Stage::Ended,
            failed: match self.session.stage() {
                Stage::Failed(why) => Some(why.to_string()),
                _ => None,
            },
            place: self.session.place().at.as_secs_f64(),
            wanted_s: self.wanted.1,
            is_direct: !self.session.setup().nodes.is_empty(),
            gap: self.gap.max(open),
            counts,
        }
    }
}
