//! The counters of all threads as one list of samples.

use std::sync::atomic::Ordering;

use sangam_broker::DropReason;
use sangam_model::Class;

use crate::broker::Broker;
use crate::counters::{Counter, Counters, Sample};

/// A counter that every thread has: name, help, and where it is.
type Row = (&'static str, &'static str, fn(&Counters) -> &Counter);

const ROWS: [Row; 27] = [
    (
        "sangam_relayed_packets_total",
        "Events sent to neighbours.",
        |c| &c.relayed.packets,
    ),
    (
        "sangam_relayed_messages_total",
        "Kernel messages they took.",
        |c| &c.relayed.messages,
    ),
    (
        "sangam_relayed_bytes_total",
        "Bytes sent to neighbours.",
        |c| &c.relayed.bytes,
    ),
    (
        "sangam_delivered_packets_total",
        "Events sent to subscribers.",
        |c| &c.delivered.packets,
    ),
    (
        "sangam_delivered_messages_total",
        "Kernel messages they took.",
        |c| &c.delivered.messages,
    ),
    (
        "sangam_delivered_bytes_total",
        "Bytes sent to subscribers.",
        |c| &c.delivered.bytes,
    ),
    ("sangam_frames_total", "Link frames received.", |c| {
        &c.frames
    }),
    (
        "sangam_unwanted_total",
        "Events that nobody subscribed to.",
        |c| &c.unwanted,
    ),
    (
        "sangam_repaired_total",
        "Lost events sent again from the cache.",
        |c| &c.repaired,
    ),
    ("sangam_groups", "Multicast groups in use.", |c| &c.groups),
    (
        "sangam_group_listeners",
        "Clients that hear a group, once for each.",
        |c| &c.group_listeners,
    ),
    (
        "sangam_group_packets_total",
        "Events sent to groups.",
        |c| &c.group_packets,
    ),
    (
        "sangam_group_deliveries_total",
        "Copies that they stood for.",
        |c| &c.group_deliveries,
    ),
    (
        "sangam_group_falls_total",
        "Times a client stopped hearing a group.",
        |c| &c.group_falls,
    ),
    (
        "sangam_group_refusals_total",
        "Streams or clients for which no group was left.",
        |c| &c.group_refusals,
    ),
    (
        "sangam_link_groups",
        "Multicast groups of neighbours in use.",
        |c| &c.link_groups.groups,
    ),
    (
        "sangam_link_group_listeners",
        "Neighbours that hear a group, once for each.",
        |c| &c.link_groups.listeners,
    ),
    (
        "sangam_link_group_packets_total",
        "Events sent to groups of neighbours.",
        |c| &c.link_groups.packets,
    ),
    (
        "sangam_link_group_deliveries_total",
        "Copies that they stood for.",
        |c| &c.link_groups.deliveries,
    ),
    (
        "sangam_link_group_received_total",
        "Events taken from neighbours' groups.",
        |c| &c.link_groups.received,
    ),
    (
        "sangam_link_group_ignored_total",
        "Events of groups that are not believed.",
        |c| &c.link_groups.ignored,
    ),
    (
        "sangam_link_group_falls_total",
        "Times a neighbour stopped hearing a group.",
        |c| &c.link_groups.falls,
    ),
    (
        "sangam_link_group_resent_total",
        "Events sent again to who stopped.",
        |c| &c.link_groups.again,
    ),
    (
        "sangam_link_group_forgotten_total",
        "Events that were not kept until nobody could need them again.",
        |c| &c.link_groups.forgotten,
    ),
    (
        "sangam_link_group_refusals_total",
        "Sets of neighbours for which no group was left.",
        |c| &c.link_groups.refusals,
    ),
    (
        "sangam_sleeps_total",
        "Times the thread went to sleep.",
        |c| &c.sleeps,
    ),
    ("sangam_peers", "Clients, legs and doors now.", |c| &c.peers),
];

/// Reads every counter once.
pub(crate) fn collect(broker: &Broker) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (thread, counters) in &broker.counters {
        let labels = || vec![("thread", thread.clone())];
        for (name, help, of) in ROWS {
            let value = of(counters).get() as f64;
            let counter = name.ends_with("_total");
            samples.push(Sample {
                name,
                help,
                counter,
                labels: labels(),
                value,
            });
        }
        for class in Class::ALL {
            let labels = [labels(), vec![("class", class.name().to_owned())]].concat();
            let value = counters.received[class as usize].get() as f64;
            let (name, help) = ("sangam_received_packets_total", "Events taken, by class.");
            samples.push(Sample {
                name,
                help,
                counter: true,
                labels,
                value,
            });
        }
        for reason in DropReason::ALL {
            let labels = [labels(), vec![("reason", reason.name().to_owned())]].concat();
            let value = counters.drops(reason) as f64;
            let (name, help) = ("sangam_dropped_total", "What went no further, by reason.");
            samples.push(Sample {
                name,
                help,
                counter: true,
                labels,
                value,
            });
        }
    }
    samples.extend(gauges(broker));
    samples
}

