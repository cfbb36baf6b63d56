//! Datagrams: one socket for the hello, control frames and media.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use sangam_io::clock;
use sangam_io::poll::{Interest, Poller};
use sangam_io::pool::Packet;
use sangam_io::udp::{Address, RecvBatch, SendBatch, SendReport, UdpOptions, UdpSocket, path_mtu};
use sangam_link::fragment;
use sangam_model::limits::{DATAGRAM_LEN_SAFE, EVENT_LEN_MAX};
use sangam_model::{Class, StreamId, Time};
use sangam_wire::{DATAGRAM_MIN, Group};

use super::groups::Groups;
use super::intake::{Intake, Order};
use crate::ClientOptions;

/// Messages of one recvmmsg call; with UDP_GRO each may hold a whole burst.
const MESSAGES: usize = 8;
/// Calls before others have their turn.
const READS_MAX: usize = 8;
/// Header and extensions of one piece of an event, at most.
const PIECE_OVERHEAD: usize = 256;

pub(super) struct Udp {
    socket: UdpSocket,
    batch: RecvBatch,
    sender: SendBatch,
    /// The address that is dialled.
    dialled: SocketAddr,
    /// The broker's port for control frames and feedback.
    control: SocketAddr,
    /// The broker's port for what is published.
    media: SocketAddr,
    datagram_max: usize,
    /// Pieces of a large event, one behind the other, and where each ends.
    pieces: Vec<u8>,
    ends: Vec<usize>,
    groups: Groups,
    /// Something may be left from the last turn.
    behind: bool,
    /// Bytes of receive buffer of either socket, and what the poller calls them.
    socket_buffer: usize,
    token: u64,
}

/// The largest datagram on the way to the broker.
pub(super) fn datagram_max(address: SocketAddr, options: &ClientOptions) -> u16 {
    let path = path_mtu(address).unwrap_or(DATAGRAM_LEN_SAFE as u16);
    options.datagram_max.unwrap_or(path).max(DATAGRAM_MIN)
}

/// A socket of the family of `address`.
pub(super) fn bind(
    address: SocketAddr,
    options: &ClientOptions,
    path_mtu_discovery: bool,
) -> io::Result<UdpSocket> {
    let any = match address.ip() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let wanted = UdpOptions {
        recv_buffer: options.socket_buffer,
        send_buffer: options.socket_buffer,
        gro: true,
        path_mtu_discovery,
        ..UdpOptions::default()
    };
    let local = options.local.unwrap_or(SocketAddr::new(any, 0));
    UdpSocket::bind(local, &wanted)
}

impl Udp {
    pub(super) fn open(
        address: SocketAddr,
        options: &ClientOptions,
        token: u64,
    ) -> io::Result<Self> {
        Ok(Self {
            socket: bind(address, options, false)?,
            batch: RecvBatch::new(MESSAGES, usize::from(u16::MAX)),
            sender: SendBatch::new(),
            dialled: address,
            control: address,
            media: address,
            datagram_max: DATAGRAM_LEN_SAFE,
            pieces: Vec::new(),
            ends: Vec::new(),
            groups: Groups::default(),
            behind: false,
            socket_buffer: options.socket_buffer,
            token,
        })
    }

    pub(super) fn register(&self, poller: &Poller) -> io::Result<()> {
        poller.add(self.socket.fd(), self.token, Interest::Read)
    }

    /// Whether the last turn took all that had come by then.
    pub(super) fn is_even(&self) -> bool {
        !self.behind
    }

    pub(super) fn read(&mut self, intake: &mut Intake<'_>) -> io::Result<()> {
        self.behind = true;
        for _ in 0..READS_MAX {
            let count = self.socket.recv(&mut self.batch)?;
            let now = clock::now();
            for datagram in self.batch.datagrams() {
                // The welcome comes from a port that is not known before.
                let known = [self.dialled, self.control, self.media]
                    .iter()
                    .any(|peer| peer.port() == datagram.source.port());
                let expected = known || !intake.is_up();
                if expected && datagram.source.ip() == self.dialled.ip() {
                    intake.unit(now, datagram.bytes);
                } else {
                    intake.malformed();
                }
            }
            if count < MESSAGES {
                self.behind = false;
                break;
            }
        }
        // Behind the copies: those sent before the group took over come first.
        self.groups.read(&mut self.batch, READS_MAX, intake)
    }

