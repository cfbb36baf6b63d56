//! What a run found out.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Spent;
use super::plan::{Place, Probe};
use super::traffic::Snapshot;
use crate::load::Load;
use crate::measure::Reception;
use crate::process::{CpuTimes, Metrics};

/// What one broker used and counted within the window.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    /// Its CPU time.
    pub(crate) cpu: CpuTimes,
    /// Its counters.
    pub(crate) metrics: Metrics,
}

/// What one measured receiver, or several of like place, got.
#[derive(Clone)]
pub(crate) struct Seen {
    /// Broker and place.
    pub(crate) probe: Probe,
    /// Packets that were published within the window.
    pub(crate) expected: u64,
    /// What came.
    pub(crate) reception: Reception,
}

/// What the participants heard.
pub(crate) struct Heard {
    pub(super) seen: Vec<Seen>,
    pub(super) due: u64,
    pub(super) due_to_passive: u64,
    pub(super) overflow: u64,
    pub(super) deaths: u64,
    behind_max: Duration,
}

/// The result of a run.
pub(crate) struct Outcome {
    /// Each measured receiver.
    pub(crate) seen: Vec<Seen>,
    /// Each broker.
    pub(crate) usage: Vec<Usage>,
    /// How long was measured.
    pub(crate) took: Duration,
    /// CPU of the load generator within the window.
    pub(crate) generator_cpu: Duration,
    /// CPU of the emulator's thread within the window; part of the generator's.
    pub(crate) emulator_cpu: Duration,
    /// Packets that the emulator was too slow for within the window.
    pub(crate) missed: u64,
    /// Bytes that arrived at each site from others within the window, IP headers included.
    pub(crate) carried: Vec<u64>,
    /// The furthest a frame left the generator behind its time.
    pub(crate) behind_max: Duration,
    /// Packets that sockets of passive participants had no room for.
    pub(crate) overflow: u64,
    /// Events that passive participants read, from the first to the last.
    pub(crate) counted: u64,
    /// Events that passive participants should have got.
    pub(crate) due_to_passive: u64,
    /// Events that all participants should have got, from the first to the last.
    pub(crate) due: u64,
    /// Links of passive participants that died.
    pub(crate) deaths: u64,
    traffic: Snapshot,
}

impl Usage {
    /// What was used and counted since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            cpu: self.cpu.since(&before.cpu),
            metrics: self.metrics.since(&before.metrics),
        }
    }
}

impl Heard {
    pub(super) fn new(behind_max: Duration) -> Self {
        Self {
            seen: Vec::new(),
            due: 0,
            due_to_passive: 0,
            overflow: 0,
            deaths: 0,
            behind_max,
        }
    }

    pub(super) fn add(&mut self, probe: Probe, (reception, expected): (Reception, u64)) {
        self.seen.push(Seen {
            probe,
            expected,
            reception,
        });
    }
}

impl Outcome {
    pub(super) fn new(spent: Spent, traffic: Snapshot, heard: Heard) -> Self {
        Self {
            seen: heard.seen,
            usage: spent.usage,
            took: spent.took,
            generator_cpu: spent.generator_cpu,
            emulator_cpu: spent.emulator_cpu,
            carried: spent.carried,
            missed: spent.missed,
            behind_max: heard.behind_max,
            overflow: heard.overflow,
            counted: traffic.counted,
            due: heard.due,
            due_to_passive: heard.due_to_passive,
            deaths: heard.deaths,
            traffic,
        }
    }

    /// All measured receivers that `choose` selects, as one; `None` if there are none.
    pub(crate) fn among(&self, choose: impl Fn(&Probe) -> bool) -> Option<Seen> {
        let mut chosen = self.seen.iter().filter(|seen| choose(&seen.probe));
        let mut all = chosen.next()?.clone();
        for seen in chosen {
            all.reception.merge(&seen.reception);
            all.expected += seen.expected;
        }
        Some(all)
    }

