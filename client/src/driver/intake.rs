//! What comes from the network: frames to the dialer, events to the inbox; and what the dialer
//! wants in return.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use sangam_io::door::DoorState;
use sangam_link::{DialInput, DialOutput, Dialer, Reassembler};
use sangam_model::Time;
use sangam_model::limits::EVENT_LEN_MAX;
use sangam_wire::{Event, Flags, Frame, Header, Message, Refusal, Welcome, is_event};

use super::inbox::Inbox;
use crate::UpInfo;
use crate::shared::Shared;
use crate::state::Link;

pub(super) struct Intake {
    dialer: Dialer,
    pub(super) inbox: Inbox,
    pub(super) shared: Arc<Shared>,
    /// What the socket is to do, in order.
    pub(super) orders: VecDeque<Order>,
    reassembler: Reassembler,
    /// The last event that was joined from pieces.
    whole: Vec<u8>,
    /// Events lost in pieces so far, as counted by the present reassembler.
    incomplete: u64,
    /// Largest datagram of our side of the way.
    datagram_max: u16,
    closing: bool,
}

/// What the link wants of the socket.
#[derive(Debug)]
pub(super) enum Order {
    /// Open a stream.
    Connect,
    /// Send this frame to the address that is dialled.
    Hello(Vec<u8>),
    /// The link is up; these ports are used from now on.
    Welcomed {
        control_port: u16,
        media_port: u16,
        datagram_max: u16,
    },
    /// Send this frame to the broker.
    Frame(Vec<u8>),
}

impl Intake {
    pub(super) fn new(
        dialer: Dialer,
        inbox: Inbox,
        (shared, datagram_max): (Arc<Shared>, u16),
    ) -> Self {
        Self {
            dialer,
            inbox,
            shared,
            orders: VecDeque::new(),
            reassembler: Reassembler::new(),
            whole: Vec::new(),
            incomplete: 0,
            datagram_max,
            closing: false,
        }
    }

    pub(super) fn start(&mut self, now: Time) {
        self.dialer.handle(now, DialInput::Start);
    }

    pub(super) fn send(&mut self, now: Time, message: Message) {
        self.dialer.handle(now, DialInput::Send(message));
    }

    /// The stream is open.
    pub(super) fn connected(&mut self, now: Time) {
        self.dialer.handle(now, DialInput::Connected);
    }

    /// The stream broke or did not open.
    pub(super) fn lost(&mut self, now: Time, cause: String) {
        tracing::debug!(cause, "the connection to the broker is lost");
        self.shared.state().set_cause(cause);
        self.dialer.handle(now, DialInput::TransportLost);
    }

    pub(super) fn close(&mut self, now: Time) {
        self.dialer.handle(now, DialInput::Close);
        self.closing = true;
    }

    /// Whether the farewell is said, once every order is carried out.
    pub(super) fn is_over(&self) -> bool {
        self.closing
    }

    pub(super) fn is_up(&self) -> bool {
        self.dialer.session().is_some()
    }

    /// Whether something can be done without waiting. Ask after arming the sleeper.
    pub(super) fn has_work(&self) -> bool {
        !self.inbox.door.is_empty() || self.inbox.door.is_closed() || !self.orders.is_empty()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.dialer.deadline()
    }

    pub(super) fn measure(&self, now: Time) {
        if let Some(session) = self.dialer.session() {
            self.shared.measures.take(session, now);
        }
    }

    /// Takes one datagram, or one unit of a stream.
    pub(super) fn unit(&mut self, now: Time, bytes: &[u8]) {
        match bytes.first().copied().and_then(is_event) {
            Some(true) if self.is_up() => {
                self.dialer.heard(now);
                self.event(now, bytes);
            }
            Some(false) => self.frame(now, bytes),
            _ => self.malformed(),
        }
    }

