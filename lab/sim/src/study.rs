//! Figures: how fast ways converge, what the network costs, how long media is interrupted.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use sangam_model::StreamId;
use serde::Serialize;

use crate::check::{self, Fault};
use crate::sessions::depths;
use crate::wire::{Cost, Path};
use crate::world::{Plan, World};

mod gaps;
mod table;

pub use gaps::{Gap, Gaps};
pub use table::table;

/// Time after which records have been told again, and registrations six times.
const STEADY: Duration = Duration::from_secs(120);
const CHURN: Duration = Duration::from_secs(60);
/// What is looked at after a partition heals.
const STEP: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(20);

/// Everything measured of one plan.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Brokers.
    pub brokers: usize,
    /// Links.
    pub links: usize,
    /// Sessions.
    pub sessions: usize,
    /// Streams.
    pub streams: usize,
    /// Listening (broker, stream) pairs, the most brokers between, and pairs past the hop limit.
    pub reach: Reach,
    /// After a network of two halves becomes one.
    pub heal: Heal,
    /// What it costs while nothing happens.
    pub steady: Share,
    /// What it costs while much does.
    pub churn: Share,
    /// What brokers keep.
    pub state: State,
}

/// How far events go.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Reach {
    /// Pairs of a stream and a listening broker.
    pub pairs: usize,
    /// Links on the longest way.
    pub longest: usize,
    /// Pairs further apart than the hop limit allows.
    pub too_far: usize,
}

/// How fast two halves become one network.
#[derive(Clone, Debug, Serialize)]
pub struct Heal {
    /// Links between the halves.
    pub links: usize,
    /// From the moment packets come through to the last link that is up, in ms.
    pub links_up_ms: u64,
    /// To equal maps everywhere, in ms.
    pub maps_ms: u64,
    /// To the last listener that gets events from the other half, in ms.
    pub media_ms: u64,
}

/// What map, joins and directory take of links of 10 Mb/s, in percent of one direction.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Share {
    /// Mean of all links.
    pub mean: f64,
    /// Mean of the busiest link.
    pub busiest: f64,
    /// The worst second of the worst link.
    pub worst_second: f64,
    /// Of the mean: the map's part.
    pub map: f64,
    /// Of the mean: the joins'.
    pub joins: f64,
    /// Of the mean: the directory's.
    pub directory: f64,
}

/// Bytes that brokers keep.
#[derive(Clone, Debug, Default, Serialize)]
pub struct State {
    /// Records of brokers: mean and maximum.
    pub records: (u64, u64),
    /// Trees and joins.
    pub joins: (u64, u64),
    /// Memberships and directories kept for others.
    pub directory: (u64, u64),
}

impl Figures {
    /// Measures a plan.
    ///
    /// # Errors
    /// What did not hold meanwhile.
    pub fn measure(plan: &Plan, note: impl Fn(&str)) -> Result<Self, Fault> {
        note("building the network");
        let mut world = World::new(plan);
        let replay = |Fault(fault)| Fault(format!("{fault}\nreplay: {}", plan.command()));
        note("checking it");
        check::maps_agree(&world.network).map_err(replay)?;
        let reach = reach(&world);
        let state = state(&world);
        note("steady state");
        let steady = share(&mut world, STEADY, |_| {});
        note("partition and heal");
        let heal = heal(&mut world).map_err(replay)?;
        note("churn");
        let churn = share(&mut world, CHURN, |world| {
            (0..10).for_each(|_| world.disturb());
        });
        check::nothing_twice(&world.network).map_err(replay)?;
        Ok(Self {
            brokers: world.network.brokers.len(),
            links: world.topology.links.len(),
            sessions: plan.sessions,
            streams: world.sessions.published.len(),
            reach,
            heal,
            steady,
            churn,
            state,
        })
    }
}

fn reach(world: &World) -> Reach {
    let mut reach = Reach::default();
    let mut known: BTreeMap<usize, Vec<Option<usize>>> = BTreeMap::new();
    for each in &world.sessions.published {
        let depths = known
            .entry(each.broker)
            .or_insert_with(|| depths(&world.network, each.broker));
        for (broker, it) in world.network.brokers.iter().enumerate() {
            let Some(hops) = depths[broker].filter(|_| it.wants(&each.topic)) else {
                continue;
            };
            reach.pairs += 1;
            reach.longest = reach.longest.max(hops);
            let limit = usize::from(sangam_model::limits::HOP_LIMIT);
            reach.too_far += usize::from(hops >= limit);
        }
    }
    reach
}

