//! A byte stream: the same units, over TCP, TLS or a WebSocket, through a proxy or not.

use core::time::Duration;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use sangam_io::clock;
use sangam_io::poll::{Event, Interest, Poller};
use sangam_io::pool::Packet;
use sangam_io::stream::{Framed, FramedError, OutLimits, Progress, Tunnel};
use sangam_io::tcp::connect;
use sangam_model::Time;
use sangam_model::limits::EVENT_LEN_MAX;

use super::intake::{Intake, Order};
use crate::state::Cause;
use crate::way::StreamWay;

/// No event is too long for a stream.
pub(super) const UNIT_MAX: u16 = EVENT_LEN_MAX as u16;
/// Bytes that may wait for a broker that does not read.
const BYTES_MAX: usize = 4 << 20;
/// Units and bytes of it that only frames may take.
const FRAME_UNITS: usize = 64;
const FRAME_BYTES: usize = 128 << 10;
/// How long a connection may take to open, proxy, TLS and HTTP included; the kernel alone would
/// try for two minutes.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the last bytes may take to leave when the client closes.
const FAREWELL: Duration = Duration::from_millis(500);

pub(super) struct Stream {
    way: Arc<StreamWay>,
    /// Of the way's addresses, the one to try next.
    next: usize,
    limits: OutLimits,
    token: u64,
    connection: Option<Connection>,
}

struct Connection {
    phase: Phase,
    /// When to give up opening it; `None` once it is open.
    opening: Option<Time>,
    /// The poller tells when there is room to write.
    writing: bool,
}

/// How far a connection is.
enum Phase {
    Connecting(TcpStream),
    /// The proxy is asked.
    Tunnel(Tunnel),
    /// TLS and HTTP, then units.
    Units(Box<Framed>),
}

impl Stream {
    pub(super) fn new(way: Arc<StreamWay>, queue: usize, token: u64) -> Self {
        let limits = OutLimits {
            units: queue + FRAME_UNITS,
            bytes: BYTES_MAX,
        };
        Self {
            way,
            next: 0,
            limits,
            token,
            connection: None,
        }
    }

    pub(super) fn ready(
        &mut self,
        event: Event,
        intake: &mut Intake<'_>,
        poller: &Poller,
    ) -> io::Result<()> {
        let Some(mut connection) = self.connection.take() else {
            return Ok(());
        };
        let now = clock::now();
        let result = match connection.opening {
            Some(_) => self.open(connection, now, intake),
            None if event.readable || event.closed => {
                connection.read(now, intake).map(|()| connection)
            }
            None => Ok(connection),
        };
        match result {
            Ok(connection) => {
                self.connection = Some(connection);
                self.flush(intake, poller)
            }
            // The descriptor is closed, and the poller has forgotten it.
            Err(cause) => {
                intake.lost(now, cause);
                Ok(())
            }
        }
    }

    pub(super) fn perform(
        &mut self,
        order: Order,
        intake: &mut Intake<'_>,
        poller: &Poller,
    ) -> io::Result<()> {
        match order {
            Order::Connect => self.connect(intake, poller),
            Order::Hello(bytes) | Order::Frame(bytes) => {
                let framed = self.connection.as_mut().and_then(Connection::framed);
                match framed.map(|framed| framed.push_bytes(&bytes)) {
                    None | Some(Ok(())) => Ok(()),
                    Some(Err(error)) => {
                        self.lose(cause(&error), intake);
                        Ok(())
                    }
                }
            }
            // Groups are for those whom datagrams reach.
            Order::Welcomed { .. } | Order::Group(..) => Ok(()),
        }
    }

    /// Queues events; what does not fit is dropped and counted.
    pub(super) fn send(&mut self, events: &[Packet], intake: &Intake<'_>) {
        let mut framed = self.connection.as_mut().and_then(Connection::framed);
        for event in events {
            let queued = framed.as_mut().is_some_and(|framed| {
                let waiting = framed.queued();
                waiting.units + FRAME_UNITS < self.limits.units
                    && waiting.bytes + event.len() + FRAME_BYTES < self.limits.bytes
                    && framed.push(event.clone()).is_ok()
            });
            if !queued {
                intake.shared.counters.dropped_send.add(1);
            }
        }
    }

