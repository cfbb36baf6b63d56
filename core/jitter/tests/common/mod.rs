//! Drives a receiver and keeps what it says.
#![allow(dead_code, reason = "each test file uses its own part")]

use core::time::Duration;

use sangam_jitter::{Input, Output, Packet, Receiver};
use sangam_model::Time;

/// Outputs by what they are, in the order of polling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) releases: Vec<(u64, Time)>,
    pub(crate) plays: Vec<(u64, Time)>,
    pub(crate) concealed: Vec<(Time, Duration)>,
    pub(crate) discarded: Vec<u64>,
}

/// A packet of 10 ms of media.
pub(crate) fn packet(seq: u64) -> Packet {
    Packet {
        seq,
        sent: Time::from_millis(10 * seq),
    }
}

impl Told {
    pub(crate) fn read(&mut self, receiver: &mut Receiver) {
        while let Some(output) = receiver.poll() {
            match output {
                Output::Release { seq, at } => self.releases.push((seq, at)),
                Output::Play { seq, at } => self.plays.push((seq, at)),
                Output::Conceal { at, length } => self.concealed.push((at, length)),
                Output::Discard { seq, .. } => self.discarded.push(seq),
            }
        }
    }

    /// Takes arrivals in order of time; with `timers`, at every deadline, too.
    pub(crate) fn arrivals(
        &mut self,
        receiver: &mut Receiver,
        arrivals: &[(Time, Packet)],
        timers: bool,
    ) {
        for (now, packet) in arrivals {
            while let Some(at) = receiver.deadline().filter(|at| timers && at <= now) {
                receiver.handle(at, Input::Timer);
                self.read(receiver);
            }
            receiver.handle(*now, Input::Packet(*packet));
            self.read(receiver);
        }
    }

    /// Lets time pass.
    pub(crate) fn until(&mut self, receiver: &mut Receiver, now: Time) {
        receiver.handle(now, Input::Timer);
        self.read(receiver);
    }
}
