// tidy: data table
//! What can be watched, shown as a metric and checked: one table for each kind of thing.

use super::network::Summary;
use super::report::{BrokerReport, LinkReport};

/// One measure of a `T`.
#[derive(Clone, Copy, Debug)]
pub struct Measure<T: 'static> {
    /// Its name in thresholds and checks, without `link.`, `broker.` or `network.`; as in the
    /// report wherever it stands there.
    pub name: &'static str,
    /// The end of its name as a metric, in the base unit (seconds, bytes, ratio).
    pub metric: &'static str,
    /// What it is, in a line.
    pub help: &'static str,
    /// From the unit of the name to the base unit.
    pub scale: f64,
    /// Whether it only rises.
    pub counter: bool,
    /// The value, in the unit of the name; `None` if it is not measured.
    pub of: fn(&T) -> Option<f64>,
}

const MICRO: f64 = 1e-6;

/// A gauge.
const fn gauge<T>(
    name: &'static str,
    (metric, scale): (&'static str, f64),
    help: &'static str,
    of: fn(&T) -> Option<f64>,
) -> Measure<T> {
    Measure {
        name,
        metric,
        help,
        scale,
        counter: false,
        of,
    }
}

/// A counter without a unit.
const fn count<T>(
    name: &'static str,
    metric: &'static str,
    help: &'static str,
    of: fn(&T) -> Option<f64>,
) -> Measure<T> {
    Measure {
        name,
        metric,
        help,
        scale: 1.0,
        counter: true,
        of,
    }
}

fn int(value: u64) -> Option<f64> {
    Some(value as f64)
}

fn truth(value: bool) -> Option<f64> {
    Some(f64::from(u8::from(value)))
}

/// Measures of one end of a link.
pub const LINK: [Measure<LinkReport>; 15] = [
    gauge("up", ("up", 1.0), "1 while events flow.", |l| truth(l.up)),
    gauge("down", ("down", 1.0), "1 while none do.", |l| truth(!l.up)),
    gauge(
        "suspect",
        ("suspect", 1.0),
        "1 while the other end is silent.",
        |l| l.suspect.and_then(truth),
    ),
    gauge(
        "weight",
        ("weight", 1.0),
        "Cost in the broker network map.",
        |l| l.weight.map(f64::from),
    ),
    gauge(
        "rtt_us",
        ("rtt_seconds", MICRO),
        "Smoothed round trip.",
        |l| l.rtt_us.and_then(int),
    ),
    gauge(
        "jitter_us",
        ("jitter_seconds", MICRO),
        "Jitter of what arrives.",
        |l| l.jitter_us.and_then(int),
    ),
    gauge(
        "loss_ppm",
        ("loss_ratio", MICRO),
        "Events lost on the way here.",
        |l| l.loss_ppm.map(f64::from),
    ),
    gauge(
        "bandwidth_bps",
        ("bandwidth_bps", 1.0),
        "Estimated capacity from here.",
        |l| l.bandwidth_bps.and_then(int),
    ),
    gauge(
        "in_bps",
        ("in_bps", 1.0),
        "Bits per second that arrive.",
        |l| l.in_bps.and_then(int),
    ),
    gauge(
        "out_bps",
        ("out_bps", 1.0),
        "Bits per second that leave.",
        |l| l.out_bps.and_then(int),
    ),
    gauge(
        "queue_packets",
        ("queue_packets", 1.0),
        "Events that wait to be sent.",
        |l| l.queue_packets.and_then(int),
    ),
    gauge(
        "queue_bytes",
        ("queue_bytes", 1.0),
        "Bytes that wait to be sent.",
        |l| l.queue_bytes.and_then(int),
    ),
    gauge(
        "queue_us",
        ("queue_seconds", MICRO),
        "How long the oldest of them waits.",
        |l| l.queue_us.and_then(int),
    ),
    gauge(
        "age_ms",
        ("age_seconds", 1e-3),
        "Age of its figures.",
        |l| int(l.age_ms),
    ),
    count(
        "dropped_packets",
        "dropped_packets_total",
        "Events dropped at this link.",
        |l| l.dropped_packets.and_then(int),
    ),
];

/// Measures of one broker.
pub const BROKER: [Measure<BrokerReport>; 19] = [
    gauge(
        "uptime_s",
        ("uptime_seconds", 1.0),
        "Time since the start.",
        |b| int(b.uptime_s),
    ),
    gauge(
        "age_ms",
        ("age_seconds", 1e-3),
        "Age of its newest report.",
        |b| int(b.age_ms),
    ),
    gauge(
        "clock_off_ms",
        ("clock_off_seconds", 1e-3),
        "How far its clock is off the median of all.",
        |b| b.clock_off_ms.map(|off| off.unsigned_abs() as f64),
    ),
    gauge(
        "draining",
        ("draining", 1.0),
        "1 while clients are sent elsewhere.",
        |b| truth(b.draining),
    ),
    gauge(
        "clients",
        ("clients", 1.0),
        "Clients, legs and doors.",
        |b| int(b.clients),
    ),
    gauge("streams", ("streams", 1.0), "Streams it knows.", |b| {
        int(b.streams)
    }),
    gauge(
        "filters",
        ("filters", 1.0),
        "Filters of its own clients.",
        |b| int(b.filters),
    ),
    gauge(
        "cpu_cores",
        ("cpu_cores", 1.0),
        "Processor cores in use.",
        |b| b.load.cpu_cores,
    ),
    gauge(
        "cpu_share",
        ("cpu_ratio", 1.0),
        "Share of the cores in use.",
        |b| b.load.cpu_share,
    ),
    gauge(
        "memory_bytes",
        ("memory_bytes", 1.0),
        "Resident memory.",
        |b| b.load.memory_bytes.and_then(int),
    ),
    gauge(
        "known_brokers",
        ("known_brokers", 1.0),
        "Brokers in its map.",
        |b| int(b.map.brokers),
    ),
    gauge(
        "links_up",
        ("links_up", 1.0),
        "Links over which events flow.",
        |b| int(b.links.iter().filter(|link| link.up).count() as u64),
    ),
    gauge(
        "dropped_per_s",
        ("dropped_per_second", 1.0),
        "Events dropped per second.",
        |b| int(b.traffic.dropped_per_s),
    ),
    count(
        "received_packets",
        "received_packets_total",
        "Events taken.",
        |b| int(b.traffic.received_packets),
    ),
    count(
        "relayed_packets",
        "relayed_packets_total",
        "Events sent to neighbours.",
        |b| int(b.traffic.relayed_packets),
    ),
    count(
        "relayed_bytes",
        "relayed_bytes_total",
        "Bytes sent to neighbours.",
        |b| int(b.traffic.relayed_bytes),
    ),
    count(
        "delivered_packets",
        "delivered_packets_total",
        "Events sent to subscribers.",
        |b| int(b.traffic.delivered_packets),
    ),
    count(
        "delivered_bytes",
        "delivered_bytes_total",
        "Bytes sent to subscribers.",
        |b| int(b.traffic.delivered_bytes),
    ),
    count(
        "dropped_packets",
        "dropped_packets_total",
        "Events that went no further.",
        |b| int(b.traffic.dropped_packets),
    ),
];

/// Measures of the whole network.
pub const NETWORK: [Measure<Summary>; 10] = [
    gauge("brokers", ("brokers", 1.0), "Brokers that report.", |n| {
        int(n.brokers)
    }),
    gauge(
        "stale",
        ("stale_brokers", 1.0),
        "Brokers that ceased to.",
        |n| int(n.stale),
    ),
    gauge("links", ("link_ends", 1.0), "Ends of links.", |n| {
        int(n.links)
    }),
    gauge(
        "links_up",
        ("link_ends_up", 1.0),
        "Ends over which events flow.",
        |n| int(n.links_up),
    ),
    gauge(
        "links_down",
        ("link_ends_down", 1.0),
        "Ends over which none do.",
        |n| int(n.links_down),
    ),
    gauge(
        "clients",
        ("clients", 1.0),
        "Clients, legs and doors.",
        |n| int(n.clients),
    ),
    gauge(
        "delivered_packets",
        ("delivered_packets", 1.0),
        "Events delivered.",
        |n| int(n.delivered_packets),
    ),
    gauge(
        "dropped_packets",
        ("dropped_packets", 1.0),
        "Events dropped.",
        |n| int(n.dropped_packets),
    ),
    gauge(
        "wrong_clocks",
        ("wrong_clocks", 1.0),
        "Brokers whose clocks are wrong.",
        |n| int(n.wrong_clocks),
    ),
    count(
        "refused",
        "refused_reports_total",
        "Reports refused.",
        |n| int(n.refused),
    ),
];
