//! The demonstration's network: four brokers in a square, so that there are two ways.

use super::broker::DemoBroker;
use crate::exit::Failure;

/// `first` is linked with both `ways`, and so is `last`.
#[derive(Debug)]
pub(super) struct Square {
    /// Here the clip enters.
    pub(super) first: DemoBroker,
    /// One of them carries it.
    pub(super) ways: [DemoBroker; 2],
    /// Here it is received.
    pub(super) last: DemoBroker,
}

impl Square {
    /// Starts four brokers on ports of the kernel's choice.
    pub(super) fn start() -> Result<Self, Failure> {
        let first = DemoBroker::start("demo-a", &[])?;
        let ways = [
            DemoBroker::start("demo-b", &[first.udp])?,
            DemoBroker::start("demo-c", &[first.udp])?,
        ];
        let last = DemoBroker::start("demo-d", &[ways[0].udp, ways[1].udp])?;
        Ok(Self { first, ways, last })
    }

    /// All four, as they are named.
    pub(super) fn brokers(&self) -> [&DemoBroker; 4] {
        [&self.first, &self.ways[0], &self.ways[1], &self.last]
    }

    /// Kills the broker that carries the clip, and tells which it was.
    pub(super) fn kill_the_carrier(&mut self) -> Result<&'static str, Failure> {
        let carried = |broker: &DemoBroker| broker.count("sangam_relayed_packets_total", "");
        let at = usize::from(carried(&self.ways[1])? > carried(&self.ways[0])?);
        self.ways[at].child.kill();
        Ok(self.ways[at].name)
    }

    /// Ends all that still run; false if one had to be killed for it.
    pub(super) fn stop(&mut self, killed: Option<&str>) -> bool {
        let ways = self.ways.iter_mut();
        let mut well = self.last.stop() & self.first.stop();
        for way in ways.filter(|way| Some(way.name) != killed) {
            well &= way.stop();
        }
        well
    }
}
