//! What comes from the network: frames to the dialer, events to the inbox; and what the dialer
//! wants in return.

use core::time::Duration;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use sangam_io::door::DoorState;
use sangam_link::{DialInput, DialOutput, Dialer, Reassembler};
use sangam_model::limits::EVENT_LEN_MAX;
use sangam_model::{StreamId, Time};
use sangam_wire::{Event, Flags, Frame, Group, Header, Message, Refusal, Welcome, is_event};

use super::inbox::Inbox;
use crate::UpInfo;
use crate::shared::Shared;
use crate::state::{Cause, Link};

/// One link to the broker: what is known of it between two events.
pub(super) struct Line {
    dialer: Dialer,
    /// What the socket is to do, in order.
    pub(super) orders: VecDeque<Order>,
    reassembler: Reassembler,
    /// The last event that was joined from pieces.
    whole: Vec<u8>,
    /// Events lost in pieces so far, as counted by the present reassembler.
    incomplete: u64,
    /// Largest datagram of our side of the way.
    datagram_max: u16,
    /// An attempt on this way has failed since it was last up.
    pub(super) failed: bool,
    /// The broker wants this client on no way.
    pub(super) refused: bool,
    /// The broker is about to leave.
    pub(super) leaving: bool,
    /// What is to be restored before this link takes over from another; `None` on the one link
    /// there usually is.
    pub(super) trial: Option<Trial>,
}

/// A link beside the one in use, on its way to replace it.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Since it is up.
    pub(super) up: Option<(Time, UpInfo)>,
    /// Since every request was answered.
    pub(super) restored: Option<Time>,
    /// Requests without an answer.
    pending: HashSet<u32>,
    /// Grants of streams that are not used yet: whoever listens finds them first.
    held: Vec<Message>,
    /// Whether they are.
    switched: bool,
    /// Streams that are published on this link already.
    moved: HashSet<StreamId>,
}

/// A link, and where its events go, while something happens to it.
pub(super) struct Intake<'a> {
    pub(super) line: &'a mut Line,
    pub(super) inbox: &'a mut Inbox,
    pub(super) shared: &'a Arc<Shared>,
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
    /// Join the group of this stream, or leave it.
    Group(StreamId, Option<Group>),
}

impl Line {
    pub(super) fn new(dialer: Dialer, datagram_max: u16, trial: Option<Trial>) -> Self {
        Self {
            dialer,
            orders: VecDeque::new(),
            reassembler: Reassembler::new(),
            whole: Vec::new(),
            incomplete: 0,
            datagram_max,
            failed: false,
            refused: false,
            leaving: false,
            trial,
        }
    }

    pub(super) fn start(&mut self, now: Time) {
        self.dialer.handle(now, DialInput::Start);
    }

    pub(super) fn send(&mut self, now: Time, message: Message) {
        self.dialer.handle(now, DialInput::Send(message));
    }

    pub(super) fn close(&mut self, now: Time) {
        self.dialer.handle(now, DialInput::Close);
    }

    pub(super) fn is_up(&self) -> bool {
        self.dialer.session().is_some()
    }

    /// Messages the broker has not acknowledged.
    pub(super) fn unacknowledged(&self) -> usize {
        let session = self.dialer.session();
        session.map_or(0, |session| session.unacknowledged())
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.dialer.deadline()
    }

    pub(super) fn measure(&self, now: Time, shared: &Shared) {
        if let Some(session) = self.dialer.session() {
            shared.measures.take(session, now);
        }
    }
}

impl Trial {
    /// Whether events of this stream are published on the trial's link.
    pub(super) fn has_moved(&self, stream: StreamId) -> bool {
        self.moved.contains(&stream)
    }

    /// Whether everything that is published goes by the trial's link.
    pub(super) const fn has_switched(&self) -> bool {
        self.switched
    }

    fn answered(&mut self, now: Time, message: &Message) {
        match *message {
            Message::Published { request, .. }
            | Message::Accepted { request }
            | Message::Refused { request, .. } => {
                self.pending.remove(&request);
            }
            _ => {}
        }
        self.note(now);
    }

    /// Keeps a grant for later, unless it is time to use it.
    fn holds(&mut self, message: &Message) -> bool {
        let Message::Published { stream, .. } = message else {
            return false;
        };
        if self.switched {
            self.moved.insert(*stream);
        } else {
            self.held.push(message.clone());
        }
        !self.switched
    }

    fn note(&mut self, now: Time) {
        if self.pending.is_empty() {
            self.restored.get_or_insert(now);
        }
    }
}

