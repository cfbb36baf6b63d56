//! Figures: how fast ways converge, what the network costs, how long media is interrupted.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use sangam_model::StreamId;
use serde::Serialize;

use super::check::{self, Fault};
use super::sessions::depths;
use super::wire::{Cost, Path};
use super::world::{Plan, World};

mod gaps;
mod goals;
mod heal;
mod monitoring;
mod swing;
mod table;

pub use gaps::{Gap, Gaps};
pub use goals::{Goal, goal_lines, goals, shares as share_goals};
pub use monitoring::{Ages, Monitored};
pub use swing::Swing;
pub use table::{monitoring as monitoring_table, table};

/// Time after which records have been told again, and registrations twice.
const STEADY: Duration = Duration::from_secs(120);
const CHURN: Duration = Duration::from_secs(60);

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
    /// What it costs while nothing happens but that a client sees how all brokers are.
    pub monitored: Monitored,
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
    /// Listeners from whom the other half is farther than an event goes, by the ways that all have
    /// chosen since.
    pub too_far: usize,
    /// What the worst link carried for the network's own sake in its worst second from the moment
    /// packets come through, in percent of 10 Mb/s.
    pub worst_second: f64,
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
    /// Of the mean: the brokers' reports.
    pub monitoring: f64,
    /// The worst second of the worst link without reports.
    pub worst_second_unmonitored: f64,
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
        note(&format!("steady: {steady:?}"));
        note("partition and heal");
        let heal = heal::measure(&mut world).map_err(replay)?;
        note(&format!("healed: {heal:?}"));
        note("churn");
        let churn = share(&mut world, CHURN, |world| {
            (0..10).for_each(|_| world.disturb());
        });
        check::nothing_twice(&world.network).map_err(replay)?;
        note(&format!("churned: {churn:?}"));
        note("monitoring");
        let monitored = Monitored::measure(&mut world, &note);
        Ok(Self {
            brokers: world.network.brokers.len(),
            links: world.topology.links.len(),
            sessions: plan.sessions,
            streams: world.sessions.published.len(),
            reach,
            heal,
            steady,
            churn,
            monitored,
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
fn share(world: &mut World, time: Duration, mut each_second: impl FnMut(&mut World)) -> Share {
    let start: Vec<Cost> = world.network.costs().collect();
    let mut before = start.clone();
    let (mut worst, mut unmonitored) = (0, 0);
    let unreported = |cost: &Cost| cost.upkeep() - cost.monitoring;
    for _ in 0..time.as_secs() {
        each_second(world);
        world.network.run(Duration::from_secs(1));
        let after: Vec<Cost> = world.network.costs().collect();
        for (after, before) in after.iter().zip(&before) {
            worst = worst.max(after.upkeep() - before.upkeep());
            unmonitored = unmonitored.max(unreported(after) - unreported(before));
        }
        before = after;
    }
    let seconds = time.as_secs().max(1) as f64;
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
        monitoring: mean(|cost| cost.monitoring),
        worst_second_unmonitored: percent(unmonitored, 1.0),
    }
}

/// Bytes in so many seconds as a share of 10 Mb/s.
fn percent(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 8.0 / seconds / 10_000_000.0 * 100.0
}
