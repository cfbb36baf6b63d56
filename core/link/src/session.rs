//! A link that is up: control messages, liveness, round trip and clock offset.

mod echoing;
mod events;
mod probing;

use core::time::Duration;

use sangam_model::{Measured, Time};
use sangam_wire::{Frame, Message, Refusal, Traffic};

use crate::channel::{Acked, Sender};
use crate::clock::{Clock, ClockOffset};
use crate::liveness::{Liveness, Turn};
use crate::measure::{Answer, Meter, Sample};
use crate::receive::{Receiver, Taken};
use crate::timing::Timing;
pub use echoing::Asks;
use probing::Probing;

/// Bytes of the largest frame that is no control frame.
const SMALL_FRAME: usize = 40;
/// Bytes of a ping that tells what was sent.
const PING_LEN: usize = 30;

/// What a session is made of.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// From the welcome; frames of another session are ignored.
    pub number: u32,
    /// When to ping and when to give up.
    pub timing: Timing,
    /// Largest datagram both ways carry, in bytes.
    pub datagram_max: u16,
    /// The transport itself repeats what is lost (TCP).
    pub reliable: bool,
}

/// One end of a link that is up.
///
/// Without messages in flight it owns no memory but itself: a broker has up to 262,144.
#[derive(Debug)]
pub struct Session {
    number: u32,
    queue_max: usize,
    state: State,
    liveness: Liveness,
    sender: Sender,
    receiver: Receiver,
    clock: Clock,
    /// To be echoed. Only the latest: a flood of pings gets few answers.
    pong: Option<Pong>,
    /// Of an endpoint that measures its link.
    meter: Option<Box<Meter>>,
    probing: Option<Box<Probing>>,
    counters: Counters,
}

/// What happens to a session. Media packets are told by [`Session::heard`].
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// A frame from the peer's address.
    Frame(&'a Frame<'a>),
    /// Carry this to the peer, in order, once.
    Send(Message),
    /// Tell the peer why and end. What was sent before leaves first, once.
    Close(Refusal),
    /// The transport is gone; nothing can be told.
    TransportLost,
}

/// What a session wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send these bytes, one frame, to the peer.
    Transmit(Vec<u8>),
    /// The peer said this.
    Message(Message),
    /// Nothing was heard for [`Timing::suspect_after`]; not from a client's session.
    Suspect,
    /// A suspect peer is heard again.
    Recovered,
    /// A ping was answered and measured the path.
    Sample(Sample),
    /// The path carries datagrams of so many bytes from now on, see [`Session::watch_path`].
    Carries(u16),
    /// The link is down, for this reason; the last output.
    Down(Refusal),
}

/// What a session counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Control frames sent for the first time.
    pub sent: u64,
    /// Control frames sent again.
    pub repeated: u64,
    /// Control frames taken.
    pub taken: u64,
    /// Control frames that came again.
    pub duplicate: u64,
    /// Control frames that came before an earlier one, or faster than messages were polled.
    pub early: u64,
    /// Messages that could not be read.
    pub malformed: u64,
    /// Messages that were given to be sent but break the wire format's limits.
    pub unsendable: u64,
    /// Frames of another session, or that have no place in one.
    pub foreign: u64,
    /// Acknowledgements of what was not in flight, and answers to pings that were not sent.
    pub invalid: u64,
    /// Times the caller polled so late that the peer was forgiven its silence.
    pub late: u64,
}

/// An answer that is due.
#[derive(Clone, Copy, Debug)]
struct Pong {
    echo_us: u64,
    traffic: Option<Traffic>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Up,
    /// What is queued leaves, then the farewell.
    Closing(Refusal),
    /// The farewell leaves.
    Leaving(Refusal),
    /// The caller hears of it.
    Over(Refusal),
    Down,
}

impl Session {
    /// A session that is up from `now` on.
    #[must_use]
    pub fn new(config: SessionConfig, now: Time) -> Self {
        Self {
            number: config.number,
            queue_max: config.timing.queue_max,
            state: State::Up,
            liveness: Liveness::new(&config.timing, now),
            sender: Sender::new(config.datagram_max, config.reliable),
            receiver: Receiver::new(config.reliable),
            clock: Clock::default(),
            pong: None,
            probing: None,
            meter: config.timing.busy_ping.map(|_| Box::default()),
            counters: Counters::default(),
        }
    }

    /// Any packet of the peer came. Two stores: called for each media packet.
    #[inline]
    pub fn heard(&mut self, now: Time) {
        self.liveness.heard(now);
    }

