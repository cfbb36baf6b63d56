//! One link: the neighbour, and what carries it at the moment.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use sangam_broker::LinkId;
use sangam_io::udp::Address;
use sangam_link::{DialInput, Dialer, Input, Reassembler, Session, Uptake};
use sangam_model::{Bitrate, BrokerId, Incarnation, Measured, Time};
use sangam_wire::Message;

use super::dial::Rungs;
use super::migration::Second;
use super::outbox::Pace;
use super::quic;
use super::streams;
use crate::broker::{LinkInfo, Queue};
use crate::config::LinkWay;

/// The state of links is told at most so often, unless it changes.
pub(super) const SHOW_EVERY: Duration = Duration::from_secs(1);
/// Changes of a link's quality are told at most so often.
const TELL_APART: Duration = Duration::from_millis(100);

/// One neighbour, by the way in use; or another way of one of the links ([`Second`]).
#[derive(Debug)]
pub(super) struct Link {
    pub(super) address: SocketAddr,
    pub(super) wire: Address,
    /// Which of the lane's sockets reaches it.
    pub(super) socket: usize,
    pub(super) datagram_max: usize,
    pub(super) end: End,
    pub(super) via: Via,
    pub(super) reassembler: Reassembler,
    pub(super) peer: Option<(BrokerId, Incarnation)>,
    pub(super) up: bool,
    /// Both ends may use groups on the segment that they share.
    pub(super) near: bool,
    /// Ours to dial, so dialled again when an accepted session has died.
    pub(super) rungs: Option<Rungs>,
    /// Made by control, which may end it.
    pub(super) organised: bool,
    /// What control was told last, and when.
    pub(super) told: Option<(Measured, Time)>,
    /// It is no link but a way that one takes, or has left.
    pub(super) second: Option<Second>,
    /// The way before, whose messages come first, and those that wait for it.
    pub(super) before: Option<LinkId>,
    pub(super) held: VecDeque<Message>,
}

/// What carries a link.
#[derive(Debug)]
pub(super) enum Via {
    /// Datagrams of the public port.
    Datagrams,
    Quic(quic::Way),
    Stream(Box<streams::End>),
}

/// Our end of a link.
#[derive(Debug)]
pub(super) enum End {
    Dialing(Box<Dialer>),
    Accepted { session: Box<Session>, nonce: u64 },
}

impl Link {
    pub(super) fn deadline(&self) -> Option<Time> {
        match &self.end {
            End::Dialing(dialer) => {
                let rungs = self.rungs.as_ref();
                let rung = rungs.and_then(|rungs| rungs.deadline(self.up));
                dialer.deadline().into_iter().chain(rung).min()
            }
            End::Accepted { session, .. } => session.deadline(),
        }
    }

    pub(super) fn session(&self) -> Option<&Session> {
        match &self.end {
            End::Dialing(dialer) => dialer.session(),
            End::Accepted { session, .. } => Some(session),
        }
    }

    /// As in configurations.
    pub(super) fn transport(&self) -> &'static str {
        match &self.via {
            Via::Datagrams => "udp",
            Via::Quic(_) => "quic",
            Via::Stream(end) => end.transport.name(),
        }
    }

    /// By which address control knows the neighbour, whatever way is in use.
    pub(super) fn home(&self) -> SocketAddr {
        let home = self.rungs.as_ref().and_then(Rungs::home);
        home.unwrap_or(self.address)
    }

    /// How the rate of what is sent is found.
    pub(super) fn pace(&self) -> Pace {
        match &self.via {
            // Within a machine there is no path to spare, and delay tells of its processors alone.
            Via::Datagrams if self.address.ip().is_loopback() => Pace::Free,
            Via::Datagrams => Pace::Begins(self.session().and_then(Session::rtt)),
            // A connection has a window and a queue of its own.
            Via::Quic(_) => Pace::Free,
            Via::Stream(_) => Pace::Taken(Uptake::default(), 0),
        }
    }

    /// Whether what it shares with others may go to a group by this socket of the lane.
    pub(super) fn may_share(&self, socket: usize) -> bool {
        let by_datagrams = matches!(self.via, Via::Datagrams);
        self.near && self.up && by_datagrams && self.socket == socket && self.second.is_none()
    }

    pub(super) fn quic(&self) -> Option<&quic::Way> {
        match &self.via {
            Via::Quic(way) => Some(way),
            _ => None,
        }
    }

    pub(super) fn quic_mut(&mut self) -> Option<&mut quic::Way> {
        match &mut self.via {
            Via::Quic(way) => Some(way),
            _ => None,
        }
    }

    pub(super) fn stream_mut(&mut self) -> Option<&mut streams::End> {
        match &mut self.via {
            Via::Stream(end) => Some(end),
            _ => None,
        }
    }

    /// Tells our end of the link.
    pub(super) fn tell(&mut self, now: Time, dial: DialInput<'_>, input: Input<'_>) {
        match &mut self.end {
            End::Dialing(dialer) => dialer.handle(now, dial),
            End::Accepted { session, .. } => session.handle(now, input),
        }
    }

    /// What control has to be told of the link's quality, if anything.
    pub(super) fn news(&mut self, now: Time) -> Option<Measured> {
        let measured = self.session()?.measured()?;
        let stale = self.told.is_none_or(|(told, at)| {
            now - at >= SHOW_EVERY || (now - at >= TELL_APART && measured.differs(&told))
        });
        if !stale {
            return None;
        }
        self.told = Some((measured, now));
        Some(measured)
    }

    pub(super) fn info(&self, (queue, rate): (Queue, Option<Bitrate>)) -> LinkInfo {
        let session = self.session();
        let (sent, received) = session.and_then(Session::traffic).unwrap_or_default();
        LinkInfo {
            address: self.address,
            transport: self.transport(),
            peer: self.peer,
            up: self.up,
            suspect: self.up && session.is_some_and(Session::is_suspect),
            rtt: session.and_then(Session::rtt),
            measured: session.and_then(Session::measured),
            sent,
            received,
            queue,
            rate,
        }
    }
}

impl Via {
    /// What a way is dialled by.
    pub(super) fn of(way: &LinkWay) -> Self {
        match way {
            LinkWay::Udp(_) => Self::Datagrams,
            LinkWay::Quic { name, .. } => Self::Quic(quic::Way::new(name.clone())),
            LinkWay::Stream(way) => Self::Stream(Box::new(streams::End::dials(way.clone()))),
        }
    }
}
