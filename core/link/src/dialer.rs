//! The end of a link that calls: hello, retry, welcome, and again after the link died.

use core::time::Duration;
use std::collections::VecDeque;

use sangam_model::{Random, Time};
use sangam_wire::{Capabilities, Frame, Message, Refusal, Refuse, Role, Welcome};

use crate::attempt::Attempt;
use crate::measure::Sample;
use crate::session::{Asks, Input, Output, Session, SessionConfig};
use crate::timing::{Backoff, Timing};

/// How long a hello over a byte stream may stay without an answer.
const STREAM_PATIENCE: Duration = Duration::from_secs(5);
/// How long a broker waits after a refusal that names no time.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);
/// A refusal that asks for a longer pause gets this one.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// Who dials, and how.
#[derive(Clone, Debug)]
pub struct DialerConfig {
    /// Client or broker.
    pub role: Role,
    /// What this end can do.
    pub capabilities: Capabilities,
    /// Largest datagram (UDP payload) this end's way carries, in bytes.
    pub datagram_max: u16,
    /// Names the clock of this machine.
    pub clock_domain: u32,
    /// The transport is a byte stream (TCP): see [`DialOutput::Connect`].
    pub reliable: bool,
    /// It carries pings in order behind all else, so that a loss is a silence:
    /// [`Timing::in_order`].
    pub in_order: bool,
    /// Drawn at random by the caller: nonces and pauses follow from it.
    pub seed: u64,
    /// Pauses between attempts.
    pub backoff: Backoff,
}

/// Dials, and dials again whenever the link dies, until told to stop.
///
/// It restores nothing by itself: the peer forgets a session with its end. On each
/// [`DialOutput::Up`] the owner sends its subscriptions and publications again.
#[derive(Debug)]
pub struct Dialer {
    config: DialerConfig,
    random: Random,
    /// Of the next hello, if it must have this one.
    nonce: Option<u64>,
    state: State,
    /// Failed attempts in a row; short sessions count, too.
    failures: u32,
    /// Links in a row that flapped.
    flapped: u32,
    outputs: VecDeque<DialOutput>,
    discarded: u64,
}

/// What happens to a dialer. Media packets are told by [`Dialer::heard`].
#[derive(Clone, Debug)]
pub enum DialInput<'a> {
    /// Begin to dial. Nothing if it does already.
    Start,
    /// The stream asked for by [`DialOutput::Connect`] is open.
    Connected,
    /// The stream broke or could not be opened; a datagram socket failed.
    TransportLost,
    /// A frame from the peer's address.
    Frame(&'a Frame<'a>),
    /// Carry this to the peer; discarded and counted while the link is not up.
    Send(Message),
    /// Tell the peer goodbye and stop. [`DialInput::Start`] begins again.
    Close,
}

/// What a dialer wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialOutput {
    /// Byte streams only: drop the stream there was, open another, then tell
    /// [`DialInput::Connected`] or [`DialInput::TransportLost`].
    Connect,
    /// Send these bytes, one frame, to the address that is dialled.
    Hello(Vec<u8>),
    /// The link is up.
    Up(Welcome),
    /// Send these bytes, one frame, to the peer's address and its welcome's `control_port`.
    Transmit(Vec<u8>),
    /// The peer said this.
    Message(Message),
    /// As [`Output::Suspect`].
    Suspect,
    /// As [`Output::Recovered`].
    Recovered,
    /// As [`Output::Sample`].
    Sample(Sample),
    /// As [`Output::Carries`].
    Carries(u16),
    /// The link that was up is down; unless it was closed here, the dialer goes on dialling.
    Down(Refusal),
    /// The hello was refused.
    Refused {
        /// Why.
        reason: Refusal,
        /// The highest version the peer speaks; 0: it did not say.
        speaks: u8,
        /// When the dialer tries again; `None`: it stopped until [`DialInput::Start`].
        again: Option<Time>,
    },
}

#[derive(Debug)]
enum State {
    Idle,
    Pausing {
        until: Time,
    },
    /// A byte stream is being opened.
    Connecting,
    Hello(Attempt),
    Up(Box<Link>),
    /// Like up, but no next attempt follows.
    Closing(Box<Link>),
}

#[derive(Debug)]
struct Link {
    session: Session,
    since: Time,
}

impl Dialer {
    /// A dialer that waits for [`DialInput::Start`].
    #[must_use]
    pub fn new(config: DialerConfig) -> Self {
        Self {
            random: Random::new(config.seed),
            config,
            nonce: None,
            state: State::Idle,
            failures: 0,
            flapped: 0,
            outputs: VecDeque::new(),
            discarded: 0,
        }
    }

    /// The next hello has this nonce, by which the acceptor knows who calls.
    pub fn call_by(&mut self, nonce: u64) {
        self.nonce = Some(nonce);
    }

    /// Any packet of the peer came.
    #[inline]
    pub fn heard(&mut self, now: Time) {
        if let State::Up(link) = &mut self.state {
            link.session.heard(now);
        }
    }

