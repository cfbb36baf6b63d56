//! Neighbours by streams: TCP, TLS and WebSockets, through a proxy or not.
//!
//! A neighbour calls at the ports where clients come in; the shard that was called hands the
//! stream over with the hello, so no handshake of a caller costs the lane time. What waits for a
//! neighbour waits in its outbox, in the order of service; the stream itself is given little.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use sangam_broker::{DropReason, LinkId};
use sangam_io::poll::{Event, Events, Poller};
use sangam_io::quic::broker_of;
use sangam_io::stream::{Connection, Dial, Framed, FramedError, OutLimits, Progress, Way};
use sangam_io::tcp::limit_unsent;
use sangam_io::tls::ServerName;
use sangam_link::DialInput;
use sangam_model::limits::LINKS_PER_BROKER;
use sangam_model::{BrokerId, Time};
use sangam_wire::{Frame, is_event};

use super::Lane;
use super::ingest::Source;
use super::kernel::Kernel;
use super::link::{End as LinkEnd, Via};
use super::outbox::Taken;
use super::reception::Callers;
use crate::certificate::Certificate;
use crate::config::{StreamWay, Transport};

/// What may wait in a stream that is dialled. Events enter it while less waits in it than leaves
/// in a moment: what is urgent overtakes the rest until then, in the outbox.
const LIMITS: OutLimits = OutLimits {
    units: 4_096,
    bytes: 512 << 10,
};
/// Bytes that wait in the kernel and are not in flight, before the stream's rate is known. Later
/// it keeps what leaves in a moment, and is told if that changes by more than this share.
const UNSENT: u64 = 64 << 10;
const UNSENT_STEP: u64 = 4;
/// The lane's streams.
#[derive(Debug)]
pub(crate) struct Streams {
    callers: Callers,
    certificate: Certificate,
    poller: Poller,
    /// Away while they are looked at.
    events: Option<Events>,
    /// Links with a stream, and those with something to write, as bit sets.
    open: u64,
    dirty: u64,
}

/// One end of a stream between brokers.
#[derive(Debug)]
pub(super) struct End {
    pub(super) transport: Transport,
    /// What is dialled; `None` at the end that was called.
    to: Option<StreamWay>,
    /// The same, ready to be dialled.
    way: Option<Way>,
    /// Away while its units are read.
    connection: Option<Connection>,
    /// What the kernel was told to keep of it.
    unsent: u64,
    /// Its congestion control, where there is a choice.
    kernel: Option<Kernel>,
    /// Whose key the neighbour has proved to hold.
    pub(super) identity: Option<BrokerId>,
}

impl Streams {
    /// No streams yet.
    ///
    /// # Errors
    /// The kernel gives no epoll descriptor.
    pub(crate) fn new(callers: Callers, certificate: Certificate) -> io::Result<Self> {
        Ok(Self {
            callers,
            certificate,
            poller: Poller::new()?,
            events: Some(Events::with_capacity(LINKS_PER_BROKER)),
            open: 0,
            dirty: 0,
        })
    }

    /// Tells of all streams together.
    pub(super) fn poller(&self) -> &Poller {
        &self.poller
    }

    /// Neighbours that called at ports for clients.
    pub(super) fn callers(&self) -> &Callers {
        &self.callers
    }

    pub(super) fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    fn close(&mut self, id: LinkId) {
        self.open &= !(1 << id.0);
        self.dirty &= !(1 << id.0);
    }
}

impl End {
    pub(super) fn dials(to: StreamWay) -> Self {
        Self {
            transport: to.transport,
            to: Some(to),
            way: None,
            connection: None,
            unsent: UNSENT,
            kernel: None,
            identity: None,
        }
    }

    fn called(transport: Transport, framed: Framed, now: Time) -> Self {
        keep_unsent(framed.socket(), UNSENT);
        Self {
            transport,
            to: None,
            way: None,
            unsent: UNSENT,
            kernel: Kernel::steady(framed.socket(), now),
            identity: framed.certificate().and_then(broker_of),
            connection: Some(Connection::over(framed)),
        }
    }

