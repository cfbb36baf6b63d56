//! One broker's report from what its threads count.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use sangam_control::monitor::{
    At, BrokerMap, BrokerReport, Drops, INTEREST_MAX, LinkReport, Load, PlannedWay, SCHEMA,
    StreamReport, Traffic,
};
use sangam_io::clock;
use sangam_model::BrokerId;
use sangam_node::{Brief, Broker, LinkInfo, Sample, StreamInfo};
use sangam_wire::PlanMethod;

use crate::http::resident_bytes;

/// Takes a broker's reports one after the other: rates are differences.
#[derive(Debug)]
pub(crate) struct Sampler {
    name: String,
    region: String,
    /// By whose plans the broker goes.
    routing: Option<PlanMethod>,
    started: Instant,
    number: u64,
    before: Before,
}

/// What the previous report said.
#[derive(Debug)]
struct Before {
    at: Instant,
    cpu_s: f64,
    drops: BTreeMap<String, u64>,
    /// Bytes in and out by the address of a link.
    links: HashMap<SocketAddr, (u64, u64)>,
}

impl Sampler {
    /// For the broker of this name and region.
    pub(crate) fn new((name, region): (&str, &str), started: Instant) -> Self {
        Self {
            name: name.to_owned(),
            region: region.to_owned(),
            routing: None,
            started,
            number: 0,
            before: Before {
                at: Instant::now(),
                cpu_s: cpu_s(),
                drops: BTreeMap::new(),
                links: HashMap::new(),
            },
        }
    }

    /// The same for one that goes by a scheduler's plans.
    pub(crate) fn planned_by(self, routing: Option<PlanMethod>) -> Self {
        Self { routing, ..self }
    }

    /// The next report.
    pub(crate) fn sample(&mut self, broker: &Broker) -> BrokerReport {
        let samples = broker.samples();
        let brief = broker.brief(INTEREST_MAX);
        self.number += 1;
        let now = Instant::now();
        let seconds = (now - self.before.at).as_secs_f64().max(1e-3);
        let drops = self.drops(&samples, seconds);
        let report = BrokerReport {
            schema: SCHEMA,
            broker: broker.id(),
            incarnation: broker.incarnation().0,
            number: self.number,
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            region: Some(self.region.clone()).filter(|region| !region.is_empty()),
            at: at(),
            draining: brief.draining,
            uptime_s: self.started.elapsed().as_secs(),
            clients: broker.peers(),
            streams: brief.streams as u64,
            filters: brief.filters as u64,
            load: self.load(seconds),
            traffic: traffic(&samples, &drops),
            drops,
            map: BrokerMap {
                epoch: Some(brief.epoch),
                brokers: brief.brokers as u64,
            },
            links: self.links(&broker.links(), &brief, seconds),
            routing: self.routing.map(|method| method.name().to_owned()),
            ..names(&brief)
        };
        self.before.at = now;
        report
    }

    fn load(&mut self, seconds: f64) -> Load {
        let cpu_s = cpu_s();
        let cores = (cpu_s - self.before.cpu_s) / seconds;
        self.before.cpu_s = cpu_s;
        let there = std::thread::available_parallelism().map_or(1, usize::from);
        Load {
            cpu_cores: Some(round(cores)),
            cpu_share: Some(round(cores / there as f64)),
            memory_bytes: resident_bytes(),
        }
    }

    fn links(&mut self, links: &[LinkInfo], brief: &Brief, seconds: f64) -> Vec<LinkReport> {
        let bytes = |link: &LinkInfo| (link.received.bytes, link.sent.bytes);
        let now = links.iter().map(|link| (link.address, bytes(link)));
        let before = std::mem::replace(&mut self.before.links, now.collect());
        let report = |one: &LinkInfo| {
            let before = before.get(&one.address);
            // Counts begin anew when a link comes up again.
            let bps = |now: u64, before: u64| {
                (now.saturating_sub(before) as f64 * 8.0 / seconds).round() as u64
            };
            let weight = |peer| brief.weights.iter().find(|(id, ..)| *id == peer);
            let weight = one.peer.and_then(|(peer, _)| weight(peer));
            LinkReport {
                in_bps: before.map(|(before, _)| bps(one.received.bytes, *before)),
                out_bps: before.map(|(_, before)| bps(one.sent.bytes, *before)),
                weight: weight.map(|(_, weight, _)| u32::from(*weight)),
                pinned_by: weight.and_then(|(.., by)| by.map(|by| by.name().to_owned())),
                ..link(one)
            }
        };
        links.iter().map(report).collect()
    }