    /// As [`Session::received`].
    #[inline]
    pub fn received(&mut self, now: Time, bytes: usize) {
        if let State::Up(link) = &mut self.state {
            link.session.received(now, bytes);
        }
    }

    /// As [`Session::received_by_group`].
    #[inline]
    pub fn received_by_group(&mut self, bytes: usize) {
        if let State::Up(link) = &mut self.state {
            link.session.received_by_group(bytes);
        }
    }

    /// As [`Session::sent`].
    #[inline]
    pub fn sent(&mut self, now: Time, packets: u64, bytes: u64) {
        if let State::Up(link) = &mut self.state {
            link.session.sent(now, packets, bytes);
        }
    }

    /// As [`Session::sent_by_group`].
    #[inline]
    pub fn sent_by_group(&mut self, now: Time, packets: u64, bytes: u64) {
        if let State::Up(link) = &mut self.state {
            link.session.sent_by_group(now, packets, bytes);
        }
    }

    /// Takes what happened; poll afterwards.
    pub fn handle(&mut self, now: Time, input: DialInput<'_>) {
        match input {
            DialInput::Start => self.start(now),
            DialInput::Connected => {
                if let State::Connecting = self.state {
                    self.hello(now);
                }
            }
            DialInput::TransportLost => self.transport_lost(now),
            DialInput::Frame(frame) => self.frame(now, frame),
            DialInput::Send(message) => match &mut self.state {
                State::Up(link) => link.session.handle(now, Input::Send(message)),
                _ => self.discarded += 1,
            },
            DialInput::Close => self.close(now),
        }
    }

    /// What to do next, until `None`.
    pub fn poll(&mut self, now: Time) -> Option<DialOutput> {
        self.expire(now);
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        let (State::Up(link) | State::Closing(link)) = &mut self.state else {
            return None;
        };
        Some(match link.session.poll(now)? {
            Output::Transmit(bytes) => DialOutput::Transmit(bytes),
            Output::Message(message) => DialOutput::Message(message),
            Output::Suspect => DialOutput::Suspect,
            Output::Recovered => DialOutput::Recovered,
            Output::Sample(sample) => DialOutput::Sample(sample),
            Output::Carries(size) => DialOutput::Carries(size),
            Output::Down(reason) => {
                self.down(now);
                DialOutput::Down(reason)
            }
        })
    }

