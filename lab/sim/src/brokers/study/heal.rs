//! How fast two halves become one network.

use sangam_model::Time;
use sangam_model::limits::HOP_LIMIT;

use super::*;

/// How often is looked.
const STEP: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the halves are apart, and how long is watched what their growing together costs.
const APART: Duration = Duration::from_secs(10);
const WATCHED: u32 = 5;
/// Listeners of whom it is looked whether an event still gets that far.
const FEW: usize = 16;

/// Streams and listeners that do not get them yet.
type Waiting = BTreeSet<(StreamId, usize)>;

/// What has come about so far, in ms from the moment packets come through.
#[derive(Default)]
struct Progress {
    links_up: Option<u64>,
    maps: Option<u64>,
    media: Option<u64>,
    too_far: usize,
}

/// Cuts a network into halves without a word, and lets it grow together again.
pub(super) fn measure(world: &mut World) -> Result<Heal, Fault> {
    let regions = world.topology.members().len();
    let border = regions.div_ceil(2);
    let across = world.topology.across(border);
    let mut waiting = crossing(world, border);
    for (a, b) in &across {
        world.network.blackhole(*a, *b);
    }
    world.network.run(APART);
    for (a, b) in &across {
        world.network.heal(*a, *b);
    }
    let start = world.network.now;
    let mut costs = Costs::new(world);
    let mut seen = Progress::default();
    while world.network.now - start < PATIENCE && !seen.is_whole() {
        look(world, (&across, &mut waiting), start, &mut seen);
        costs.note(world);
    }
    while world.network.now - start < Duration::from_secs(1) * WATCHED {
        world.network.run(STEP);
        costs.note(world);
    }
    let late = || {
        let (left, maps) = (waiting.len(), seen.maps.is_some());
        let first = waiting.first();
        Fault(format!(
            "after {PATIENCE:?}: maps agree {maps}, {left} listeners without events: {first:?}"
        ))
    };
    world.network.run(APART);
    Ok(Heal {
        links: across.len(),
        links_up_ms: seen.links_up.ok_or_else(late)?,
        maps_ms: seen.maps.ok_or_else(late)?,
        media_ms: seen.media.ok_or_else(late)?,
        too_far: seen.too_far,
        worst_second: percent(costs.worst, 1.0),
    })
}

/// Sends an event of each stream that somebody still waits for, and looks what has come about.
fn look(
    world: &mut World,
    (across, waiting): (&[(usize, usize)], &mut Waiting),
    start: Time,
    seen: &mut Progress,
) {
    world.network.traffic.forget();
    let sequence = world.next_sequence();
    let streams: BTreeSet<StreamId> = waiting.iter().map(|(stream, _)| *stream).collect();
    for stream in streams {
        let origin = crate::brokers::sessions::origin(stream);
        world.network.emit(origin, stream, sequence);
    }
    world.network.run(STEP);
    let passed = (world.network.now - start).as_millis() as u64;
    for (stream, _, broker) in world.network.traffic.delivered.keys() {
        waiting.remove(&(*stream, *broker));
    }
    if seen.maps.is_some() && waiting.len() <= FEW {
        let before = waiting.len();
        waiting.retain(|(stream, broker)| !is_too_far(world, *stream, *broker));
        seen.too_far += before - waiting.len();
    }
    if waiting.is_empty() {
        seen.media.get_or_insert(passed);
    }
    let is_up = |(a, b): &(usize, usize)| world.network.neighbours(*a).any(|(_, far)| far == *b);
    if seen.links_up.is_none() && across.iter().all(is_up) {
        seen.links_up = Some(passed);
    }
    let may_agree = seen.links_up.is_some() && seen.maps.is_none();
    if may_agree && check::maps_agree(&world.network).is_ok() {
        seen.maps = Some(passed);
    }
}

/// Weights are measured anew while halves are apart, and the ways of least weight may have more
/// hops than before.
fn is_too_far(world: &World, stream: StreamId, broker: usize) -> bool {
    let origin = crate::brokers::sessions::origin(stream);
    let hops = crate::brokers::sessions::depths(&world.network, origin)[broker];
    hops.is_some_and(|hops| hops >= usize::from(HOP_LIMIT))
}

impl Progress {
    const fn is_whole(&self) -> bool {
        self.maps.is_some() && self.media.is_some()
    }
}

/// What links carried in each of the last hundred steps.
struct Costs {
    steps: std::collections::VecDeque<Vec<u64>>,
    worst: u64,
}

impl Costs {
    fn new(world: &World) -> Self {
        let mut costs = Self {
            steps: std::collections::VecDeque::new(),
            worst: 0,
        };
        costs.note(world);
        costs
    }

    /// Any second counts, wherever it begins.
    fn note(&mut self, world: &World) {
        let now: Vec<u64> = world.network.costs().map(|cost| cost.upkeep()).collect();
        if self.steps.len() > (Duration::from_secs(1).as_millis() / STEP.as_millis()) as usize {
            self.steps.pop_front();
        }
        if let Some(before) = self.steps.front() {
            let most = now.iter().zip(before).map(|(now, before)| now - before);
            self.worst = self.worst.max(most.max().unwrap_or(0));
        }
        self.steps.push_back(now);
    }
}

/// Streams and listeners of which one is on each side; as they were before the cut.
fn crossing(world: &World, border: usize) -> Waiting {
    let side = |broker: usize| world.topology.regions[broker] < border;
    let mut pairs = BTreeSet::new();
    for each in &world.sessions.published {
        let listeners = crate::brokers::sessions::listeners(&world.network, each);
        let far = listeners
            .iter()
            .filter(|broker| side(**broker) != side(each.broker));
        pairs.extend(far.map(|broker| (each.stream, *broker)));
    }
    pairs
}
