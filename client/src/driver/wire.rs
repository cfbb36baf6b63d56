//! How the bytes of one link travel.

use std::io;

use sangam_io::poll::{Event, Poller};
use sangam_io::pool::Packet;
use sangam_model::Time;

use super::QUEUE_MIN;
use super::intake::{Intake, Order};
use super::quic::Quic;
use super::stream::{self, Stream};
use super::udp::{self, Udp};
use crate::ClientOptions;
use crate::way::Way;

pub(super) enum Wire {
    Udp(Box<Udp>),
    Stream(Box<Stream>),
    Quic(Box<Quic>),
}

impl Wire {
    /// Opens what a way needs before it is dialled; the poller tells of it by `token`.
    pub(super) fn open(
        way: &Way,
        options: &ClientOptions,
        poller: &Poller,
        token: u64,
    ) -> io::Result<Self> {
        match way {
            Way::Udp(address) => {
                let udp = Udp::open(*address, options, token)?;
                udp.register(poller)?;
                Ok(Self::Udp(Box::new(udp)))
            }
            Way::Stream(way) => {
                let queue = options.queue.max(QUEUE_MIN);
                let stream = Stream::new(way.clone(), queue, token);
                Ok(Self::Stream(Box::new(stream)))
            }
            Way::Quic(way) => {
                let quic = Quic::open(way.clone(), options)?;
                quic.register(poller, token)?;
                Ok(Self::Quic(Box::new(quic)))
            }
        }
    }

    /// Something can be read or written.
    pub(super) fn ready(
        &mut self,
        event: Event,
        intake: &mut Intake<'_>,
        poller: &Poller,
    ) -> io::Result<()> {
        match self {
            Self::Udp(udp) => udp.read(intake),
            Self::Stream(stream) => stream.ready(event, intake, poller),
            Self::Quic(quic) => quic.read(intake),
        }
    }

    pub(super) fn perform(
        &mut self,
        order: Order,
        intake: &mut Intake<'_>,
        poller: &Poller,
    ) -> io::Result<()> {
        match self {
            Self::Udp(udp) => {
                udp.perform(order, intake, poller);
                Ok(())
            }
            Self::Stream(stream) => stream.perform(order, intake, poller),
            Self::Quic(quic) => {
                quic.perform(order, intake);
                Ok(())
            }
        }
    }

    /// Sends events, or drops and counts them.
    pub(super) fn send(&mut self, events: &[Packet], intake: &Intake<'_>) {
        match self {
            Self::Udp(udp) => udp.send(events, intake),
            Self::Stream(stream) => stream.send(events, intake),
            Self::Quic(quic) => quic.send(events, intake),
        }
    }

    pub(super) fn flush(&mut self, intake: &mut Intake<'_>, poller: &Poller) -> io::Result<()> {
        match self {
            Self::Udp(_) => Ok(()),
            Self::Stream(stream) => stream.flush(intake, poller),
            Self::Quic(quic) => {
                quic.flush(intake);
                Ok(())
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        match self {
            Self::Udp(udp) => udp.deadline(),
            Self::Stream(stream) => stream.deadline(),
            Self::Quic(quic) => quic.deadline(),
        }
    }

    pub(super) fn expire(&mut self, now: Time, intake: &mut Intake<'_>) {
        match self {
            Self::Udp(udp) => udp.expire(now, intake),
            Self::Stream(stream) => stream.expire(now, intake),
            Self::Quic(quic) => quic.expire(now, intake),
        }
    }

    /// Whether what has come may wait for more: by a stream, which holds up all that follows, and
    /// while this end is behind, it may not.
    pub(super) fn may_gather(&self) -> bool {
        match self {
            Self::Udp(udp) => udp.is_even(),
            Self::Stream(_) | Self::Quic(_) => false,
        }
    }

    /// Gives what was sent last a chance to leave.
    pub(super) fn finish(&mut self) {
        match self {
            Self::Udp(_) => {}
            Self::Stream(stream) => stream.finish(),
            Self::Quic(quic) => quic.finish(),
        }
    }

    /// The same without waiting: another link goes on.
    pub(super) fn leave(&mut self) {
        match self {
            Self::Udp(_) => {}
            Self::Stream(stream) => stream.leave(),
            // Nothing it does waits.
            Self::Quic(quic) => quic.finish(),
        }
    }
}

/// The largest unit or datagram of this side of a way.
pub(super) fn datagram_max(way: &Way, options: &ClientOptions) -> u16 {
    match way {
        Way::Udp(address) => udp::datagram_max(*address, options),
        Way::Stream(_) | Way::Quic(_) => stream::UNIT_MAX,
    }
}
