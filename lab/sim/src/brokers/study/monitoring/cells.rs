//! Cells whose heads merge digests, by the code that brokers run.

use sangam_digest::{
    BROKER, Budget, Digest, EVENT_HEADERS, LINK, Link, Merger, Names, Row, broker, decode, link,
};
use sangam_model::Random;
use sangam_route::{Cell, Member, cells};

use super::*;
use crate::brokers::broker::index_of;

/// As control/src/monitor/cell.rs has them.
const OWN_BYTES: u32 = 120;
const ALL_BYTES: usize = 7_000;
const CELL_BYTES_MIN: usize = 32;
/// Links that are let down, and how long is waited for one to be seen.
const DOWNS: usize = 20;
const DOWN_FOR: u64 = 30;

/// All cells, and the client that looks.
pub(super) struct Cells {
    brokers: Vec<Teller>,
    heads: Vec<Head>,
    listener: usize,
    /// Payloads of the events that are on their way.
    events: BTreeMap<StreamId, (u16, Vec<u8>)>,
    seen: BTreeMap<BrokerId, Seen>,
    /// Ends of links that are said to be down.
    down: BTreeSet<(BrokerId, BrokerId)>,
    number: u64,
}

/// A broker that tells how it is.
struct Teller {
    place: usize,
    stream: StreamId,
    merger: Merger,
    peers: Vec<BrokerId>,
    head: usize,
}

struct Head {
    place: usize,
    stream: StreamId,
    merger: Merger,
}

/// What the client knows of a broker.
struct Seen {
    at: Time,
    down: BTreeSet<BrokerId>,
}

impl Cells {
    /// Brokers publish and subscribe as they do.
    pub(super) fn open(world: &mut World, brokers: &[usize], listener: usize) -> Self {
        let regions: Vec<String> = world
            .topology
            .regions
            .iter()
            .map(usize::to_string)
            .collect();
        let member = |place: &usize| Member {
            id: id_of(*place),
            region: &regions[*place],
        };
        let cells = cells(&brokers.iter().map(member).collect::<Vec<_>>());
        let mut it = Self {
            brokers: Vec::new(),
            heads: Vec::new(),
            listener,
            events: BTreeMap::new(),
            seen: BTreeMap::new(),
            down: BTreeSet::new(),
            number: 0,
        };
        for cell in &cells {
            it.cell(world, cell, brokers.len());
        }
        if let Ok(all) = Filter::new("$sangam/merged/+") {
            world.network.subscribe(listener, &all);
        }
        it
    }

    fn cell(&mut self, world: &mut World, cell: &Cell, brokers: usize) {
        let name = cell.name;
        let Some(head) = cell.head(|_| true).map(index_of) else {
            return;
        };
        let publish = |world: &mut World, place: usize, topic: &str| {
            let topic = Topic::new(topic).ok()?;
            world.network.publish(place, &topic)
        };
        let Some(stream) = publish(world, head, &format!("$sangam/merged/{name:08x}")) else {
            return;
        };
        if let Ok(all) = Filter::new(&format!("$sangam/cell-{name:08x}/+")) {
            world.network.subscribe(head, &all);
        }
        let budget = |bytes_per_s| Budget {
            bytes_per_s,
            brokers: brokers as u64,
        };
        let share = (ALL_BYTES * cell.members.len() / brokers).max(CELL_BYTES_MIN);
        self.heads.push(Head {
            place: head,
            stream,
            merger: Merger::new(budget(share as u32)),
        });
        for id in &cell.members {
            let place = index_of(*id);
            let topic = format!("$sangam/cell-{name:08x}/{id}");
            let Some(stream) = publish(world, place, &topic) else {
                continue;
            };
            let peers = world.network.neighbours(place).map(|(_, far)| id_of(far));
            self.brokers.push(Teller {
                place,
                stream,
                merger: Merger::new(budget(OWN_BYTES)),
                peers: peers.collect(),
                head: self.heads.len() - 1,
            });
        }
    }

    /// What a second brings: what the last one sent has arrived, and everybody tells.
    pub(super) fn second(&mut self, world: &mut World) {
        self.arrive(world);
        world.network.traffic.forget();
        self.number += 1;
        let now = world.network.now;
        let sequence = world.next_sequence();
        let mut sent = Vec::new();
        for teller in &mut self.brokers {
            let digest = teller.digest((now, self.number), &self.down, &mut world.random);
            let head = &mut self.heads[teller.head];
            if head.place == teller.place {
                head.merger.hear(now, Row::Digest(digest));
                continue;
            }
            teller.merger.hear(now, Row::Digest(digest));
            let event = teller.merger.next(now);
            sent.extend(event.map(|event| (teller.place, teller.stream, event)));
        }
        for head in &mut self.heads {
            let event = head.merger.next(now);
            sent.extend(event.map(|event| (head.place, head.stream, event)));
        }
        for (place, stream, event) in sent {
            let bytes = (event.len() + EVENT_HEADERS) as u64;
            world.network.event_bytes.insert(stream, bytes);
            self.events.insert(stream, (sequence, event));
            world.network.emit(place, stream, sequence);
        }
    }

