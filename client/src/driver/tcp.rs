//! A byte stream: the same units, each behind its length.

use core::time::Duration;
use std::io;
use std::net::SocketAddr;

use sangam_io::clock;
use sangam_io::poll::{Event, Interest, Poller};
use sangam_io::pool::Packet;
use sangam_io::stream::{Framed, OutLimits, Progress};
use sangam_io::tcp::connect;
use sangam_model::Time;
use sangam_model::limits::EVENT_LEN_MAX;

use super::SOCKET;
use super::intake::{Intake, Order};

/// No event is too long for a stream.
pub(super) const UNIT_MAX: u16 = EVENT_LEN_MAX as u16;
/// Bytes that may wait for a broker that does not read.
const BYTES_MAX: usize = 4 << 20;
/// Units and bytes of it that only frames may take.
const FRAME_UNITS: usize = 64;
const FRAME_BYTES: usize = 128 << 10;
/// How long a connection may take to open; the kernel alone would try for two minutes.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the last bytes may take to leave when the client closes.
const FAREWELL: Duration = Duration::from_millis(500);

pub(super) struct Tcp {
    address: SocketAddr,
    limits: OutLimits,
    connection: Option<Connection>,
}

struct Connection {
    framed: Framed,
    /// When to give up opening it; `None` once it is open.
    opening: Option<Time>,
    /// The poller tells when there is room to write.
    writing: bool,
}

impl Tcp {
    pub(super) fn new(address: SocketAddr, queue: usize) -> Self {
        let limits = OutLimits {
            units: queue + FRAME_UNITS,
            bytes: BYTES_MAX,
        };
        Self {
            address,
            limits,
            connection: None,
        }
    }

    pub(super) fn ready(
        &mut self,
        event: Event,
        intake: &mut Intake,
        poller: &Poller,
    ) -> io::Result<()> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let now = clock::now();
        let result = match connection.opening {
            Some(_) => connection.opened(now, intake),
            None if event.readable || event.closed => connection.read(now, intake),
            None => Ok(()),
        };
        match result {
            Ok(()) => Ok(()),
            Err(cause) => self.lose(cause, intake, poller),
        }
    }

    pub(super) fn perform(
        &mut self,
        order: Order,
        intake: &mut Intake,
        poller: &Poller,
    ) -> io::Result<()> {
        match order {
            Order::Connect => self.connect(intake, poller),
            Order::Hello(bytes) | Order::Frame(bytes) => {
                let Some(connection) = &mut self.connection else {
                    return Ok(());
                };
                match connection.framed.push_bytes(&bytes) {
                    Ok(()) => Ok(()),
                    Err(error) => self.lose(error.to_string(), intake, poller),
                }
            }
            Order::Welcomed { .. } => Ok(()),
        }
    }

    /// Queues events; what does not fit is dropped and counted.
    pub(super) fn send(&mut self, events: &[Packet], intake: &Intake) {
        for event in events {
            let queued = self.connection.as_mut().is_some_and(|connection| {
                let waiting = connection.framed.queued();
                waiting.units + FRAME_UNITS < self.limits.units
                    && waiting.bytes + event.len() + FRAME_BYTES < self.limits.bytes
                    && connection.framed.push(event.clone()).is_ok()
            });
            if !queued {
                intake.shared.counters.dropped_send.add(1);
            }
        }
    }

    /// Writes what the kernel takes.
    pub(super) fn flush(&mut self, intake: &mut Intake, poller: &Poller) -> io::Result<()> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        if connection.opening.is_some() {
            return Ok(());
        }
        match connection.framed.write() {
            Ok(done) => connection.watch(!done, poller),
            Err(error) => self.lose(error.to_string(), intake, poller),
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.connection.as_ref()?.opening
    }

    pub(super) fn expire(
        &mut self,
        now: Time,
        intake: &mut Intake,
        poller: &Poller,
    ) -> io::Result<()> {
        match self.deadline() {
            Some(deadline) if now >= deadline => {
                self.lose("the connection does not open".into(), intake, poller)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn finish(&mut self) {
        let Some(connection) = self
            .connection
            .as_mut()
            .filter(|open| open.opening.is_none())
        else {
            return;
        };
        let stream = connection.framed.socket();
        let waits = stream.set_nonblocking(false).is_ok()
            && stream.set_write_timeout(Some(FAREWELL)).is_ok();
        if waits && let Err(error) = connection.framed.write() {
            tracing::debug!(%error, "the farewell did not leave");
        }
    }

    fn connect(&mut self, intake: &mut Intake, poller: &Poller) -> io::Result<()> {
        self.drop_connection(poller)?;
        let now = clock::now();
        match connect(self.address) {
            Ok(stream) => {
                let framed = Framed::new(stream, self.limits);
                poller.add(framed.fd(), SOCKET, Interest::ReadWrite)?;
                let opening = Some(now + PATIENCE);
                self.connection = Some(Connection {
                    framed,
                    opening,
                    writing: true,
                });
            }
            Err(error) => intake.lost(now, error.to_string()),
        }
        Ok(())
    }

    fn lose(&mut self, cause: String, intake: &mut Intake, poller: &Poller) -> io::Result<()> {
        self.drop_connection(poller)?;
        intake.lost(clock::now(), cause);
        Ok(())
    }

    fn drop_connection(&mut self, poller: &Poller) -> io::Result<()> {
        match self.connection.take() {
            Some(connection) => poller.remove(connection.framed.fd()),
            None => Ok(()),
        }
    }
}

impl Connection {
    /// The kernel knows how the opening went; `Err` holds the reason.
    fn opened(&mut self, now: Time, intake: &mut Intake) -> Result<(), String> {
        match self.framed.socket().take_error() {
            Ok(None) => {
                self.opening = None;
                intake.connected(now);
                Ok(())
            }
            Ok(Some(error)) | Err(error) => Err(error.to_string()),
        }
    }

    fn read(&mut self, now: Time, intake: &mut Intake) -> Result<(), String> {
        match self.framed.read_units(|unit| intake.unit(now, unit)) {
            Ok(Progress::Idle | Progress::More) => Ok(()),
            Ok(Progress::Closed) => Err("the broker closed the connection".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn watch(&mut self, writing: bool, poller: &Poller) -> io::Result<()> {
        if self.writing == writing {
            return Ok(());
        }
        self.writing = writing;
        let interest = if writing {
            Interest::ReadWrite
        } else {
            Interest::Read
        };
        poller.modify(self.framed.fd(), SOCKET, interest)
    }
}
