//! Groups by which the broker reaches many clients of a segment with one datagram.
//!
//! A client says that it hears a group with the first datagram that arrives there, and that it does
//! not once nothing came for [`QUIET`]: the broker sends copies again from then on. While there
//! are no events the broker sends beacons.

use core::time::Duration;
use std::io;
use std::net::{IpAddr, SocketAddr};

use sangam_io::clock;
use sangam_io::interfaces;
use sangam_io::poll::{Interest, Poller};
use sangam_io::udp::{Datagram, RecvBatch, UdpSocket, is_near, source_towards};
use sangam_model::limits::GROUPS_PER_CLIENT;
use sangam_model::{Class, StreamId, Time};
use sangam_wire::{Frame, Group, Header, Message, is_event};

use super::intake::Intake;

/// Silence after which a group counts as dead: three beacons lost in a row.
const QUIET: Duration = Duration::from_millis(500);
/// How long a group that fell silent is not used again, doubled by every further time, so that a
/// network that loses now and then does not cost half a second of media each time.
const AGAIN: Duration = Duration::from_secs(5);
/// Times it is doubled at most.
const DOUBLED_MAX: u32 = 6;

/// What a client was told to join.
#[derive(Default)]
pub(super) struct Groups {
    /// Opened with the first group.
    ear: Option<Ear>,
    joined: Vec<Joined>,
}

struct Ear {
    socket: UdpSocket,
    interface: u32,
    /// Nobody else is listened to; without the scope of a link-local address.
    broker: (IpAddr, u16),
}

struct Joined {
    stream: StreamId,
    group: IpAddr,
    heard: Time,
    hears: bool,
    /// Not believed before.
    not_before: Time,
    falls: u32,
}

impl Groups {
    /// Joins the group of a stream, for what comes from the broker's `port`.
    ///
    /// # Errors
    /// This machine cannot; the broker goes on sending copies.
    pub(super) fn join(
        &mut self,
        stream: StreamId,
        group: Group,
        (broker, buffer): (SocketAddr, usize),
        (poller, token): (&Poller, u64),
    ) -> io::Result<()> {
        self.leave(stream);
        let ip = group.address.ip();
        if self.joined.len() >= GROUPS_PER_CLIENT || !is_near(ip) {
            return Err(io::Error::other(
                "more groups than a client joins, or none to join",
            ));
        }
        let source = (group.source, broker.port());
        let ear = match &mut self.ear {
            Some(ear) => ear,
            none => {
                let socket = UdpSocket::for_groups(group.address.port(), ip.is_ipv6(), buffer)?;
                let interface = interfaces::index_of(source_towards(broker)?)?;
                poller.add(socket.fd(), token, Interest::Read)?;
                none.insert(Ear {
                    socket,
                    interface,
                    broker: source,
                })
            }
        };
        let port = ear.socket.local_addr().port();
        if ear.broker != source || port != group.address.port() {
            return Err(io::Error::other(
                "a broker has one source and port of groups",
            ));
        }
        ear.socket.join(ip, group.source, ear.interface)?;
        self.joined.push(Joined {
            stream,
            group: ip,
            heard: Time::ZERO,
            hears: false,
            not_before: Time::ZERO,
            falls: 0,
        });
        Ok(())
    }

    /// Leaves the group of a stream, if it has one.
    pub(super) fn leave(&mut self, stream: StreamId) {
        let Some(at) = self.joined.iter().position(|one| one.stream == stream) else {
            return;
        };
        let Joined { group, .. } = self.joined.swap_remove(at);
        if let Some(ear) = &self.ear
            && !self.joined.iter().any(|other| other.group == group)
            && let Err(error) = ear.socket.leave(group, ear.broker.0, ear.interface)
        {
            tracing::debug!(%group, %error, "leaving a group failed");
        }
    }

    /// Takes what arrived, at most `reads` times as much as a batch holds.
    pub(super) fn read(
        &mut self,
        batch: &mut RecvBatch,
        reads: usize,
        intake: &mut Intake<'_>,
    ) -> io::Result<()> {
        let Some(ear) = &self.ear else {
            return Ok(());
        };
        for _ in 0..reads {
            let count = ear.socket.recv(batch)?;
            let now = clock::now();
            for datagram in batch.datagrams() {
                if (datagram.source.ip(), datagram.source.port()) == ear.broker {
                    take(&mut self.joined, now, datagram, intake);
                } else {
                    intake.shared.counters.dropped_forged.add(1);
                }
            }
            if count < batch.capacity() {
                break;
            }
        }
        Ok(())
    }

    /// When a group counts as silent.
    pub(super) fn deadline(&self) -> Option<Time> {
        let heard = self.joined.iter().filter(|one| one.hears);
        heard.map(|one| one.heard + QUIET).min()
    }

    /// Tells of the groups that have fallen silent.
    pub(super) fn expire(&mut self, now: Time, intake: &mut Intake<'_>) {
        for one in &mut self.joined {
            if one.hears && one.heard + QUIET <= now {
                one.hears = false;
                one.not_before = now + AGAIN * (1 << one.falls.min(DOUBLED_MAX));
                one.falls += 1;
                say(one, now, intake);
            }
        }
    }
}

/// Takes a datagram from the broker.
fn take(joined: &mut [Joined], now: Time, datagram: Datagram<'_>, intake: &mut Intake<'_>) {
    let bytes = datagram.bytes;
    let event = bytes.first().copied().and_then(is_event);
    let stream = match event {
        Some(true) => Header::decode(bytes)
            .ok()
            .filter(|header| header.class != Class::Feedback)
            .map(|header| header.stream),
        Some(false) => match Frame::decode(bytes) {
            Ok(Frame::Beacon { stream }) => Some(stream),
            _ => None,
        },
        None => None,
    };
    let Some(stream) = stream else {
        return intake.malformed();
    };
    // What comes for a group that was left meanwhile is no fault.
    let Some(one) = joined.iter_mut().find(|one| one.stream == stream) else {
        return;
    };
    one.heard = now;
    if !one.hears && now >= one.not_before {
        one.hears = true;
        say(one, now, intake);
    }
    if event == Some(true) && intake.is_up() {
        intake.shared.counters.by_group.add(1);
        intake.unit(now, bytes);
    }
}

fn say(one: &Joined, now: Time, intake: &mut Intake<'_>) {
    let (stream, hears) = (one.stream, one.hears);
    tracing::debug!(%stream, group = %one.group, hears, "a group");
    intake.line.send(now, Message::Hearing { stream, hears });
}