    /// The receivers of a broker, from 0, at one end of the order.
    pub(crate) fn at(&self, broker: usize, place: Place) -> Option<Seen> {
        self.among(|probe| probe.broker == broker && probe.place == place)
    }

    /// The largest share of lost and late packets of any measured receiver, in percent.
    pub(crate) fn worst_percent(&self) -> f64 {
        self.seen.iter().map(Seen::bad_percent).fold(0.0, f64::max)
    }

    /// The same if the frames had come as often as in a whole round of `load`.
    pub(crate) fn worst_percent_of(&self, load: &Load) -> f64 {
        let bad = |seen: &Seen| seen.bad_percent_of(load);
        self.seen.iter().map(bad).fold(0.0, f64::max)
    }

    /// Events all brokers sent to local subscribers within the window.
    pub(crate) fn delivered(&self) -> f64 {
        self.counted("sangam_delivered_packets_total")
    }

    /// Events all brokers sent to local subscribers from the first to the last.
    pub(crate) fn delivered_in_all(&self) -> f64 {
        self.traffic.sum("sangam_delivered_packets_total")
    }

    /// Events all brokers sent to each other from the first to the last.
    pub(crate) fn relayed_in_all(&self) -> f64 {
        self.traffic.sum("sangam_relayed_packets_total")
    }

    /// Events all brokers sent within the window, to subscribers and to each other.
    pub(crate) fn sent(&self) -> f64 {
        self.delivered() + self.counted("sangam_relayed_packets_total")
    }

    /// CPU of all brokers within the window.
    pub(crate) fn cpu(&self) -> Duration {
        self.usage.iter().map(|usage| usage.cpu.total).sum()
    }

    /// Whole-process CPU of all brokers per event sent, in microseconds.
    pub(crate) fn cpu_us_per_packet(&self) -> f64 {
        self.cpu().as_secs_f64() * 1e6 / self.sent().max(1.0)
    }

    /// Events dropped within the window, by reason, all brokers together; zeros left out.
    pub(crate) fn drops(&self) -> BTreeMap<String, f64> {
        drops(self.usage.iter().map(|usage| &usage.metrics))
    }

    /// The same from the first event to the last.
    pub(crate) fn drops_in_all(&self) -> BTreeMap<String, f64> {
        drops(self.traffic.brokers.iter())
    }

    /// Messages the kernel sent beyond those that brokers and generator account for, in percent
    /// of all; negative if it sent fewer. The brokers' answers to keep-alives are taken to be as
    /// many as the generator's frames.
    pub(crate) fn unreconciled_percent(&self) -> f64 {
        let traffic = &self.traffic;
        let events = traffic.sum("sangam_delivered_messages_total")
            + traffic.sum("sangam_relayed_messages_total");
        let ours = (traffic.messages + traffic.frames) as f64;
        let kernel = traffic.kernel.sent as f64;
        (kernel - events - ours) * 100.0 / kernel.max(1.0)
    }

    fn counted(&self, name: &str) -> f64 {
        self.usage
            .iter()
            .map(|usage| usage.metrics.sum(name, ""))
            .sum()
    }
}

fn drops<'a>(brokers: impl Iterator<Item = &'a Metrics>) -> BTreeMap<String, f64> {
    let mut drops = BTreeMap::new();
    for (reason, count) in
        brokers.flat_map(|metrics| metrics.by_label("sangam_dropped_total", "reason"))
    {
        if count > 0.0 {
            *drops.entry(reason).or_default() += count;
        }
    }
    drops
}

impl Seen {
    /// Lost and late packets together, in percent.
    pub(crate) fn bad_percent(&self) -> f64 {
        self.reception.loss_percent(self.expected) + self.reception.late_percent(self.expected)
    }
    /// The same if the frames had come as often as in a whole round of `load`.
    fn bad_percent_of(&self, load: &Load) -> f64 {
        self.reception.loss_percent(self.expected) + self.reception.late_percent_of(load)
    }
}