    /// Reasons that ever came up.
    fn drops(&mut self, samples: &[Sample], seconds: f64) -> Vec<Drops> {
        let mut totals = BTreeMap::<String, u64>::new();
        for sample in samples
            .iter()
            .filter(|one| one.name == "sangam_dropped_total")
        {
            let reason = sample.labels.iter().find(|(name, _)| *name == "reason");
            let (Some((_, reason)), true) = (reason, sample.value > 0.0) else {
                continue;
            };
            *totals.entry(reason.clone()).or_default() += sample.value as u64;
        }
        let before = std::mem::replace(&mut self.before.drops, totals.clone());
        let rate = |reason: &str, packets: u64| {
            let new = packets - before.get(reason).copied().unwrap_or(0).min(packets);
            (new as f64 / seconds).round() as u64
        };
        let rows = totals.into_iter().map(|(reason, packets)| Drops {
            per_s: rate(&reason, packets),
            reason,
            packets,
        });
        rows.collect()
    }
}

/// What has a name: filters, streams and planned ways.
fn names(brief: &Brief) -> BrokerReport {
    BrokerReport {
        interest: brief.interest.iter().map(ToString::to_string).collect(),
        origins: brief.origins.iter().map(stream).collect(),
        planned: brief.planned.iter().map(way).collect(),
        ..BrokerReport::default()
    }
}

fn way((origin, parent): &(BrokerId, BrokerId)) -> PlannedWay {
    PlannedWay {
        origin: *origin,
        parent: *parent,
    }
}

fn stream(stream: &StreamInfo) -> StreamReport {
    StreamReport {
        id: stream.id.to_string(),
        topic: stream.topic.to_string(),
        links: stream.links as u64,
    }
}

/// The one place that knows both what the broker measures and what a report has room for.
fn link(link: &LinkInfo) -> LinkReport {
    LinkReport {
        peer: link.peer.map(|(broker, _)| broker),
        address: link.address.to_string(),
        transport: link.transport.to_owned(),
        up: link.up,
        suspect: Some(link.suspect),
        rtt_us: link.rtt.map(us),
        jitter_us: link.measured.map(|measured| us(measured.jitter)),
        bandwidth_bps: link.rate.map(|rate| rate.as_bps()),
        queue_packets: Some(link.queue.packets),
        queue_bytes: Some(link.queue.bytes),
        queue_us: Some(us(link.queue.time)),
        dropped_packets: Some(link.queue.dropped),
        loss_ppm: link.measured.map(|measured| measured.loss_ppm),
        ..LinkReport::default()
    }
}

fn us(time: Duration) -> u64 {
    time.as_micros() as u64
}

fn traffic(samples: &[Sample], drops: &[Drops]) -> Traffic {
    let sum = |name: &str| {
        let of_threads = samples.iter().filter(|sample| sample.name == name);
        of_threads.map(|sample| sample.value as u64).sum()
    };
    Traffic {
        received_packets: sum("sangam_received_packets_total"),
        received_bytes: None,
        relayed_packets: sum("sangam_relayed_packets_total"),
        relayed_bytes: sum("sangam_relayed_bytes_total"),
        delivered_packets: sum("sangam_delivered_packets_total"),
        delivered_bytes: sum("sangam_delivered_bytes_total"),
        dropped_packets: drops.iter().map(|drops| drops.packets).sum(),
        dropped_per_s: drops.iter().map(|drops| drops.per_s).sum(),
    }
}

fn at() -> At {
    At {
        unix_ms: unix_ms(),
        clock_us: clock::now().as_micros(),
        clock_domain: clock::clock_domain(),
    }
}

/// Milliseconds since 1970 by this machine's clock.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Processor time of this process in seconds.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// A thousandth is as much as a second's sample means.
fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