    /// Takes what happened; poll afterwards.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        if !matches!(self.state, State::Up) {
            return;
        }
        match input {
            Input::Frame(frame) => self.frame(now, frame),
            Input::Send(message) => self.send(&message),
            Input::Close(reason) => self.state = State::Closing(reason),
            Input::TransportLost => self.state = State::Over(Refusal::Silent),
        }
    }

    /// What to do next, until `None`.
    pub fn poll(&mut self, now: Time) -> Option<Output> {
        if let State::Down = self.state {
            return None;
        }
        if let Some(message) = self.receiver.pop() {
            return Some(Output::Message(message));
        }
        let turn = self.expire(now);
        let output = self.next_output(now, turn);
        if let Some(Output::Transmit(_)) = output {
            self.spoke(now);
        }
        output
    }

    fn next_output(&mut self, now: Time, turn: Option<Output>) -> Option<Output> {
        match self.state {
            State::Up => turn
                .or_else(|| self.meter.as_mut()?.sample.take().map(Output::Sample))
                .or_else(|| self.poll_pong(now))
                .or_else(|| self.poll_ping(now))
                .or_else(|| self.poll_probe(now))
                .or_else(|| self.poll_control(now))
                .or_else(|| self.poll_ack(now)),
            State::Closing(reason) => self
                .poll_control(now)
                .or_else(|| Some(self.farewell(reason))),
            State::Leaving(reason) => Some(self.farewell(reason)),
            State::Over(reason) => {
                self.state = State::Down;
                Some(Output::Down(reason))
            }
            State::Down => None,
        }
    }

    /// When to poll if nothing happens before; `None` once down. Exact, and a few comparisons.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let up = matches!(self.state, State::Up);
        up.then(|| {
            self.liveness
                .deadline()
                .min(self.receiver.ack_at())
                .min(self.sender.deadline())
                .min(
                    self.probing
                        .as_ref()
                        .map_or(Time::NEVER, |probing| probing.deadline()),
                )
        })
    }

    /// The number from the welcome.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The smoothed round trip, once measured.
    #[must_use]
    pub fn rtt(&self) -> Option<Duration> {
        self.sender.rtt.smoothed()
    }

    /// How good the link is, once measured; only of an endpoint that measures its link.
    #[must_use]
    pub fn measured(&self) -> Option<Measured> {
        let meter = self.meter.as_ref()?;
        Some(Measured {
            rtt: self.rtt()?,
            jitter: meter.jitter(),
            loss_ppm: meter.loss_ppm(),
        })
    }

    /// What was sent and what was received, if this endpoint measures its link.
    #[must_use]
    pub fn traffic(&self) -> Option<(Traffic, Traffic)> {
        self.meter
            .as_ref()
            .map(|meter| (meter.sent, meter.received))
    }

    /// Since when a question has been without its answer, nor had a later one; if this endpoint
    /// measures its link.
    #[must_use]
    pub fn awaits_since(&self) -> Option<Time> {
        self.meter.as_ref()?.awaits_since()
    }

    /// Whether the peer has not been heard for [`Timing::suspect_after`].
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.liveness.is_suspect()
    }

    /// The peer's clock against ours, once measured; only an endpoint that pings measures it.
    #[must_use]
    pub fn clock_offset(&self, now: Time) -> Option<ClockOffset> {
        self.clock.offset(now)
    }

    /// Messages the peer has not acknowledged. At `queue_max` the session closes, so a caller
    /// with much to say watches this.
    #[must_use]
    pub fn unacknowledged(&self) -> usize {
        self.sender.len()
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A round trip was measured.
    pub(crate) fn round_trip(&mut self, rtt: Duration) {
        self.sender.rtt.sample(rtt);
        if let Some(rtt) = self.rtt() {
            self.liveness.measured(rtt);
        }
    }

    fn frame(&mut self, now: Time, frame: &Frame<'_>) {
        if frame.session() != Some(self.number) {
            self.counters.foreign += 1;
            return;
        }
        match *frame {
            Frame::Ping { traffic, .. } if probing::is_probe(traffic) => self.heard(now),
            _ => self.received(now, frame.encoded_len()),
        }
        match *frame {
            Frame::Ping {
                sent_us, traffic, ..
            } if probing::is_probe(traffic) => self.probed(sent_us),
            Frame::Ping {
                sent_us, traffic, ..
            } => {
                let received = self.meter.as_ref().map(|meter| meter.received);
                self.pong = Some(Pong {
                    echo_us: sent_us,
                    traffic: traffic.and(received),
                });
            }
            Frame::Pong {
                echo_us,
                now_us,
                traffic,
                ..
            } => {
                let answer = Answer {
                    echo: Time::from_micros(echo_us),
                    peer_us: now_us,
                    held: Duration::ZERO,
                    received: traffic.map(Into::into),
                };
                self.answered(now, &answer);
            }
            Frame::Echo(echo) => self.echoed(now, echo),
            Frame::Control {
                sequence,
                ack,
                messages,
                ..
            } => {
                self.acknowledged(now, ack, false);
                self.control(now, sequence, messages);
            }
            Frame::Ack { ack, .. } => self.acknowledged(now, ack, true),
            Frame::Bye { reason, .. } => self.state = State::Over(reason),
            _ => {}
        }
    }

    fn send(&mut self, message: &Message) {
        if self.sender.len() >= self.queue_max {
            self.state = State::Leaving(Refusal::Overflow);
        } else if self.sender.push(message).is_err() {
            self.counters.unsendable += 1;
        }
    }

    fn control(&mut self, now: Time, sequence: u16, messages: &[u8]) {
        match self.receiver.take(now, sequence, messages) {
            Taken::Yes { malformed } => {
                self.counters.taken += 1;
                self.counters.malformed += u64::from(malformed);
            }
            Taken::Duplicate => self.counters.duplicate += 1,
            Taken::Early => self.counters.early += 1,
        }
    }

    fn acknowledged(&mut self, now: Time, ack: u16, bare: bool) {
        match self.sender.acknowledge(now, ack, bare) {
            Acked::Nothing | Acked::Taken(None) => {}
            // Acknowledgements are late on purpose, so pings measure better where there are any.
            Acked::Taken(Some(rtt)) if !self.liveness.pings() => self.round_trip(rtt),
            Acked::Taken(Some(_)) => {}
            Acked::Invalid => self.counters.invalid += 1,
        }
    }

    fn expire(&mut self, now: Time) -> Option<Output> {
        if !matches!(self.state, State::Up) {
            return None;
        }
        self.counters.late += u64::from(self.liveness.forgive(now));
        match self.liveness.turn(now) {
            Some(Turn::Suspect) => return Some(Output::Suspect),
            Some(Turn::Recovered) => return Some(Output::Recovered),
            Some(Turn::Dead) => self.state = State::Leaving(Refusal::Silent),
            None if self.sender.is_stalled(now) => self.state = State::Leaving(Refusal::Overflow),
            None => {}
        }
        None
    }

    fn poll_pong(&mut self, now: Time) -> Option<Output> {
        let Pong { echo_us, traffic } = self.pong.take().or_else(|| self.owed_to_probe())?;
        Some(self.small(&Frame::Pong {
            session: self.number,
            echo_us,
            now_us: now.as_micros(),
            traffic,
        }))
    }

    fn poll_ping(&mut self, now: Time) -> Option<Output> {
        let asks = self.liveness.ping(now, self.sender.rtt.patience());
        if self.echoes() {
            return self.poll_echo(now, asks);
        }
        if !asks {
            return None;
        }
        let meter = self.meter.as_mut();
        let traffic = meter.map(|meter| meter.ping(now, PING_LEN, true));
        let ping = Frame::Ping {
            session: self.number,
            sent_us: now.as_micros(),
            traffic,
        };
        // The meter has counted it.
        Some(encode(&ping))
    }

    fn poll_control(&mut self, now: Time) -> Option<Output> {
        let patience = self.sender.rtt.patience();
        let outgoing = self.sender.poll(now)?;
        self.liveness.asks(now, patience);
        let frame = Frame::Control {
            session: self.number,
            sequence: outgoing.sequence,
            ack: self.receiver.acknowledge(),
            messages: outgoing.messages,
        };
        let mut bytes = Vec::with_capacity(SMALL_FRAME + outgoing.messages.len());
        frame.encode(&mut bytes);
        if let Some(meter) = &mut self.meter {
            meter.sent(1, bytes.len() as u64);
        }
        if outgoing.repeated {
            self.counters.repeated += 1;
        } else {
            self.counters.sent += 1;
        }
        Some(Output::Transmit(bytes))
    }

    fn poll_ack(&mut self, now: Time) -> Option<Output> {
        if now < self.receiver.ack_at() {
            return None;
        }
        let ack = self.receiver.acknowledge();
        Some(self.small(&Frame::Ack {
            session: self.number,
            ack,
        }))
    }

    fn farewell(&mut self, reason: Refusal) -> Output {
        self.state = State::Over(reason);
        self.small(&Frame::Bye {
            session: self.number,
            reason,
        })
    }

    fn small(&mut self, frame: &Frame<'_>) -> Output {
        let output = encode(frame);
        if let (Output::Transmit(bytes), Some(meter)) = (&output, &mut self.meter) {
            meter.sent(1, bytes.len() as u64);
        }
        output
    }
}

fn encode(frame: &Frame<'_>) -> Output {
    let mut bytes = Vec::with_capacity(SMALL_FRAME);
    frame.encode(&mut bytes);
    Output::Transmit(bytes)
}