fn gauges(broker: &Broker) -> Vec<Sample> {
    let (small, large) = broker.pool.free();
    let links = broker.links();
    let up = links.iter().filter(|link| link.up).count();
    let gauge = |name, help, value: usize| Sample {
        name,
        help,
        counter: false,
        labels: Vec::new(),
        value: value as f64,
    };
    let mut samples = vec![
        gauge("sangam_pool_free_small", "Free buffers of 2 KiB.", small),
        gauge("sangam_pool_free_large", "Free buffers of 16 KiB.", large),
        gauge("sangam_links", "Links configured or accepted.", links.len()),
        gauge("sangam_links_up", "Links over which events flow.", up),
    ];
    samples.extend(reliable(broker));
    for link in links {
        let Some(rtt) = link.rtt else { continue };
        samples.push(Sample {
            name: "sangam_link_rtt_seconds",
            help: "Smoothed round trip of a link.",
            counter: false,
            labels: vec![("link", link.address.to_string())],
            value: rtt.as_secs_f64(),
        });
    }
    samples
}

/// What reliable topics count: name, help, and where it is.
type ReliableRow = (
    &'static str,
    &'static str,
    fn(&sangam_reliable::Counters) -> u64,
);

const RELIABLE: [ReliableRow; 15] = [
    ("sangam_reliable_topics", "Topics kept now.", |c| c.topics),
    ("sangam_reliable_records", "Records kept now.", |c| {
        c.records
    }),
    ("sangam_reliable_bytes", "Bytes they take now.", |c| c.bytes),
    (
        "sangam_reliable_feeds",
        "Clients and brokers fed now.",
        |c| c.feeds,
    ),
    (
        "sangam_reliable_pushed_total",
        "Records taken from publishers.",
        |c| c.pushed,
    ),
    (
        "sangam_reliable_fed_total",
        "Records taken from other brokers.",
        |c| c.fed,
    ),
    ("sangam_reliable_sent_total", "Records sent on.", |c| c.sent),
    (
        "sangam_reliable_duplicate_total",
        "Records that came again.",
        |c| c.duplicate,
    ),
    (
        "sangam_reliable_resent_total",
        "Times a window was sent again.",
        |c| c.resent,
    ),
    (
        "sangam_reliable_held_back_total",
        "Pushes put off for want of room.",
        |c| c.held_back,
    ),
    (
        "sangam_reliable_expired_total",
        "Records let go as configured.",
        |c| c.expired,
    ),
    (
        "sangam_reliable_gaps_total",
        "Times records were given up for lost.",
        |c| c.gaps,
    ),
    (
        "sangam_reliable_cut_off_total",
        "Receivers too far behind.",
        |c| c.cut_off,
    ),
    (
        "sangam_reliable_refused_total",
        "Requests past a bound.",
        |c| c.refused,
    ),
    (
        "sangam_reliable_unexpected_total",
        "Messages without sense here.",
        |c| c.unexpected,
    ),
];

fn reliable(broker: &Broker) -> Vec<Sample> {
    let report = &broker.reliable;
    let counters = report.counters.lock().map(|counters| *counters);
    let counters = counters.unwrap_or_default();
    let sample = |name: &'static str, help, value: u64| Sample {
        name,
        help,
        counter: name.ends_with("_total"),
        labels: Vec::new(),
        value: value as f64,
    };
    let rows = RELIABLE.iter();
    let mut samples: Vec<_> = rows
        .map(|(name, help, of)| sample(name, help, of(&counters)))
        .collect();
    let lost = report.lost.load(Ordering::Relaxed);
    let unwritten = report.unwritten.load(Ordering::Relaxed);
    samples.push(sample(
        "sangam_reliable_lost_total",
        "Messages without a way.",
        lost,
    ));
    samples.push(sample(
        "sangam_reliable_unwritten",
        "Changes not on disk yet.",
        unwritten,
    ));
    samples
}