    pub(super) fn perform(&mut self, order: Order, intake: &Intake<'_>, poller: &Poller) {
        match order {
            Order::Connect => {}
            Order::Hello(bytes) => self.frame(&bytes, self.dialled, intake),
            Order::Frame(bytes) => self.frame(&bytes, self.control, intake),
            Order::Group(stream, None) => self.groups.leave(stream),
            Order::Group(stream, Some(group)) => self.join(stream, group, poller),
            Order::Welcomed {
                control_port,
                media_port,
                datagram_max,
            } => {
                let port = |port| {
                    let mut address = self.dialled;
                    if port != 0 {
                        address.set_port(port);
                    }
                    address
                };
                // A new session, which knows of no groups.
                self.groups = Groups::default();
                (self.control, self.media) = (port(control_port), port(media_port));
                self.datagram_max = datagram_max.into();
            }
        }
    }

    /// Who cannot join goes on with copies.
    fn join(&mut self, stream: StreamId, group: Group, poller: &Poller) {
        let broker = (self.control, self.socket_buffer);
        let joined = (self.groups).join(stream, group, broker, (poller, self.token));
        if let Err(error) = joined {
            tracing::debug!(group = %group.address, %error, "a group cannot be joined");
        }
    }

    /// When a group counts as silent.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.groups.deadline()
    }

    pub(super) fn expire(&mut self, now: Time, intake: &mut Intake<'_>) {
        self.groups.expire(now, intake);
    }

    /// Sends events in order; those in a row that fit, in as few calls as they allow.
    pub(super) fn send(&mut self, events: &[Packet], intake: &Intake<'_>) {
        let mut report = SendReport::default();
        let (control, media) = (Address::from(self.control), Address::from(self.media));
        let address = |event: &Packet| {
            let feedback = event
                .header()
                .is_ok_and(|header| header.class == Class::Feedback);
            if feedback { control } else { media }
        };
        let mut rest = events;
        while !rest.is_empty() {
            let fitting = rest
                .iter()
                .take_while(|event| event.len() <= self.datagram_max);
            let (now, later) = rest.split_at(fitting.count());
            let packets = now.iter().map(|event| (address(event), &event[..]));
            self.sender.send(&self.socket, packets, &mut report);
            rest = later;
            if let Some((large, later)) = rest.split_first() {
                self.send_pieces(large, address(large), &mut report);
                rest = later;
            }
        }
        intake
            .shared
            .counters
            .dropped_send
            .add(report.would_block + report.errors);
    }

    /// Splits an event that is larger than a datagram. All pieces but the last have one size.
    fn send_pieces(&mut self, event: &Packet, to: Address, report: &mut SendReport) {
        let Ok(mut fragments) = fragment(event, self.datagram_max) else {
            report.errors += 1;
            return;
        };
        self.ends.clear();
        let mut end = 0;
        loop {
            self.pieces.resize(
                self.pieces.len().max(end + EVENT_LEN_MAX + PIECE_OVERHEAD),
                0,
            );
            match fragments.write_next(&mut self.pieces[end..]) {
                Some(Ok(len)) => end += len,
                Some(Err(_)) => {
                    report.errors += 1;
                    return;
                }
                None => break,
            }
            self.ends.push(end);
        }
        let mut sent = SendReport::default();
        let starts = core::iter::once(0).chain(self.ends.iter().copied());
        let pieces = starts
            .zip(&self.ends)
            .map(|(start, &end)| (to, &self.pieces[start..end]));
        self.sender.send(&self.socket, pieces, &mut sent);
        // An event without one of its pieces is lost.
        report.errors += u64::from(sent.would_block + sent.errors > 0);
    }

    fn frame(&mut self, bytes: &[u8], to: SocketAddr, intake: &Intake<'_>) {
        let mut report = SendReport::default();
        self.sender
            .send(&self.socket, [(Address::from(to), bytes)], &mut report);
        if report.unreachable + report.denied > 0 {
            let cause = format!("this machine cannot send to {to}");
            intake.shared.state().set_cause(cause.into());
        }
    }
}