    pub(super) fn framed(&mut self) -> Option<&mut Framed> {
        self.connection.as_mut()?.framed()
    }

    /// Has the kernel keep no more than this of what has not left.
    fn commit(&mut self, bytes: u64, framed: &Framed) {
        if bytes.abs_diff(self.unsent) > self.unsent / UNSENT_STEP {
            self.unsent = bytes;
            keep_unsent(framed.socket(), bytes);
        }
    }

    fn dial(&mut self, certificate: &Certificate, now: Time) -> Result<&Connection, String> {
        let to = self.to.as_ref().ok_or("the neighbour has to call")?;
        let tls = certificate.call(to.transport)?;
        let name = || {
            let wrong = |_| format!("{:?} is neither a host name nor an address", to.name);
            ServerName::try_from(to.name.clone()).map_err(wrong)
        };
        let way = Way {
            addresses: vec![to.address],
            proxy: to.proxy.clone(),
            dial: Dial {
                tls: tls.map(|tls| Ok::<_, String>((tls, name()?))).transpose()?,
                websocket: to.websocket.clone(),
            },
        };
        let dialled = Connection::dial(&way, 0, now).map_err(|error| error.to_string())?;
        self.identity = None;
        self.unsent = UNSENT;
        self.way = Some(way);
        Ok(self.connection.insert(dialled))
    }
}

impl Lane {
    /// Takes what has come by streams; whether there may be more.
    pub(super) fn receive_streams(&mut self) -> bool {
        if self.streams.open == 0 {
            return false;
        }
        let Some(mut events) = self.streams.events.take() else {
            return false;
        };
        let mut more = false;
        match self.streams.poller.wait(&mut events, Some(Duration::ZERO)) {
            Ok(_) => {
                for event in events.iter() {
                    more |= self.stream_ready(LinkId(event.token as u16), event);
                }
            }
            Err(error) => tracing::error!(%error, "streams of neighbours cannot be polled"),
        }
        self.streams.events = Some(events);
        more
    }

    /// Gives up streams that do not open.
    pub(super) fn run_streams(&mut self) {
        let mut open = self.streams.open;
        while open != 0 {
            let id = LinkId(open.trailing_zeros() as u16);
            open &= open - 1;
            let link = self.links.get_mut(id);
            let end = link.and_then(|link| link.stream_mut());
            let connection = end.and_then(|end| end.connection.as_ref());
            let late = |one: &&Connection| one.deadline().is_some_and(|at| at <= self.now);
            if let Some(cause) = connection.filter(late).map(Connection::overdue) {
                self.lost(id, cause);
            }
        }
    }

    /// A link over a stream that was handed over; `None` if there are too many.
    pub(super) fn place_stream(
        &mut self,
        (framed, transport, address): (Framed, Transport, SocketAddr),
        end: LinkEnd,
    ) -> Option<LinkId> {
        let stream = End::called(transport, framed, self.now);
        let id = self
            .links
            .place(address, end, Via::Stream(Box::new(stream)))?;
        self.watch_stream(id)
            .map_err(|cause| self.lost(id, &cause))
            .ok()?;
        Some(id)
    }

    /// Dials the stream of a link.
    pub(super) fn connect_stream(&mut self, id: LinkId) {
        let now = self.now;
        let certificate = self.streams.certificate.clone();
        let Some(end) = self.links.get_mut(id).and_then(|link| link.stream_mut()) else {
            return;
        };
        let dialled = end.dial(&certificate, now).map(|_| ());
        if let Err(cause) = dialled.and_then(|()| self.watch_stream(id)) {
            self.lost(id, &cause);
        }
    }

