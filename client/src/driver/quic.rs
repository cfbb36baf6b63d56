//! QUIC: frames on a stream, media in datagrams, everything encrypted.

use core::time::Duration;
use std::io;

use sangam_io::clock;
use sangam_io::poll::{Interest, Poller};
use sangam_io::pool::Packet;
use sangam_io::quic::{Config, Endpoint, Event, Key};
use sangam_model::Time;

use super::intake::{Intake, Order};
use super::{SOCKET, udp};
use crate::{ClientOptions, QuicTarget};

/// A broker that is not heard for so long is gone, if the session has not noticed before.
const IDLE: Duration = Duration::from_secs(30);
/// The connection that is used, and earlier ones that are being closed.
const CONNECTIONS: usize = 16;
/// Batches before others have their turn.
const READS_MAX: usize = 8;
/// Larger packets than Ethernet carries would only be probed for in vain.
const ETHERNET: u16 = 1_472;
/// What may wait for the path before events are dropped.
const WAITING_MAX: usize = 1 << 20;

pub(super) struct Quic {
    endpoint: Endpoint,
    target: QuicTarget,
    connection: Option<Key>,
}

impl Quic {
    pub(super) fn open(target: QuicTarget, options: &ClientOptions) -> io::Result<Self> {
        let socket = udp::bind(target.address, options, true)?;
        let config = Config {
            server: None,
            client: Some(target.tls.clone()),
            datagram_max: udp::datagram_max(target.address, options).min(ETHERNET),
            idle: IDLE,
            connections_max: CONNECTIONS,
            strangers_per_s: 0,
            member: 0,
        };
        let endpoint = Endpoint::new(socket, &config).map_err(io::Error::other)?;
        Ok(Self {
            endpoint,
            target,
            connection: None,
        })
    }

    pub(super) fn register(&self, poller: &Poller) -> io::Result<()> {
        poller.add(self.endpoint.fd(), SOCKET, Interest::Read)
    }

    pub(super) fn read(&mut self, intake: &mut Intake) -> io::Result<()> {
        for _ in 0..READS_MAX {
            let more = self.endpoint.receive(clock::now(), |_, _, _| {})?;
            self.take(intake);
            if !more {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn perform(&mut self, order: Order, intake: &mut Intake) {
        match order {
            Order::Connect => self.connect(intake),
            Order::Hello(bytes) | Order::Frame(bytes) => {
                let Some(key) = self.connection else { return };
                if self.endpoint.send_frame(key, &bytes).is_err() {
                    self.drop_connection("the broker does not read");
                    intake.lost(clock::now(), "the broker does not read".into());
                }
            }
            Order::Welcomed { .. } => {}
        }
    }

    /// Queues events; what does not fit is dropped and counted.
    pub(super) fn send(&mut self, events: &[Packet], intake: &Intake) {
        for event in events {
            let queued = self.connection.is_some_and(|key| {
                self.endpoint.waiting(key).total() < WAITING_MAX
                    && self.endpoint.send_event(key, event.clone()).is_ok()
            });
            if !queued {
                intake.shared.counters.dropped_send.add(1);
            }
        }
    }

    /// Sends what the path takes now.
    pub(super) fn flush(&mut self, intake: &mut Intake) {
        self.endpoint.flush(clock::now());
        self.take(intake);
        let oversized = self.endpoint.counters().oversized;
        intake.shared.counters.dropped_send.add(oversized);
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.endpoint.deadline()
    }

    pub(super) fn expire(&mut self, now: Time, intake: &mut Intake) {
        if self.deadline().is_some_and(|at| at <= now) {
            self.endpoint.timeout(now);
            self.take(intake);
        }
    }

    pub(super) fn finish(&mut self) {
        self.drop_connection("goodbye");
        self.endpoint.flush(clock::now());
    }

    fn connect(&mut self, intake: &mut Intake) {
        self.drop_connection("dialled anew");
        let now = clock::now();
        let QuicTarget { address, name, .. } = &self.target;
        match self.endpoint.connect(now, *address, name) {
            Ok(key) => self.connection = Some(key),
            Err(cause) => intake.lost(now, cause),
        }
    }

    fn take(&mut self, intake: &mut Intake) {
        let now = clock::now();
        while let Some((key, event)) = self.endpoint.poll() {
            if self.connection != Some(key) {
                continue;
            }
            match event {
                Event::Connected => intake.connected(now),
                Event::Unit(unit) => intake.unit(now, &unit),
                Event::Lost(cause) => {
                    self.connection = None;
                    intake.lost(now, cause);
                }
                _ => {}
            }
        }
    }

    fn drop_connection(&mut self, reason: &str) {
        if let Some(key) = self.connection.take() {
            self.endpoint.close(key, clock::now(), reason);
        }
    }
}
