//! A byte stream: the same units, over TCP, TLS or a WebSocket, through a proxy or not.

use core::time::Duration;
use std::io;
use std::sync::Arc;

use sangam_io::clock;
use sangam_io::poll::{Event, Poller};
use sangam_io::pool::Packet;
use sangam_io::stream::{Connection, FramedError, OutLimits, Progress, Way};
use sangam_model::Time;
use sangam_model::limits::EVENT_LEN_MAX;

use super::intake::{Intake, Order};
use crate::state::Cause;

/// No event is too long for a stream.
pub(super) const UNIT_MAX: u16 = EVENT_LEN_MAX as u16;
/// Bytes that may wait for a broker that does not read.
const BYTES_MAX: usize = 4 << 20;
/// Units and bytes of it that only frames may take.
const FRAME_UNITS: usize = 64;
const FRAME_BYTES: usize = 128 << 10;
/// How long the last bytes may take to leave when the client closes.
const FAREWELL: Duration = Duration::from_millis(500);

pub(super) struct Stream {
    way: Arc<Way>,
    /// Of the way's addresses, the one to try next.
    next: usize,
    limits: OutLimits,
    token: u64,
    connection: Option<Connection>,
}

impl Stream {
    pub(super) fn new(way: Arc<Way>, queue: usize, token: u64) -> Self {
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
        let Some(connection) = self.connection.take() else {
            return Ok(());
        };
        let now = clock::now();
        match self.progress(connection, event, intake) {
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

    /// Opens the connection further, or reads what has come; `Err` holds why it ends.
    fn progress(
        &self,
        connection: Connection,
        event: Event,
        intake: &mut Intake<'_>,
    ) -> Result<Connection, Cause> {
        let now = clock::now();
        let opening = connection.deadline().is_some();
        let advanced = connection.advance(&self.way, self.limits);
        let mut connection = advanced.map_err(|error| cause(&error))?;
        if opening || event.readable || event.closed {
            match connection.read(|unit| intake.unit(now, unit)) {
                Ok(Progress::Idle | Progress::More) => {}
                Ok(Progress::Closed) => {
                    return Err("the broker closed the connection".to_owned().into());
                }
                Err(error) => return Err(cause(&error)),
            }
        }
        if connection.has_opened() {
            intake.connected(now);
        }
        Ok(connection)
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
        match connection.write() {
            Ok(waits) => connection.watch(waits, poller, self.token),
            Err(error) => {
                self.lose(cause(&error), intake);
                Ok(())
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.connection.as_ref()?.deadline()
    }

    pub(super) fn expire(&mut self, now: Time, intake: &mut Intake<'_>) {
        if let (Some(deadline), Some(connection)) = (self.deadline(), &self.connection)
            && now >= deadline
        {
            self.lose(connection.overdue().to_owned().into(), intake);
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
        let turn = self.next;
        self.next += 1;
        match Connection::dial(&self.way, turn, now) {
            Ok(connection) => {
                poller.add(connection.fd(), self.token, connection.interest())?;
                self.connection = Some(connection);
            }
            Err(error) => intake.lost(now, error.to_string()),
        }
        Ok(())
    }

    fn lose(&mut self, cause: Cause, intake: &mut Intake<'_>) {
        self.connection = None;
        intake.lost(clock::now(), cause);
    }
}

fn cause(error: &FramedError) -> Cause {
    Cause {
        text: error.to_string(),
        certificate: error.is_certificate(),
    }
}