    fn watch_stream(&mut self, id: LinkId) -> Result<(), String> {
        let end = self.links.get_mut(id).and_then(|link| link.stream_mut());
        let Some(connection) = end.and_then(|end| end.connection.as_ref()) else {
            return Ok(());
        };
        let (fd, interest) = (connection.fd(), connection.interest());
        let watched = self.streams.poller.add(fd, id.0.into(), interest);
        self.streams.open |= 1 << id.0;
        watched.map_err(|error| error.to_string())
    }

    /// Two links have changed their ways.
    pub(super) fn exchange_streams(&mut self, [one, other]: [LinkId; 2]) {
        for bits in [&mut self.streams.open, &mut self.streams.dirty] {
            let (a, b) = ((*bits >> one.0) & 1, (*bits >> other.0) & 1);
            *bits &= !(1 << one.0 | 1 << other.0);
            *bits |= b << one.0 | a << other.0;
        }
        for id in [one, other] {
            let end = self.links.get_mut(id).and_then(|link| link.stream_mut());
            let Some(connection) = end.and_then(|end| end.connection.as_ref()) else {
                continue;
            };
            let (fd, interest) = (connection.fd(), connection.interest());
            if let Err(error) = self.streams.poller.modify(fd, id.0.into(), interest) {
                tracing::warn!(%error, "the stream of a neighbour cannot be watched");
            }
        }
    }

    /// Whether there may be more to read.
    fn stream_ready(&mut self, id: LinkId, event: Event) -> bool {
        let end = self.links.get_mut(id).and_then(|link| link.stream_mut());
        let Some((end, connection)) = end.and_then(|end| {
            let connection = end.connection.take()?;
            Some((end, connection))
        }) else {
            return false;
        };
        let opening = connection.deadline().is_some();
        let advanced = match &end.way {
            Some(way) => connection.advance(way, LIMITS),
            None => Ok(connection),
        };
        let mut connection = match advanced {
            Ok(connection) => connection,
            Err(error) => {
                self.stream_failed(id, &error);
                return false;
            }
        };
        let mut progress = Ok(Progress::Idle);
        let mut moves = false;
        if opening || event.readable || event.closed {
            progress = connection.read(|unit| moves |= self.unit_by_stream(unit, id));
        }
        let opened = connection.has_opened();
        self.put_back(id, connection);
        if opened {
            self.opened(id);
        }
        self.streams.dirty |= 1 << id.0;
        let id = if moves { self.take_way(id) } else { id };
        self.drain_link(id);
        match progress {
            Ok(Progress::Idle) => false,
            Ok(Progress::More) => true,
            Ok(Progress::Closed) => {
                self.lost(id, "the neighbour closed the connection");
                false
            }
            Err(error) => {
                self.stream_failed(id, &error);
                false
            }
        }
    }

    fn put_back(&mut self, id: LinkId, connection: Connection) {
        if let Some(end) = self.links.get_mut(id).and_then(|link| link.stream_mut()) {
            end.connection = Some(connection);
        }
    }

    fn opened(&mut self, id: LinkId) {
        let now = self.now;
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let Via::Stream(end) = &mut link.via else {
            return;
        };
        if let Some(framed) = end.connection.as_mut().and_then(Connection::framed) {
            keep_unsent(framed.socket(), UNSENT);
            end.kernel = Kernel::steady(framed.socket(), now);
            end.identity = framed.certificate().and_then(broker_of);
        }
        if let LinkEnd::Dialing(dialer) = &mut link.end {
            dialer.handle(now, DialInput::Connected);
        }
    }

    /// Takes a unit; what the link wants in return waits until all are read. Whether it was a
    /// frame that moves the link here.
    fn unit_by_stream(&mut self, unit: &[u8], id: LinkId) -> bool {
        match unit.first().copied().and_then(is_event) {
            Some(true) => self.event(unit, Source::Link(id)),
            Some(false) => match Frame::decode(unit) {
                Ok(frame) => {
                    self.counters.frames.add(1);
                    self.tell_link(id, &frame);
                    return self.is_called_for(id, &frame);
                }
                Err(error) => self.malformed(error),
            },
            None => self.counters.dropped(DropReason::Version),
        }
        false
    }

