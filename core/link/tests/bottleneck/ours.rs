//! A link of ours: two real sessions, the controller, and packets at its rate.

use std::time::Duration;

use sangam_link::{Asks, Input, Mode, Output, RateController, Session, SessionConfig, Timing};
use sangam_model::Time;
use sangam_wire::{Echo, Frame};

use super::{Load, PACKET};

pub(super) struct Ours {
    session: Session,
    peer: Session,
    control: RateController,
    /// Bits each second that the source makes.
    source: f64,
    made_until: Time,
    next_at: Time,
    number: u64,
}

impl Ours {
    pub(super) fn new(now: Time, rtt: Duration, source: f64) -> Self {
        let session = |asks| {
            let config = SessionConfig {
                number: 1,
                timing: Timing::BROKER,
                datagram_max: 1_472,
                reliable: false,
            };
            let mut session = Session::new(config, now);
            session.rest(now, asks);
            session
        };
        Self {
            session: session(Asks::First),
            peer: session(Asks::Otherwise),
            control: RateController::new(now, rtt),
            source,
            made_until: now,
            next_at: now,
            number: 0,
        }
    }

    pub(super) fn source(&self) -> f64 {
        self.source
    }

    pub(super) fn mode(&self) -> Mode {
        self.control.mode()
    }

    /// Mb/s.
    pub(super) fn allowed(&self) -> f64 {
        self.control.rate().as_bps() as f64 / 1e6
    }

    pub(super) fn wakes(&self) -> Time {
        let ping = self.session.deadline().expect("the link stays up");
        self.next_at.max(self.made_until).min(ping)
    }

    pub(super) fn next(&mut self, now: Time) -> Option<Load> {
        // The way back never fails here.
        self.session.heard(now);
        if let Some(since) = self.session.awaits_since() {
            self.control.overdue(now, now - since);
        }
        while let Some(output) = self.session.poll(now) {
            match output {
                Output::Transmit(bytes) => return Some(Load::Frame(bytes)),
                Output::Sample(sample) => self.control.handle(now, sample),
                Output::Down(reason) => panic!("the link went down at {now}: {reason}"),
                _ => {}
            }
        }
        if now < self.next_at || now < self.made_until {
            return None;
        }
        let takes = |bps: f64| Duration::from_secs_f64(PACKET as f64 * 8.0 / bps);
        // A link that slept begins anew; it has no credit.
        let late = Duration::from_millis(2);
        let rate = self.control.rate().as_bps() as f64;
        let begin = |at: Time| if now - at > late { now } else { at };
        self.next_at = begin(self.next_at) + takes(rate);
        if self.source.is_finite() {
            self.made_until = begin(self.made_until) + takes(self.source);
        }
        self.number += 1;
        self.session.sent(now, 1, PACKET);
        Some(Load::Data(self.number))
    }

    pub(super) fn returned(&mut self, now: Time, bytes: &[u8]) {
        let frame = Frame::decode(bytes).expect("sessions write what they can read");
        self.session.handle(now, Input::Frame(&frame));
    }

    pub(super) fn arrived(&mut self, now: Time, drift: i64) {
        self.peer.received(clock(now, drift), PACKET as usize);
    }

    /// The peer's answer to a frame. What it asks by itself has no place here.
    pub(super) fn answer(&mut self, now: Time, drift: i64, bytes: &[u8]) -> Option<Load> {
        let now = clock(now, drift);
        let frame = Frame::decode(bytes).expect("sessions write what they can read");
        self.peer.handle(now, Input::Frame(&frame));
        let mut answer = None;
        while let Some(output) = self.peer.poll(now) {
            if let Output::Transmit(bytes) = output
                && let Ok(Frame::Echo(Echo { asks: false, .. }) | Frame::Pong { .. }) =
                    Frame::decode(&bytes)
            {
                answer = Some(Load::Frame(bytes));
            }
        }
        answer
    }
}

/// The peer's clock: an hour ahead, and drifting.
fn clock(now: Time, drift: i64) -> Time {
    let us = now.as_micros() as i64;
    Time::from_micros((us + us / 1_000 * drift / 1_000 + 3_600_000_000) as u64)
}