    /// When to poll if nothing happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        match &self.state {
            State::Idle | State::Connecting => None,
            State::Pausing { until } => Some(*until),
            State::Hello(attempt) => Some(attempt.again_at()),
            State::Up(link) | State::Closing(link) => link.session.deadline(),
        }
    }

    /// The session, while the link is up.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        match &self.state {
            State::Up(link) => Some(&link.session),
            _ => None,
        }
    }

    /// Attempts that failed in a row, sessions that ended at once included.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Messages that were given while the link was not up.
    #[must_use]
    pub fn discarded(&self) -> u64 {
        self.discarded
    }

    fn start(&mut self, now: Time) {
        if let State::Idle = self.state {
            self.failures = 0;
            self.attempt(now);
        }
    }

    fn attempt(&mut self, now: Time) {
        if self.config.reliable {
            self.state = State::Connecting;
            self.outputs.push_back(DialOutput::Connect);
        } else {
            self.hello(now);
        }
    }

    fn hello(&mut self, now: Time) {
        let nonce = self.nonce.take().unwrap_or_else(|| self.random.bits());
        let attempt = Attempt::new(nonce, now, self.patience(0));
        self.outputs
            .push_back(DialOutput::Hello(attempt.hello(&self.config)));
        self.state = State::Hello(attempt);
    }

    fn frame(&mut self, now: Time, frame: &Frame<'_>) {
        match (&mut self.state, frame) {
            (State::Hello(attempt), Frame::Retry { nonce, cookie })
                if *nonce == attempt.nonce() =>
            {
                self.retry(now, *cookie);
            }
            (State::Hello(attempt), Frame::Welcome(welcome))
                if welcome.nonce == attempt.nonce() =>
            {
                let rtt = attempt.rtt(now);
                self.welcomed(now, welcome, rtt);
            }
            (State::Hello(attempt), Frame::Refuse(refuse)) if refuse.nonce == attempt.nonce() => {
                self.refused(now, *refuse);
            }
            (State::Up(link) | State::Closing(link), frame) => {
                link.session.handle(now, Input::Frame(frame));
            }
            _ => {}
        }
    }

    fn retry(&mut self, now: Time, cookie: [u8; 16]) {
        let patience = self.patience(0);
        if let State::Hello(attempt) = &mut self.state
            && attempt.retry(cookie, now, patience)
        {
            self.outputs
                .push_back(DialOutput::Hello(attempt.hello(&self.config)));
        }
    }

    fn welcomed(&mut self, now: Time, welcome: &Welcome, rtt: Option<Duration>) {
        if let Role::Broker(ours, _) = self.config.role
            && ours == welcome.broker
        {
            return self.give_up(now, (Refusal::Identity, welcome.version), None);
        }
        let timing = match self.config.role {
            Role::Client => {
                let keepalive = Duration::from_millis(welcome.keepalive_ms.into());
                Timing::dialing(keepalive, &mut self.random)
            }
            Role::Broker(..) if self.config.in_order => Timing::BROKER_BY_STREAM,
            Role::Broker(..) => Timing::BROKER,
        };
        let config = SessionConfig {
            number: welcome.session,
            timing,
            datagram_max: welcome.datagram_max.min(self.config.datagram_max),
            reliable: self.config.reliable,
        };
        let mut session = Session::new(config, now);
        let both = self.config.capabilities.and(welcome.capabilities);
        if !config.reliable && both.contains(Capabilities::PROBES) {
            session.watch_path(now, config.datagram_max);
        }
        if both.contains(Capabilities::QUIET) {
            session.rest(now, Asks::First);
        }
        if let Some(rtt) = rtt {
            session.round_trip(rtt);
        }
        self.state = State::Up(Box::new(Link {
            session,
            since: now,
        }));
        self.outputs.push_back(DialOutput::Up(welcome.clone()));
    }

    fn refused(&mut self, now: Time, refuse: Refuse) {
        let pause = Duration::from_millis(refuse.retry_after_ms.into()).min(RETRY_AFTER_MAX);
        let said = (refuse.reason, refuse.speaks);
        self.give_up(now, said, (!pause.is_zero()).then_some(pause));
    }

    /// Ends an attempt. Without a pause a client stops; a broker tries on slowly, as its
    /// neighbour's configuration may change.
    fn give_up(&mut self, now: Time, (reason, speaks): (Refusal, u8), pause: Option<Duration>) {
        let pause = match (pause, self.config.role) {
            (None, Role::Client) => {
                self.state = State::Idle;
                self.outputs.push_back(DialOutput::Refused {
                    reason,
                    speaks,
                    again: None,
                });
                return;
            }
            (None, Role::Broker(..)) => REFUSED_PAUSE,
            (Some(pause), _) => pause,
        };
        self.failures += 1;
        let until = now + self.jittered(pause);
        self.state = State::Pausing { until };
        self.outputs.push_back(DialOutput::Refused {
            reason,
            speaks,
            again: Some(until),
        });
    }

    fn transport_lost(&mut self, now: Time) {
        match &mut self.state {
            State::Up(link) | State::Closing(link) => {
                link.session.handle(now, Input::TransportLost);
            }
            State::Connecting | State::Hello(_) => self.pause(now, Duration::ZERO),
            State::Idle | State::Pausing { .. } => {}
        }
    }

    fn close(&mut self, now: Time) {
        self.state = match core::mem::replace(&mut self.state, State::Idle) {
            State::Up(mut link) => {
                link.session.handle(now, Input::Close(Refusal::Goodbye));
                State::Closing(link)
            }
            State::Closing(link) => State::Closing(link),
            _ => State::Idle,
        };
    }

    fn down(&mut self, now: Time) {
        if let State::Up(link) = &self.state {
            let lived = now - link.since;
            if lived >= self.config.backoff.most {
                self.failures = 0;
            }
            self.flapped = match lived < self.config.backoff.flap_damping {
                true => self.flapped.saturating_add(1),
                false => 0,
            };
            let least = self.config.backoff.pause_of_flapping(self.flapped);
            self.pause(now, least);
        } else {
            self.state = State::Idle;
        }
    }

    /// Tries again later, not before `least` has passed.
    fn pause(&mut self, now: Time, least: Duration) {
        let pause = self.config.backoff.pause(self.failures).max(least);
        self.failures += 1;
        self.state = State::Pausing {
            until: now + self.jittered(pause),
        };
    }

    fn expire(&mut self, now: Time) {
        match &mut self.state {
            State::Pausing { until } if now >= *until => self.attempt(now),
            State::Hello(attempt) if now >= attempt.again_at() => {
                if self.config.reliable {
                    return self.pause(now, Duration::ZERO);
                }
                let timeouts = attempt.timeout();
                self.failures += 1;
                let patience = self.patience(timeouts);
                self.repeat(now, patience);
            }
            _ => {}
        }
    }

    fn repeat(&mut self, now: Time, patience: Duration) {
        if let State::Hello(attempt) = &mut self.state {
            attempt.repeat(now, patience);
            self.outputs
                .push_back(DialOutput::Hello(attempt.hello(&self.config)));
        }
    }

    /// How long to wait for the answer to a hello after `timeouts` in a row.
    fn patience(&mut self, timeouts: u32) -> Duration {
        if self.config.reliable {
            STREAM_PATIENCE
        } else {
            let pause = self.config.backoff.pause(timeouts);
            self.jittered(pause)
        }
    }

    fn jittered(&mut self, pause: Duration) -> Duration {
        pause + self.random.time(pause / 2)
    }
}