    /// Writes what the kernel takes.
    pub(super) fn flush(&mut self, intake: &mut Intake<'_>, poller: &Poller) -> io::Result<()> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let waits = match &mut connection.phase {
            Phase::Connecting(_) => true,
            Phase::Tunnel(tunnel) => tunnel.is_asking(),
            Phase::Units(framed) => match framed.write() {
                Ok(done) => !done,
                Err(error) => {
                    self.lose(cause(&error), intake);
                    return Ok(());
                }
            },
        };
        connection.watch(waits, poller, self.token)
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.connection.as_ref()?.opening
    }

    pub(super) fn expire(&mut self, now: Time, intake: &mut Intake<'_>) {
        if let (Some(deadline), Some(connection)) = (self.deadline(), &self.connection)
            && now >= deadline
        {
            let what = match connection.phase {
                Phase::Connecting(_) => "the connection does not open",
                Phase::Tunnel(_) => "the proxy does not answer",
                Phase::Units(_) => "the broker does not finish TLS or HTTP",
            };
            self.lose(what.to_owned().into(), intake);
        }
    }

    pub(super) fn finish(&mut self) {
        let framed = self.connection.as_mut().and_then(Connection::framed);
        let Some(framed) = framed else {
            return;
        };
        let socket = framed.socket();
        let waits = socket.set_nonblocking(false).is_ok()
            && socket.set_write_timeout(Some(FAREWELL)).is_ok();
        if waits {
            framed.finish();
        }
    }

    /// Ends the stream without waiting for anything.
    pub(super) fn leave(&mut self) {
        if let Some(framed) = self.connection.as_mut().and_then(Connection::framed) {
            framed.finish();
        }
        self.connection = None;
    }

    fn connect(&mut self, intake: &mut Intake<'_>, poller: &Poller) -> io::Result<()> {
        self.connection = None;
        let now = clock::now();
        let address = self.way.addresses[self.next % self.way.addresses.len()];
        self.next += 1;
        match connect(address) {
            Ok(socket) => {
                poller.add(socket.as_fd(), self.token, Interest::ReadWrite)?;
                self.connection = Some(Connection {
                    phase: Phase::Connecting(socket),
                    opening: Some(now + PATIENCE),
                    writing: true,
                });
            }
            Err(error) => intake.lost(now, error.to_string()),
        }
        Ok(())
    }

    /// Goes on opening as far as the socket allows; `Err` holds the reason.
    fn open(
        &self,
        mut connection: Connection,
        now: Time,
        intake: &mut Intake<'_>,
    ) -> Result<Connection, Cause> {
        connection.phase = match connection.phase {
            Phase::Connecting(socket) => match socket.take_error() {
                Ok(None) => match &self.way.proxy {
                    Some(proxy) => Phase::Tunnel(Tunnel::new(socket, proxy)),
                    None => self.units(socket)?,
                },
                Ok(Some(error)) | Err(error) => return Err(error.to_string().into()),
            },
            phase => phase,
        };
        connection.phase = match connection.phase {
            Phase::Tunnel(mut tunnel) => match tunnel.advance() {
                Ok(true) => self.units(tunnel.into_socket())?,
                Ok(false) => Phase::Tunnel(tunnel),
                Err(error) => return Err(cause(&error)),
            },
            phase => phase,
        };
        if let Phase::Units(framed) = &mut connection.phase {
            // Writing first: a broker says nothing before it is spoken to.
            framed.write().map_err(|error| cause(&error))?;
            connection.read(now, intake)?;
            if connection.framed().is_some() {
                connection.opening = None;
                intake.connected(now);
            }
        }
        Ok(connection)
    }

    fn units(&self, socket: TcpStream) -> Result<Phase, Cause> {
        match Framed::dial(socket, &self.way.dial, self.limits) {
            Ok(framed) => Ok(Phase::Units(framed.into())),
            Err(error) => Err(cause(&error)),
        }
    }

    fn lose(&mut self, cause: Cause, intake: &mut Intake<'_>) {
        self.connection = None;
        intake.lost(clock::now(), cause);
    }
}

impl Connection {
    /// The stream, once units flow.
    fn framed(&mut self) -> Option<&mut Framed> {
        match &mut self.phase {
            Phase::Units(framed) if framed.is_open() => Some(framed),
            _ => None,
        }
    }

    fn read(&mut self, now: Time, intake: &mut Intake<'_>) -> Result<(), Cause> {
        let Phase::Units(framed) = &mut self.phase else {
            return Ok(());
        };
        match framed.read_units(|unit| intake.unit(now, unit)) {
            Ok(Progress::Idle | Progress::More) => Ok(()),
            Ok(Progress::Closed) => Err("the broker closed the connection".to_owned().into()),
            Err(error) => Err(cause(&error)),
        }
    }

    fn watch(&mut self, writing: bool, poller: &Poller, token: u64) -> io::Result<()> {
        if self.writing == writing {
            return Ok(());
        }
        self.writing = writing;
        let interest = if writing {
            Interest::ReadWrite
        } else {
            Interest::Read
        };
        poller.modify(self.fd(), token, interest)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.phase {
            Phase::Connecting(socket) => socket.as_fd(),
            Phase::Tunnel(tunnel) => tunnel.socket().as_fd(),
            Phase::Units(framed) => framed.fd(),
        }
    }
}

fn cause(error: &FramedError) -> Cause {
    Cause {
        text: error.to_string(),
        certificate: error.is_certificate(),
    }
}
