//! QUIC: frames on a stream, media in datagrams, everything encrypted.

use core::time::Duration;
use std::io;
use std::sync::Arc;

use sangam_io::clock;
use sangam_io::poll::{Interest, Poller};
use sangam_io::pool::Packet;
use sangam_io::quic::{Config, Endpoint, Event, Key};
use sangam_model::Time;

use super::intake::{Intake, Order};
use super::udp;
use crate::ClientOptions;
use crate::state::Cause;
use crate::way::QuicWay;

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
    way: Arc<QuicWay>,
    connection: Option<Key>,
}

impl Quic {
    pub(super) fn open(way: Arc<QuicWay>, options: &ClientOptions) -> io::Result<Self> {
        let socket = udp::bind(way.address, options, true)?;
        let config = Config {
            server: None,
            client: Some(way.tls.clone()),
            datagram_max: udp::datagram_max(way.address, options).min(ETHERNET),
            idle: IDLE,
            connections_max: CONNECTIONS,
            strangers_per_s: 0,
            member: 0,
        };
        let endpoint = Endpoint::new(socket, &config).map_err(io::Error::other)?;
        Ok(Self {
            endpoint,
            way,
            connection: None,
        })
    }

    pub(super) fn register(&self, poller: &Poller, token: u64) -> io::Result<()> {
        poller.add(self.endpoint.fd(), token, Interest::Read)
    }

    pub(super) fn read(&mut self, intake: &mut Intake<'_>) -> io::Result<()> {
        for _ in 0..READS_MAX {
            let more = self.endpoint.receive(clock::now(), |_, _, _| {})?;
            self.take(intake);
            if !more {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn perform(&mut self, order: Order, intake: &mut Intake<'_>) {
        match order {
            Order::Connect => self.connect(intake),
            Order::Hello(bytes) | Order::Frame(bytes) => {
                let Some(key) = self.connection else { return };
                if self.endpoint.send_frame(key, &bytes).is_err() {
                    self.drop_connection("the broker does not read");
                    intake.lost(clock::now(), "the broker does not read".to_owned());
                }
            }
            // Groups are for those whom datagrams reach in the clear.
            Order::Welcomed { .. } | Order::Group(..) => {}
        }
    }

    /// Queues events; what does not fit is dropped and counted.
    pub(super) fn send(&mut self, events: &[Packet], intake: &Intake<'_>) {
        let now = clock::now();
        for event in events {
            let queued = self.connection.is_some_and(|key| {
                self.endpoint.waiting(key, now).bytes() < WAITING_MAX
                    && self.endpoint.send_event(key, event.clone(), now).is_ok()
            });
            if !queued {
                intake.shared.counters.dropped_send.add(1);
            }
        }
    }

    /// Sends what the path takes now.
    pub(super) fn flush(&mut self, intake: &mut Intake<'_>) {
        self.endpoint.flush(clock::now());
        self.take(intake);
        let oversized = self.endpoint.counters().oversized;
        intake.shared.counters.dropped_send.add(oversized);
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.endpoint.deadline()
    }

    pub(super) fn expire(&mut self, now: Time, intake: &mut Intake<'_>) {
        if self.deadline().is_some_and(|at| at <= now) {
            self.endpoint.timeout(now);
            self.take(intake);
        }
    }

    pub(super) fn finish(&mut self) {
        self.drop_connection("goodbye");
        self.endpoint.flush(clock::now());
    }

    fn connect(&mut self, intake: &mut Intake<'_>) {
        self.drop_connection("dialled anew");
        let now = clock::now();
        let QuicWay { address, name, .. } = &*self.way;
        match self.endpoint.connect(now, *address, name) {
            Ok(key) => self.connection = Some(key),
            Err(cause) => intake.lost(now, cause),
        }
    }

    fn take(&mut self, intake: &mut Intake<'_>) {
        let now = clock::now();
        while let Some((key, event)) = self.endpoint.poll() {
            if self.connection != Some(key) {
                continue;
            }
            match event {
                Event::Connected => intake.connected(now),
                Event::Unit(unit) => intake.unit(now, &unit),
                Event::Lost { cause, certificate } => {
                    self.connection = None;
                    let text = cause;
                    intake.lost(now, Cause { text, certificate });
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
