//! What is done to a network, and how it is mended.

use std::time::Duration;

use rustix::process::Signal;
use sangam_emulator::{Control, Quality, State};
use sangam_io::clock;
use sangam_model::Time;

use super::stage::Stage;
use super::ways::{Part, Topology};
use crate::error::Error;

/// A way to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// A link passes nothing, and senders are told.
    Cut,
    /// A link passes nothing, and nobody is told.
    Blackhole,
    /// The same in one direction.
    OneWay,
    /// A broker dies.
    Kill,
    /// A broker stands still, and goes on later.
    Freeze,
}

/// All of them.
pub(super) const ALL: [Failure; 5] = [
    Failure::Cut,
    Failure::Blackhole,
    Failure::OneWay,
    Failure::Kill,
    Failure::Freeze,
];

/// One failure that happened.
pub(super) struct Episode {
    /// Which.
    pub(super) failure: Failure,
    /// Of what.
    pub(super) part: Part,
    /// When.
    pub(super) failed: Time,
    /// When mending began.
    pub(super) mended: Time,
    /// When all was over.
    pub(super) ended: Time,
    /// Pairs that got nothing at the end of it.
    pub(super) silent: u64,
}

impl Failure {
    /// As reports name it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cut => "link cut",
            Self::Blackhole => "link silent",
            Self::OneWay => "link silent one way",
            Self::Kill => "broker killed",
            Self::Freeze => "broker frozen",
        }
    }

    /// What fails in the repetition of a number: each part in its turn.
    pub(super) fn part(self, topology: &Topology, repetition: usize) -> Part {
        match self {
            Self::Kill | Self::Freeze => Part::Broker(repetition % topology.brokers),
            _ => {
                let (a, b, _) = topology.links[repetition % topology.links.len()];
                // One-way failures meet those that dial and those that are dialled.
                let turned = repetition % 2 == 1;
                if turned {
                    Part::Link(b, a)
                } else {
                    Part::Link(a, b)
                }
            }
        }
    }

    /// Lets it happen, waits, mends it, and waits until everybody is served again.
    ///
    /// # Errors
    /// Those of the emulator and of starting a broker.
    pub(super) fn happen(
        self,
        part: Part,
        stage: &mut Stage,
        (outage, patience): (Duration, Duration),
    ) -> Result<Episode, Error> {
        let failed = clock::now();
        self.begin(part, stage)?;
        std::thread::sleep(outage);
        let mended = clock::now();
        self.end(part, stage)?;
        let silent = stage.wait_served(0, patience);
        Ok(Episode {
            failure: self,
            part,
            failed,
            mended,
            ended: clock::now(),
            silent,
        })
    }

    /// Lets it happen.
    ///
    /// # Errors
    /// Those of the emulator and of signals.
    pub(super) fn begin(self, part: Part, stage: &mut Stage) -> Result<(), Error> {
        match (self, part) {
            (Self::Cut, Part::Link(a, b)) => both(stage, (a, b), State::Cut),
            (Self::Blackhole, Part::Link(a, b)) => both(stage, (a, b), State::Blackhole),
            (Self::OneWay, Part::Link(a, b)) => one(stage, (a, b), State::Blackhole),
            (Self::Freeze, Part::Broker(broker)) => stage.brokers[broker].signal(Signal::STOP),
            (_, Part::Broker(broker)) => stage.brokers[broker].kill(),
            _ => Ok(()),
        }
    }

    /// Mends it.
    ///
    /// # Errors
    /// Those of the emulator and of starting a broker.
    pub(super) fn end(self, part: Part, stage: &mut Stage) -> Result<(), Error> {
        match (self, part) {
            (_, Part::Link(a, b)) => both(stage, (a, b), State::Open),
            (Self::Freeze, Part::Broker(broker)) => stage.brokers[broker].signal(Signal::CONT),
            (_, Part::Broker(broker)) => stage.brokers[broker].restart(),
        }
    }
}

fn both(stage: &Stage, (a, b): (usize, usize), state: State) -> Result<(), Error> {
    let set = stage.network.control().set_state(a, b, state);
    set.map_err(Error::Network)
}

fn one(stage: &Stage, (from, to): (usize, usize), state: State) -> Result<(), Error> {
    let control: &Control = stage.network.control();
    let quality = control.quality(from, to).map_err(Error::Network)?;
    let set = control.set(from, to, Quality { state, ..quality });
    set.map_err(Error::Network)
}