fn state(world: &World) -> State {
    let held = world
        .network
        .brokers
        .iter()
        .map(|it| it.routing.footprint());
    let held: Vec<_> = held.collect();
    let of = |part: fn(&sangam_broker::Footprint) -> usize| {
        let sum: usize = held.iter().map(part).sum();
        let most = held.iter().map(part).max().unwrap_or(0);
        ((sum / held.len().max(1)) as u64, most as u64)
    };
    State {
        records: of(|held| held.records),
        joins: of(|held| held.joins),
        directory: of(|held| held.directory),
    }
}

/// What links carry for the network's own sake over some time, in which `each_second` happens.
fn share(world: &mut World, time: Duration, each_second: impl Fn(&mut World)) -> Share {
    let start: Vec<Cost> = world.network.costs().collect();
    let mut before = start.clone();
    let mut worst = 0;
    for _ in 0..time.as_secs() {
        each_second(world);
        world.network.run(Duration::from_secs(1));
        let after: Vec<Cost> = world.network.costs().collect();
        let pairs = after.iter().zip(&before);
        let most = pairs.map(|(after, before)| after.upkeep() - before.upkeep());
        worst = worst.max(most.max().unwrap_or(0));
        before = after;
    }
    let seconds = time.as_secs().max(1) as f64;
    let percent = |bytes: u64, seconds: f64| bytes as f64 * 8.0 / seconds / 10_000_000.0 * 100.0;
    let mean = |part: fn(&Cost) -> u64| {
        let sum = |costs: &[Cost]| costs.iter().map(part).sum::<u64>();
        percent(sum(&before) - sum(&start), seconds) / before.len().max(1) as f64
    };
    let pairs = before.iter().zip(&start);
    let busiest = pairs.map(|(after, before)| after.upkeep() - before.upkeep());
    Share {
        mean: mean(Cost::upkeep),
        busiest: percent(busiest.max().unwrap_or(0), seconds),
        worst_second: percent(worst, 1.0),
        map: mean(|cost| cost.map),
        joins: mean(|cost| cost.joins),
        directory: mean(|cost| cost.directory),
    }
}

/// Cuts a network into halves without a word, and lets it grow together again.
fn heal(world: &mut World) -> Result<Heal, Fault> {
    let regions = world.topology.members().len();
    let across = world.topology.across(regions.div_ceil(2));
    for (a, b) in &across {
        world.network.blackhole(*a, *b);
    }
    world.network.run(Duration::from_secs(10));
    let crossing = crossing(world, regions.div_ceil(2));
    for (a, b) in &across {
        world.network.heal(*a, *b);
    }
    let start = world.network.now;
    let (mut links_up, mut maps, mut media) = (None, None, None);
    let mut waiting = crossing;
    while world.network.now - start < PATIENCE && (maps.is_none() || media.is_none()) {
        world.network.traffic.forget();
        let sequence = world.next_sequence();
        let streams: BTreeSet<StreamId> = waiting.iter().map(|(stream, _)| *stream).collect();
        for stream in streams {
            let origin = crate::sessions::origin(stream);
            world.network.emit(origin, stream, sequence);
        }
        world.network.run(STEP);
        let passed = (world.network.now - start).as_millis() as u64;
        let delivered = &world.network.traffic.delivered;
        for (stream, _, broker) in delivered.keys() {
            waiting.remove(&(*stream, *broker));
        }
        if waiting.is_empty() {
            media.get_or_insert(passed);
        }
        let is_up =
            |(a, b): &(usize, usize)| world.network.neighbours(*a).any(|(_, far)| far == *b);
        if links_up.is_none() && across.iter().all(is_up) {
            links_up = Some(passed);
        }
        if maps.is_none() && check::maps_agree(&world.network).is_ok() {
            maps = Some(passed);
        }
    }
    let late = || {
        let (left, maps) = (waiting.len(), maps.is_some());
        let first = waiting.first();
        Fault(format!(
            "after {PATIENCE:?}: maps agree {maps}, {left} listeners without events: {first:?}"
        ))
    };
    world.network.run(Duration::from_secs(10));
    Ok(Heal {
        links: across.len(),
        links_up_ms: links_up.ok_or_else(late)?,
        maps_ms: maps.ok_or_else(late)?,
        media_ms: media.ok_or_else(late)?,
    })
}

/// Streams and listeners of which one is on each side; as they were before the cut.
fn crossing(world: &World, border: usize) -> BTreeSet<(StreamId, usize)> {
    let side = |broker: usize| world.topology.regions[broker] < border;
    let mut pairs = BTreeSet::new();
    for each in &world.sessions.published {
        for (broker, it) in world.network.brokers.iter().enumerate() {
            if side(broker) != side(each.broker) && it.wants(&each.topic) {
                pairs.insert((each.stream, broker));
            }
        }
    }
    pairs
}
