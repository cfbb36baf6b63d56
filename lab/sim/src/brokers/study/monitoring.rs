//! What it costs that brokers tell how they are.

use sangam_model::{Filter, Topic};

use super::*;
use crate::brokers::broker::id_of;

/// A report without its links, and what each link adds: JSON of busy brokers, as a test of
/// `control/src/monitor` bounds it.
const REPORT: usize = 800;
const REPORT_LINK: usize = 360;
/// Bytes of a report in one datagram, and the headers of IP, UDP, the event and its fragment.
const PIECE: usize = 1_200;
const PIECE_HEADERS: usize = 28 + 14 + 8;
const SETTLE: Duration = Duration::from_secs(60);
const TIME: Duration = Duration::from_secs(10);

/// Every broker publishes reports; a client of the first broker, as an aggregation node is, hears
/// them all.
pub(super) fn share(world: &mut World) -> Share {
    let mut streams = Vec::new();
    for broker in 0..world.network.brokers.len() {
        let topic = Topic::new(&format!("$sangam/monitor/{:08x}", id_of(broker).0));
        let topic = topic.ok().filter(|_| world.network.brokers[broker].alive);
        let stream = topic.and_then(|topic| world.network.publish(broker, &topic));
        streams.extend(stream.map(|stream| (broker, stream)));
    }
    let listener = streams.first().map_or(0, |(broker, _)| *broker);
    if let Ok(all) = Filter::new("$sangam/monitor/+") {
        world.network.subscribe(listener, &all);
    }
    world.network.run(SETTLE);
    // Each link stands in the reports of both its ends.
    let links = 2 * world.topology.links.len() / world.topology.regions.len();
    let bytes = REPORT + links * REPORT_LINK;
    world.network.event_bytes = (bytes + bytes.div_ceil(PIECE) * PIECE_HEADERS) as u64;
    let share = super::share(world, TIME, |world| {
        world.network.traffic.forget();
        let sequence = world.next_sequence();
        for (broker, stream) in &streams {
            world.network.emit(*broker, *stream, sequence);
        }
    });
    world.network.event_bytes = 0;
    world.network.traffic.forget();
    share
}