    /// Takes what the dialer wants. Its messages go to the inbox at once, so that events that
    /// came after them stay behind them.
    pub(super) fn drain(&mut self, now: Time) {
        while let Some(output) = self.dialer.poll(now) {
            match output {
                DialOutput::Connect => self.orders.push_back(Order::Connect),
                DialOutput::Hello(bytes) => self.orders.push_back(Order::Hello(bytes)),
                DialOutput::Transmit(bytes) => self.orders.push_back(Order::Frame(bytes)),
                DialOutput::Up(welcome) => self.up(now, &welcome),
                DialOutput::Message(message) => self.message(now, message),
                DialOutput::Down(reason) => self.down(Link::Down, reason),
                DialOutput::Refused { reason, again } => {
                    let again = again.is_some();
                    self.down(Link::Refused { reason, again }, reason);
                }
            }
        }
    }

    fn frame(&mut self, now: Time, bytes: &[u8]) {
        match Frame::decode(bytes) {
            Ok(frame) => {
                self.dialer.handle(now, DialInput::Frame(&frame));
                self.drain(now);
            }
            Err(_) => self.malformed(),
        }
    }

    fn event(&mut self, now: Time, bytes: &[u8]) {
        let Ok(header) = Header::decode(bytes) else {
            return self.malformed();
        };
        if header.flags.contains(Flags::FRAGMENT) {
            return self.piece(now, bytes);
        }
        let plain = bytes.len() <= EVENT_LEN_MAX && !header.flags.contains(Flags::EXTENDED);
        if plain || Event::decode(bytes).is_ok() {
            self.inbox.event(&header, bytes);
        } else {
            self.malformed();
        }
    }

    fn piece(&mut self, now: Time, bytes: &[u8]) {
        let joined = self.reassembler.push(now, bytes, &mut self.whole);
        if let Ok(true) = joined
            && let Ok(header) = Header::decode(&self.whole)
        {
            self.inbox.event(&header, &self.whole);
        }
        let counted = self.reassembler.counters();
        let lost = counted.expired + counted.evicted + counted.refused;
        self.shared
            .counters
            .dropped_incomplete
            .add(lost - self.incomplete);
        self.incomplete = lost;
    }

    fn up(&mut self, now: Time, welcome: &Welcome) {
        let datagram_max = welcome.datagram_max.min(self.datagram_max);
        let info = UpInfo {
            broker: Some((welcome.broker, welcome.incarnation)),
            clock_domain: welcome.clock_domain,
            datagram_max,
            keepalive: Some(Duration::from_millis(welcome.keepalive_ms.into())),
        };
        self.orders.push_back(Order::Welcomed {
            control_port: welcome.control_port,
            media_port: welcome.media_port,
            datagram_max,
        });
        self.reassembler = Reassembler::new();
        self.incomplete = 0;
        self.shared.measures.set_datagram_max(datagram_max);
        self.shared.counters.ups.add(1);
        let shared = self.shared.clone();
        // Whoever asks for something holds the same lock: nothing is asked for twice or lost.
        let mut state = shared.state();
        self.inbox.discard_requests();
        state.up(info, |message| {
            self.dialer.handle(now, DialInput::Send(message))
        });
        drop(state);
        tracing::info!(broker = %welcome.broker, "connected");
        self.inbox.state(DoorState::Up);
    }

    fn message(&mut self, now: Time, message: Message) {
        let shared = self.shared.clone();
        // As in `up`.
        shared
            .state()
            .apply(&message, |reply| self.send(now, reply));
        if !self.inbox.message(message) {
            self.lost(now, "this client does not read what it receives".into());
        }
    }

    fn down(&mut self, link: Link, reason: Refusal) {
        tracing::info!(%reason, "the link to the broker is down");
        self.shared.state().down(link);
        self.inbox.state(DoorState::Down(reason));
    }

    pub(super) fn malformed(&self) {
        self.shared.counters.dropped_malformed.add(1);
    }
}
