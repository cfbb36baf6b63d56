//! What it costs that links measure now this and now that.

use sangam_broker::LinkId;
use sangam_model::{Filter, Measured, Random, Topic};

use super::*;
use crate::brokers::broker::id_of;
use crate::brokers::{Network, Published};

/// Brokers of one place, each linked to each: of all ways two cost about the same.
const BROKERS: usize = 6;
const DELAY: Duration = Duration::from_micros(100);
/// How long a link jitters alike: as long as what shares its machines is busy.
const MOOD: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(8));
const TICK: Duration = Duration::from_millis(50);
const TICKS_PER_S: u32 = 20;
/// Until maps and trees stand.
const SETTLE: Duration = Duration::from_secs(5);

/// What became of six streams that all six brokers listen to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Swing {
    /// The most that a link jitters, in ms.
    pub jitter_ms: u64,
    /// Simulated time in s.
    pub seconds: u64,
    /// How often a way to a broker began by another neighbour.
    pub ways_changed: u64,
    /// Crossings of links for each that a tree takes: 1 if streams never moved.
    pub copies: f64,
}

/// The link by which each broker expects what enters at each other one.
type Ways = Vec<Option<LinkId>>;

impl Swing {
    /// Lets links jitter by up to `jitter`, each by something else every few seconds.
    #[must_use]
    pub fn measure(seed: u64, jitter: Duration, time: Duration) -> Self {
        let mut random = Random::new(seed);
        let (mut network, published) = mesh(seed);
        let mut links: Vec<_> = network
            .links()
            .map(|(a, b, _)| (a, b, network.now, Duration::ZERO))
            .collect();
        let mut swing = Self {
            jitter_ms: jitter.as_millis() as u64,
            seconds: time.as_secs(),
            ..Self::default()
        };
        let (mut crossings, mut sequence) = (0, 0);
        let mut before = ways(&network);
        for _ in 0..time.as_secs() {
            for (a, b, until, mood) in &mut links {
                if *until <= network.now {
                    *until = network.now + MOOD.0 + random.time(MOOD.1);
                    *mood = random.time(jitter);
                }
                let measured = Measured {
                    rtt: DELAY * 2,
                    jitter: *mood,
                    loss_ppm: 0,
                };
                network.measure(*a, *b, &measured);
            }
            for _ in 0..TICKS_PER_S {
                sequence += 1;
                crossings += u64::from(tick(&mut network, &published, sequence));
            }
            let after = ways(&network);
            let moved = before.iter().zip(&after).filter(|(a, b)| a != b);
            swing.ways_changed += moved.count() as u64;
            before = after;
        }
        let events = published.len() as u64 * u64::from(sequence);
        swing.copies = crossings as f64 / (events * (BROKERS as u64 - 1)).max(1) as f64;
        swing
    }
}

fn mesh(seed: u64) -> (Network, Vec<Published>) {
    let mut network = Network::new(BROKERS, seed);
    for b in 0..BROKERS {
        (0..b).for_each(|a| network.link(a, b, Path::of_delay(DELAY)));
    }
    let mut published = Vec::new();
    for broker in 0..BROKERS {
        if let Ok(all) = Filter::new("a/room/#") {
            network.subscribe(broker, &all);
        }
        let topic = Topic::new(&format!("a/room/{broker}")).ok();
        let stream = topic.and_then(|topic| Some((network.publish(broker, &topic)?, topic)));
        published.extend(stream.map(|(stream, topic)| Published {
            broker,
            stream,
            topic,
        }));
    }
    network.run(SETTLE);
    (network, published)
}

/// An event of each stream; the links they crossed together.
fn tick(network: &mut Network, published: &[Published], sequence: u16) -> u32 {
    network.traffic.forget();
    for each in published {
        network.emit(each.broker, each.stream, sequence);
    }
    network.run(TICK);
    network.traffic.crossings.values().sum()
}

fn ways(network: &Network) -> Ways {
    let of = |it: &crate::brokers::Broker| {
        let to = (0..BROKERS).map(|to| it.routing.parent(id_of(to)));
        to.collect::<Ways>()
    };
    network.brokers.iter().flat_map(of).collect()
}