impl Intake<'_> {
    /// The stream is open.
    pub(super) fn connected(&mut self, now: Time) {
        self.line.dialer.handle(now, DialInput::Connected);
    }

    /// The stream broke or did not open.
    pub(super) fn lost(&mut self, now: Time, cause: impl Into<Cause>) {
        let cause = cause.into();
        tracing::debug!(cause = cause.text, "the connection to the broker is lost");
        if self.line.trial.is_none() {
            self.shared.state().set_cause(cause);
        }
        self.line.failed = true;
        self.line.dialer.handle(now, DialInput::TransportLost);
    }

    pub(super) fn is_up(&self) -> bool {
        self.line.is_up()
    }

    /// Takes one datagram, or one unit of a stream.
    pub(super) fn unit(&mut self, now: Time, bytes: &[u8]) {
        match bytes.first().copied().and_then(is_event) {
            Some(true) if self.is_up() => {
                self.line.dialer.heard(now);
                self.event(now, bytes);
            }
            Some(false) => self.frame(now, bytes),
            _ => self.malformed(),
        }
    }

    /// Takes what the dialer wants. Its messages go to the inbox at once, so that events that
    /// came after them stay behind them.
    pub(super) fn drain(&mut self, now: Time) {
        while let Some(output) = self.line.dialer.poll(now) {
            let orders = &mut self.line.orders;
            match output {
                DialOutput::Connect => orders.push_back(Order::Connect),
                DialOutput::Hello(bytes) => orders.push_back(Order::Hello(bytes)),
                DialOutput::Transmit(bytes) => orders.push_back(Order::Frame(bytes)),
                DialOutput::Up(welcome) => self.welcomed(now, &welcome),
                DialOutput::Message(message) => self.message(now, message),
                // Only broker links are suspected and measured.
                DialOutput::Suspect
                | DialOutput::Recovered
                | DialOutput::Sample(_)
                | DialOutput::Carries(_) => {}
                DialOutput::Down(reason) => self.down(Link::Down, reason),
                DialOutput::Refused {
                    reason,
                    speaks,
                    again,
                } => {
                    let again = again.is_some();
                    let link = Link::Refused {
                        reason,
                        speaks,
                        again,
                    };
                    self.down(link, reason);
                }
            }
        }
    }

    pub(super) fn malformed(&self) {
        self.shared.counters.dropped_malformed.add(1);
    }

    fn frame(&mut self, now: Time, bytes: &[u8]) {
        match Frame::decode(bytes) {
            Ok(frame) => {
                self.line.dialer.handle(now, DialInput::Frame(&frame));
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
            self.inbox.event(now, &header, bytes);
        } else {
            self.malformed();
        }
    }

    fn piece(&mut self, now: Time, bytes: &[u8]) {
        let line = &mut *self.line;
        let joined = line.reassembler.push(now, bytes, &mut line.whole);
        if let Ok(true) = joined
            && let Ok(header) = Header::decode(&line.whole)
        {
            self.inbox.event(now, &header, &line.whole);
        }
        let counted = line.reassembler.counters();
        let lost = counted.expired + counted.evicted + counted.refused;
        self.shared
            .counters
            .dropped_incomplete
            .add(lost - line.incomplete);
        line.incomplete = lost;
    }

    fn welcomed(&mut self, now: Time, welcome: &Welcome) {
        let datagram_max = welcome.datagram_max.min(self.line.datagram_max);
        let info = UpInfo {
            broker: Some((welcome.broker, welcome.incarnation)),
            clock_domain: welcome.clock_domain,
            datagram_max,
            keepalive: Some(Duration::from_millis(welcome.keepalive_ms.into())),
        };
        let line = &mut *self.line;
        line.orders.push_back(Order::Welcomed {
            control_port: welcome.control_port,
            media_port: welcome.media_port,
            datagram_max,
        });
        line.reassembler = Reassembler::new();
        line.incomplete = 0;
        line.failed = false;
        line.leaving = false;
        if line.trial.is_some() {
            self.restore_beside(now, info);
        } else {
            self.up(now, info);
        }
        tracing::info!(broker = %welcome.broker, "connected");
    }

    fn up(&mut self, now: Time, info: UpInfo) {
        self.shared.measures.set_datagram_max(info.datagram_max);
        self.shared.counters.ups.add(1);
        // Whoever asks for something holds the same lock: nothing is asked for twice or lost.
        let mut state = self.shared.state();
        self.inbox.discard_requests();
        let dialer = &mut self.line.dialer;
        state.up(info, |message| dialer.handle(now, DialInput::Send(message)));
        drop(state);
        self.inbox.state(DoorState::Up);
    }

    /// Asks for everything on this link, too, while another still serves.
    fn restore_beside(&mut self, now: Time, info: UpInfo) {
        let (dialer, trial) = (
            &mut self.line.dialer,
            self.line.trial.get_or_insert_default(),
        );
        trial.up = Some((now, info));
        self.inbox.begin_overlap();
        self.shared.state().restore(|message| {
            if let Message::Subscribe { request, .. }
            | Message::Publish { request, .. }
            | Message::Authenticate { request, .. } = message
            {
                trial.pending.insert(request);
            }
            dialer.handle(now, DialInput::Send(message));
        });
        trial.note(now);
    }

    /// What is published goes by this link from now on.
    pub(super) fn switch(&mut self, now: Time) {
        let Some(trial) = &mut self.line.trial else {
            return;
        };
        trial.switched = true;
        for message in core::mem::take(&mut trial.held) {
            self.message(now, message);
        }
    }

    fn message(&mut self, now: Time, message: Message) {
        if message == Message::LEAVING {
            self.line.leaving = true;
            return;
        }
        let orders = &mut self.line.orders;
        match message {
            Message::Group { stream, group } => {
                if group.is_some() {
                    self.inbox.expect_group(stream);
                }
                return orders.push_back(Order::Group(stream, group));
            }
            Message::Retire { stream } => orders.push_back(Order::Group(stream, None)),
            _ => {}
        }
        if let Some(trial) = &mut self.line.trial {
            trial.answered(now, &message);
            if trial.holds(&message) {
                return;
            }
        }
        let line = &mut *self.line;
        // As in `up`.
        self.shared
            .state()
            .apply(&message, |reply| line.send(now, reply));
        if !self.inbox.message(message) {
            let cause = "this client does not read what it receives";
            self.lost(now, cause.to_owned());
        }
    }

    fn down(&mut self, link: Link, reason: Refusal) {
        self.line.failed = true;
        // Another broker may speak another version.
        self.line.refused =
            matches!(link, Link::Refused { again: false, .. }) && reason != Refusal::Version;
        if self.line.trial.is_some() {
            return tracing::debug!(%reason, "a better way to the broker does not work");
        }
        tracing::info!(%reason, "the link to the broker is down");
        self.shared.state().down(link);
        self.inbox.state(DoorState::Down(reason));
    }
}
