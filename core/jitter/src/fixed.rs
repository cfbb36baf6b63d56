//! The fixed buffer of the VCRoute paper's figure 6.

use core::time::Duration;

use sangam_model::Time;

use crate::Packet;
use crate::line::Line;

/// VCRoute paper, figure 6: output begins when four packets are there.
const FULL: usize = 4;
/// When nothing has come for so long, the rest is let out. The paper does not say what happens to
/// it; without this, the end of every utterance would wait for the next one.
const IDLE: Duration = Duration::from_millis(200);

/// Lets the first of four packets go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fixed {
    arrived: Time,
}

impl Fixed {
    pub(crate) fn packet(&mut self, line: &mut Line, packet: Packet, now: Time) {
        self.arrived = now;
        line.admit(packet, now, |line| line.release(now));
        while line.held.len() >= FULL {
            line.release(now);
        }
    }

    pub(crate) fn deadline(&self, line: &Line) -> Option<Time> {
        (line.held.len() > 0).then(|| self.arrived + IDLE)
    }

    pub(crate) fn expired(&mut self, line: &mut Line, at: Time) {
        while line.held.len() > 0 {
            line.release(at);
        }
    }
}
