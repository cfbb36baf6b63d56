//! What it costs that brokers tell how they are, and how old that is where it is seen.

use sangam_digest::EVENT_HEADERS;
use sangam_model::{BrokerId, Filter, Time, Topic};

use super::*;
use crate::brokers::broker::id_of;

mod cells;

use cells::Cells;

/// A report without its links, and what each link adds: JSON of busy brokers, as a test of
/// `control/src/monitor` bounds it.
const REPORT: usize = 800;
const REPORT_LINK: usize = 360;
/// Bytes of a report in one datagram.
const PIECE: usize = 1_200;
const SETTLE: Duration = Duration::from_secs(60);
const FULL_TIME: Duration = Duration::from_secs(10);
/// With more brokers nobody listens to all reports.
const FULL_MAX: usize = 100;

/// What monitoring costs, and what it is good for.
#[derive(Clone, Debug, Serialize)]
pub struct Monitored {
    /// With every broker's report in full at one broker; `None` in a network that is too large.
    pub full: Option<Share>,
    /// With what cells merge at one broker.
    pub merged: Share,
    /// What that broker's client knows at the end.
    pub ages: Ages,
}

/// How old what is known is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ages {
    /// Brokers that are known.
    pub known: usize,
    /// Brokers that there are.
    pub brokers: usize,
    /// Figures of a broker: the median of all, and the oldest, in seconds.
    pub median_s: f64,
    /// The oldest.
    pub oldest_s: f64,
    /// From the moment a link goes down to that at which it is seen, in seconds: the slower of its
    /// two ends, in the median of some links.
    pub down_median_s: f64,
    /// And in the worst case.
    pub down_worst_s: f64,
}

impl Monitored {
    /// Builds a plan's network and measures nothing else.
    ///
    /// # Errors
    /// Maps that do not agree.
    pub fn of(plan: &Plan, note: impl Fn(&str)) -> Result<(Share, Self), Fault> {
        note("building the network");
        let mut world = World::new(plan);
        check::maps_agree(&world.network)?;
        note("steady state");
        let steady = share(&mut world, STEADY, |_| {});
        note("monitoring");
        Ok((steady, Self::measure(&mut world, &note)))
    }

    /// The client hangs on a broker that is the head of nothing, so that all meets on its links.
    pub(super) fn measure(world: &mut World, note: &impl Fn(&str)) -> Self {
        let alive = |broker: &usize| world.network.brokers[*broker].alive;
        let brokers: Vec<usize> = (0..world.network.brokers.len()).filter(alive).collect();
        let listener = brokers[brokers.len().min(8) - 1];
        let full = (brokers.len() <= FULL_MAX).then(|| full(world, &brokers, listener));
        note("merged");
        let mut cells = Cells::open(world, &brokers, listener);
        world.network.run(SETTLE);
        let merged = share(world, STEADY, |world| cells.second(world));
        let mut ages = cells.ages(world.network.now);
        note(&format!("merged: {merged:?}"));
        (ages.down_median_s, ages.down_worst_s) = cells.links_down(world);
        world.network.event_bytes.clear();
        world.network.traffic.forget();
        Self { full, merged, ages }
    }
}

/// Every broker publishes reports; a client of one broker hears them all.
fn full(world: &mut World, brokers: &[usize], listener: usize) -> Share {
    let mut streams = Vec::new();
    for broker in brokers {
        let topic = Topic::new(&format!("$sangam/monitor/{:08x}", id_of(*broker).0));
        let stream = topic
            .ok()
            .and_then(|topic| world.network.publish(*broker, &topic));
        streams.extend(stream.map(|stream| (*broker, stream)));
    }
    let all = Filter::new("$sangam/monitor/+");
    if let Ok(all) = &all {
        world.network.subscribe(listener, all);
    }
    world.network.run(SETTLE);
    // Each link stands in the reports of both its ends.
    let links = 2 * world.topology.links.len() / world.topology.regions.len();
    let bytes = REPORT + links * REPORT_LINK;
    let bytes = (bytes + bytes.div_ceil(PIECE) * EVENT_HEADERS) as u64;
    let costs = streams.iter().map(|(_, stream)| (*stream, bytes));
    world.network.event_bytes = costs.collect();
    let share = share(world, FULL_TIME, |world| {
        world.network.traffic.forget();
        let sequence = world.next_sequence();
        for (broker, stream) in &streams {
            world.network.emit(*broker, *stream, sequence);
        }
    });
    world.network.event_bytes.clear();
    if let Ok(all) = &all {
        world.network.unsubscribe(listener, all);
    }
    for (broker, stream) in streams {
        world.network.unpublish(broker, stream);
    }
    share
}