    fn arrive(&mut self, world: &World) {
        let now = world.network.now;
        let traffic = &world.network.traffic;
        let came = |stream: StreamId, place: usize| {
            let (sequence, event) = self.events.get(&stream)?;
            let delivered = traffic.delivered.contains_key(&(stream, *sequence, place));
            let merged = delivered.then(|| decode(now, event).ok())?;
            merged.map(|merged| merged.rows)
        };
        for teller in &self.brokers {
            let head = &mut self.heads[teller.head];
            let rows = came(teller.stream, head.place).unwrap_or_default();
            rows.into_iter().for_each(|row| head.merger.hear(now, row));
        }
        let streams = self.heads.iter().map(|head| head.stream);
        let rows = streams.filter_map(|stream| came(stream, self.listener));
        for row in rows.flatten() {
            if let Row::Digest(digest) = row {
                see(&mut self.seen, &digest);
            }
        }
        self.events.clear();
    }

    /// What the client knows.
    pub(super) fn ages(&self, now: Time) -> Ages {
        let ages = self
            .seen
            .values()
            .map(|seen| now.since(seen.at).as_secs_f64());
        let mut ages: Vec<f64> = ages.collect();
        ages.sort_by(f64::total_cmp);
        Ages {
            known: ages.len(),
            brokers: self.brokers.len(),
            median_s: ages.get(ages.len() / 2).copied().unwrap_or(f64::NAN),
            oldest_s: ages.last().copied().unwrap_or(f64::NAN),
            ..Ages::default()
        }
    }

    /// Lets brokers say of one link after the other that it is down: how long until the client
    /// knows of both ends, in seconds: median and worst.
    pub(super) fn links_down(&mut self, world: &mut World) -> (f64, f64) {
        let mut took = Vec::new();
        for _ in 0..DOWNS {
            let at = world.random.below(self.brokers.len());
            let teller = &self.brokers[at];
            let one = id_of(teller.place);
            let Some(other) = world.random.pick(&teller.peers).copied() else {
                continue;
            };
            self.down = BTreeSet::from([(one, other), (other, one)]);
            let mut seconds = 0;
            while seconds < DOWN_FOR && !self.is_seen_down(one, other) {
                self.second(world);
                world.network.run(Duration::from_secs(1));
                self.arrive(world);
                seconds += 1;
            }
            took.push(seconds as f64);
        }
        self.down.clear();
        took.sort_by(f64::total_cmp);
        let median = took.get(took.len() / 2).copied();
        (
            median.unwrap_or(f64::NAN),
            took.last().copied().unwrap_or(f64::NAN),
        )
    }

    fn is_seen_down(&self, one: BrokerId, other: BrokerId) -> bool {
        let end = |from, to| {
            let seen = self.seen.get(from);
            seen.is_some_and(|seen| seen.down.contains(to))
        };
        end(&one, &other) && end(&other, &one)
    }
}

fn see(seen: &mut BTreeMap<BrokerId, Seen>, digest: &Digest) {
    let whole = digest.figures.is_some();
    let known = match seen.get_mut(&digest.broker) {
        Some(known) => known,
        None if whole => seen.entry(digest.broker).or_insert(Seen {
            at: digest.at,
            down: BTreeSet::new(),
        }),
        None => return,
    };
    if whole {
        known.at = digest.at;
    }
    for told in &digest.links {
        let Some(peer) = told.peer else { continue };
        if told.figures[link::UP] == Some(0) {
            known.down.insert(peer);
        } else {
            known.down.remove(&peer);
        }
    }
}

impl Teller {
    /// Figures of a busy broker. They swing by a tenth from second to second, and one in a hundred
    /// jumps.
    fn digest(
        &self,
        (now, number): (Time, u64),
        down: &BTreeSet<(BrokerId, BrokerId)>,
        random: &mut Random,
    ) -> Digest {
        let own = id_of(self.place);
        let mut swing = |usual: u64| {
            let jump = if random.chance(0.01) { 2 } else { 1 };
            Some(jump * usual + random.below(usual as usize / 10 + 1) as u64)
        };
        let links = self.peers.iter().map(|peer| {
            let mut figures = [Some(0); LINK];
            figures[link::UP] = Some(u64::from(!down.contains(&(own, *peer))));
            figures[link::WEIGHT] = Some(120);
            for (place, usual) in [
                (link::RTT_US, 12_000),
                (link::JITTER_US, 800),
                (link::LOSS_PPM, 900),
                (link::BANDWIDTH_BPS, 90_000_000),
                (link::IN_BPS, 4_000_000),
                (link::OUT_BPS, 4_000_000),
            ] {
                figures[place] = swing(usual);
            }
            Link {
                peer: Some(*peer),
                way: ["203.0.113.77:4600".to_owned(), "quic".to_owned()],
                at: now,
                figures,
            }
        });
        let links = links.collect();
        // After a day of 50,000 packets a second, as in the test of control/src/monitor/parts.rs.
        let mut figures = [Some(4_320_000_000 + number * 50_000); BROKER];
        for (place, value) in [
            (broker::UPTIME_S, 86_400 + number),
            (broker::DRAINING, 0),
            (broker::CLIENTS, 1_234),
            (broker::STREAMS, 1_234),
            (broker::FILTERS, 1_234),
            (broker::CPU_CORES, 1_250),
            (broker::CPU_SHARE, 312),
            (broker::DROPPED_PER_S, 0),
            (broker::KNOWN_BROKERS, 1_000),
            (broker::EPOCH, u64::MAX),
            (broker::UNIX_MS, 1_700_000_000_000 + number * 1_000),
        ] {
            figures[place] = Some(value);
        }
        Digest {
            number,
            figures: Some(figures),
            names: Some(Names {
                name: format!("frankfurt-{}", own.0),
                version: "10.20.30".to_owned(),
                region: "europe-west".to_owned(),
            }),
            links,
            ..Digest::new(own, now)
        }
    }
}
