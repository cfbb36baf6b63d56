//! How long listeners that stay reachable get no event when something on their way fails.

use super::*;

/// Between two events of a stream, as of audio.
const TICK: Duration = Duration::from_millis(20);
const BEFORE: u32 = 10;
const AFTER: u32 = 100;

/// Ways to fail.
const FAILURES: [Failure; 3] = [Failure::Cut, Failure::Blackhole, Failure::Kill];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Cut,
    Blackhole,
    Kill,
}

/// Interruptions by one kind of failure.
#[derive(Clone, Debug, Serialize)]
pub struct Gap {
    /// What failed.
    pub failure: &'static str,
    /// Failures.
    pub trials: usize,
    /// Listeners whose way crossed what failed.
    pub listeners: usize,
    /// The longest time without an event: half of them waited at most so long, in ms.
    pub median_ms: u64,
    /// 99 of 100 of them.
    pub p99_ms: u64,
    /// All of them.
    pub max_ms: u64,
    /// The same of all other listeners, in ms.
    pub others_max_ms: u64,
}

/// Interruptions by each kind.
#[derive(Clone, Debug, Serialize)]
pub struct Gaps {
    /// One for each.
    pub gaps: Vec<Gap>,
}

impl Gaps {
    /// Lets things fail on the ways of streams, so often of each kind for each seed.
    #[must_use]
    pub fn measure(plans: &[Plan], trials: usize, note: impl Fn(&str)) -> Self {
        let mut worlds: Vec<World> = plans.iter().map(World::new).collect();
        let measure = |failure| {
            note(&format!("{failure:?}"));
            let (mut hit, mut others) = (Vec::new(), Duration::ZERO);
            for world in &mut worlds {
                for _ in 0..trials {
                    let (gaps, rest) = trial(world, failure);
                    hit.extend(gaps);
                    others = others.max(rest);
                }
            }
            hit.sort_unstable();
            let at = |share: f64| {
                let place = (hit.len() as f64 * share).ceil() as usize;
                let gap = hit.get(place.saturating_sub(1));
                gap.map_or(0, |gap| gap.as_millis() as u64)
            };
            Gap {
                failure: name(failure),
                trials: trials * plans.len(),
                listeners: hit.len(),
                median_ms: at(0.5),
                p99_ms: at(0.99),
                max_ms: at(1.0),
                others_max_ms: others.as_millis() as u64,
            }
        };
        Self {
            gaps: FAILURES.map(measure).into(),
        }
    }
}

const fn name(failure: Failure) -> &'static str {
    match failure {
        Failure::Cut => "link cut",
        Failure::Blackhole => "link silently blackholed",
        Failure::Kill => "broker killed",
    }
}

/// One failure on the way of some stream: the gaps of those it hit, and the longest of the rest.
fn trial(world: &mut World, failure: Failure) -> (Vec<Duration>, Duration) {
    let Some((near, far)) = victim(world, failure) else {
        return (Vec::new(), Duration::ZERO);
    };
    let hit = pairs_by(world, failure, (near, far));
    world.network.traffic.watch();
    play(world, BEFORE);
    match failure {
        Failure::Cut => world.network.unlink(near, far),
        Failure::Blackhole => world.network.blackhole(near, far),
        Failure::Kill => world.network.kill(far),
    }
    play(world, AFTER);
    // A listener that gets nothing more would have no gap without one last look.
    let now = world.network.now;
    let gaps: Vec<_> = world.network.traffic.gaps(now).collect();
    let distances = world.network.distances(near);
    let reachable = |stream: StreamId, broker: usize| {
        distances[broker].is_some() && distances[crate::brokers::sessions::origin(stream)].is_some()
    };
    let (mut longest, mut others) = (Vec::new(), Duration::ZERO);
    for (stream, broker, gap) in gaps {
        if !reachable(stream, broker) {
            continue;
        }
        if hit.contains(&(stream, broker)) {
            longest.push(gap);
        } else {
            others = others.max(gap);
        }
    }
    repair(world, failure, (near, far));
    (longest, others)
}

fn play(world: &mut World, rounds: u32) {
    for _ in 0..rounds {
        world.emit(TICK);
        world.network.traffic.forget();
    }
}

/// A link, or the broker behind it, that some listener's events cross. A broker that dies has no
/// clients that matter: they would die with it.
fn victim(world: &mut World, failure: Failure) -> Option<(usize, usize)> {
    for _ in 0..1_000 {
        let each = world.random.pick(&world.sessions.published)?.clone();
        let listeners: Vec<usize> = crate::brokers::sessions::listeners(&world.network, &each)
            .into_iter()
            .filter(|broker| *broker != each.broker)
            .collect();
        let Some(listener) = world.random.pick(&listeners).copied() else {
            continue;
        };
        let way = way(world, listener, each.broker);
        let spare = usize::from(failure == Failure::Kill);
        if way.len() > 1 + spare {
            // Each step leads from a broker to its parent; the last parent is the source.
            let at = world.random.below(way.len() - 1 - spare);
            return Some((way[at], way[at + 1]));
        }
    }
    None
}

/// The brokers from a listener to the source.
fn way(world: &World, listener: usize, source: usize) -> Vec<usize> {
    let network = &world.network;
    let id = network.brokers[source].id;
    let step = |at: &usize| {
        let link = network.brokers[*at].routing.parent(id)?;
        network.peer(*at, link).filter(|_| *at != source)
    };
    core::iter::successors(Some(listener), step)
        .take(64)
        .collect()
}

/// Streams and listeners whose way crosses what will fail.
fn pairs_by(
    world: &World,
    failure: Failure,
    (near, far): (usize, usize),
) -> BTreeSet<(StreamId, usize)> {
    let mut pairs = BTreeSet::new();
    for each in &world.sessions.published {
        for listener in crate::brokers::sessions::listeners(&world.network, each) {
            let way = way(world, listener, each.broker);
            let crosses = if failure == Failure::Kill {
                way.contains(&far)
            } else {
                way.windows(2)
                    .any(|step| step == [near, far] || step == [far, near])
            };
            if crosses {
                pairs.insert((each.stream, listener));
            }
        }
    }
    pairs
}

/// All as it was, but the clients of a dead broker.
fn repair(world: &mut World, failure: Failure, (near, far): (usize, usize)) {
    if failure == Failure::Kill {
        world.restart(far);
    } else if let Some(delay) = world.topology.links.get(&(near.min(far), near.max(far))) {
        let path = Path::of_delay(*delay);
        world.network.link(near, far, path);
    }
    world.network.run(Duration::from_secs(8));
}