    fn stream_failed(&mut self, id: LinkId, error: &FramedError) {
        if error.is_certificate() {
            self.counters.dropped(DropReason::LinkIdentity);
        }
        self.lost(id, &error.to_string());
    }

    /// Queues a link frame; it leaves with the next flush. Whether there was room.
    pub(super) fn push_frame(&mut self, id: LinkId, frame: &[u8]) -> bool {
        let end = self.links.get_mut(id).and_then(|link| link.stream_mut());
        let framed = end.and_then(End::framed);
        self.streams.dirty |= 1 << id.0;
        framed.is_some_and(|framed| framed.push_bytes(frame).is_ok())
    }

    /// Something waits in the stream of a link.
    pub(super) fn has_to_write(&mut self, id: LinkId) {
        self.streams.dirty |= 1 << id.0;
    }

    /// Writes what waits in the streams.
    pub(super) fn flush_streams(&mut self) {
        while self.streams.dirty != 0 {
            let id = LinkId(self.streams.dirty.trailing_zeros() as u16);
            self.streams.dirty &= self.streams.dirty - 1;
            if let Err(error) = self.write_stream(id) {
                self.stream_failed(id, &error);
            }
        }
    }

    fn write_stream(&mut self, id: LinkId) -> Result<(), FramedError> {
        let end = self.links.get_mut(id).and_then(|link| link.stream_mut());
        let Some((end, mut connection)) = end.and_then(|end| {
            let connection = end.connection.take()?;
            Some((end, connection))
        }) else {
            return Ok(());
        };
        let before = connection.framed().map(|framed| framed.taken());
        let written = connection.write();
        let full = written.as_ref().is_ok_and(|waits| *waits);
        if let (Some(before), Some(framed)) = (before, connection.framed()) {
            let taken = Taken {
                bytes: framed.taken() - before,
                waiting: framed.queued().bytes as u64,
                full,
            };
            let committed = self.outboxes.taken(id, self.now, taken);
            end.commit(committed.unwrap_or(UNSENT), framed);
            if let Some(kernel) = &mut end.kernel {
                kernel.look(framed.socket(), self.now);
            }
        }
        let watched = connection.watch(full, &self.streams.poller, id.0.into());
        end.connection = Some(connection);
        written?;
        watched.map_err(FramedError::Io)
    }

    /// Ends the stream of a link, in good order as far as the kernel takes it at once.
    pub(super) fn hang_up_stream(&mut self, id: LinkId) {
        self.streams.close(id);
        let end = self.links.get_mut(id).and_then(|link| link.stream_mut());
        let Some(mut connection) = end.and_then(|end| end.connection.take()) else {
            return;
        };
        if let Some(framed) = connection.framed() {
            framed.finish();
        }
    }

    pub(super) fn forget_stream(&mut self, id: LinkId) {
        self.streams.close(id);
        if let Some(end) = self.links.get_mut(id).and_then(|link| link.stream_mut()) {
            end.connection = None;
        }
    }

    pub(super) fn streams_deadline(&self) -> Option<Time> {
        if self.streams.open == 0 {
            return None;
        }
        let links = self.links.links.iter().flatten();
        let deadlines = links.filter_map(|link| match &link.via {
            Via::Stream(end) => end.connection.as_ref()?.deadline(),
            _ => None,
        });
        deadlines.min()
    }
}

/// What is not in flight waits where it can be shed.
fn keep_unsent(socket: &std::net::TcpStream, bytes: u64) {
    // At most 64 KiB.
    if let Err(error) = limit_unsent(socket, bytes as i32) {
        tracing::debug!(%error, "the kernel keeps as much as it likes of a stream");
    }
}
