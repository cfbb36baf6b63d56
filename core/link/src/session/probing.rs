//! Probes of the path: pings as long as the datagrams that shall pass.

use sangam_model::Time;
use sangam_wire::{Frame, Traffic};

use super::{Output, Pong, Session, encode};
use crate::path::PathSearch;

/// What a probe tells of traffic: a ping that measures counts itself, so it never says this.
const PROBE: Traffic = Traffic {
    packets: 0,
    bytes: 0,
};

/// What a session that watches its path has besides.
#[derive(Debug)]
pub(super) struct Probing {
    search: PathSearch,
    /// The peer's probe that is to be answered, beside the ping that measures: both are due
    /// where both came together.
    answer: Option<u64>,
    /// What the path carries now, until it is told.
    carries: Option<u16>,
}

impl Probing {
    pub(super) fn deadline(&self) -> Time {
        self.search.deadline()
    }
}

/// Whether a ping is a probe.
pub(super) fn is_probe(traffic: Option<Traffic>) -> bool {
    traffic == Some(PROBE)
}

impl Session {
    /// Watches whether the path still carries datagrams of `most` bytes, as was agreed; both ends
    /// are able to. Only of an endpoint that measures its link.
    pub fn watch_path(&mut self, now: Time, most: u16) {
        if self.meter.is_none() {
            return;
        }
        let probing = PathSearch::new(most, now).map(|search| Probing {
            search,
            answer: None,
            carries: None,
        });
        self.probing = probing.map(Box::new);
    }

    pub(super) fn probed(&mut self, echo_us: u64) {
        match &mut self.probing {
            Some(probing) => probing.answer = Some(echo_us),
            None => {
                self.pong = Some(Pong {
                    echo_us,
                    traffic: None,
                });
            }
        }
    }

    pub(super) fn owed_to_probe(&mut self) -> Option<Pong> {
        let echo_us = self.probing.as_mut()?.answer.take()?;
        Some(Pong {
            echo_us,
            traffic: None,
        })
    }

    /// A pong came, or an echo; whether it answers a `probe`.
    pub(super) fn judge_path(&mut self, now: Time, echo: Time, probe: bool) -> bool {
        let sent = self.long_bytes();
        let Some(probing) = &mut self.probing else {
            return false;
        };
        let size = if probe {
            probing.search.arrived(now, echo, sent)
        } else {
            probing.search.overtaken(now, echo)
        };
        probing.carries = size.or(probing.carries);
        probe
    }

    pub(super) fn poll_probe(&mut self, now: Time) -> Option<Output> {
        let sent = self.long_bytes();
        let probing = self.probing.as_mut()?;
        if let Some(size) = probing.carries.take() {
            return Some(Output::Carries(size));
        }
        let size = probing.search.poll(now, sent)?;
        let ping = Frame::Ping {
            session: self.number,
            sent_us: now.as_micros(),
            traffic: Some(PROBE),
        };
        let Output::Transmit(mut bytes) = encode(&ping) else {
            return None;
        };
        bytes.resize(size.into(), 0);
        Some(Output::Transmit(bytes))
    }

    fn long_bytes(&self) -> u64 {
        self.meter.as_ref().map_or(0, |meter| meter.long)
    }
}
