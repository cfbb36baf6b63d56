//! How long media stops when a link falls silent or a broker dies, on virtual time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use sangam_model::{Class, Filter, MediaInfo, Random, StreamId, Time, Topic};
use sangam_sim::brokers::{Network, Path};

/// What the project asks for: media stops no longer than this, less the stream's own interval.
const GAP_MAX: Duration = Duration::from_millis(400);
/// As in the bench `failover`: 15 pictures and 33 packets of sound a second.
const VIDEO_EVERY: Duration = Duration::from_micros(66_667);
const AUDIO_EVERY: Duration = Duration::from_millis(30);
const SETTLE: Duration = Duration::from_secs(5);
/// Before and after a failure.
const SPAN: Duration = Duration::from_secs(2);

/// Links with delays of one way in milliseconds; the bench's ring is the first.
const RING: &[(usize, usize, u64)] = &[(0, 1, 10), (1, 2, 15), (2, 3, 10), (0, 3, 5)];
const LONG_RING: &[(usize, usize, u64)] = &[(0, 1, 15), (1, 2, 15), (2, 3, 15), (0, 3, 15)];
const MESH: &[(usize, usize, u64)] = &[
    (0, 1, 15),
    (1, 2, 15),
    (2, 3, 15),
    (0, 3, 15),
    (0, 2, 15),
    (1, 3, 15),
];

/// Two rings that share a side: most links are idle where one broker publishes.
const TWO_RINGS: &[(usize, usize, u64)] = &[
    (0, 1, 10),
    (1, 2, 10),
    (0, 3, 15),
    (3, 2, 15),
    (1, 3, 10),
    (2, 4, 10),
    (3, 4, 15),
];

struct Source {
    broker: usize,
    stream: StreamId,
    every: Duration,
    next: Time,
    sequence: u16,
}

struct Stage {
    network: Network,
    sources: Vec<Source>,
    random: Random,
}

impl Stage {
    /// Four brokers, each with audio and video for all.
    fn new(links: &[(usize, usize, u64)], seed: u64) -> Self {
        Self::of((4, &[0, 1, 2, 3]), links, seed)
    }

    /// So many brokers, all of which listen to some.
    fn of((brokers, from): (usize, &[usize]), links: &[(usize, usize, u64)], seed: u64) -> Self {
        let mut network = Network::new(brokers, seed);
        let mut random = Random::new(seed);
        for (a, b, delay) in links {
            network.link(*a, *b, Path::of_delay(Duration::from_millis(*delay)));
        }
        network.run(SETTLE);
        let mut sources = Vec::new();
        for broker in 0..brokers {
            network.subscribe(broker, &Filter::new("a/room/#").unwrap());
        }
        for broker in from.iter().copied() {
            for (class, every) in [(Class::Audio, AUDIO_EVERY), (Class::Video, VIDEO_EVERY)] {
                let topic = Topic::new(&format!("a/room/{broker}/{}", class as u8)).unwrap();
                let media = MediaInfo {
                    class,
                    ..MediaInfo::data()
                };
                let stream = network.publish_media(broker, &topic, media).unwrap();
                let next = network.now + SETTLE + random.time(every);
                sources.push(Source {
                    broker,
                    stream,
                    every,
                    next,
                    sequence: 0,
                });
            }
        }
        network.run(SETTLE);
        Self {
            network,
            sources,
            random,
        }
    }

    /// Media flows so long.
    fn run(&mut self, time: Duration) {
        let end = self.network.now + time;
        while let Some(source) = self.sources.iter_mut().min_by_key(|source| source.next)
            && source.next < end
        {
            self.network.run(source.next - self.network.now);
            if self.network.brokers[source.broker].alive {
                let (broker, stream) = (source.broker, source.stream);
                self.network.emit(broker, stream, source.sequence);
            }
            source.sequence += 1;
            source.next += source.every;
        }
        self.network.run(end - self.network.now);
    }

    /// The longest gaps of audio and of video, less their intervals, where both ends live.
    fn gaps(&self) -> [Duration; 2] {
        let mut longest = [Duration::ZERO; 2];
        for (stream, subscriber, gap) in self.network.traffic.gaps(self.network.now) {
            let source = self.sources.iter().find(|source| source.stream == stream);
            let source = source.unwrap();
            let ends = [source.broker, subscriber];
            if ends.iter().all(|end| self.network.brokers[*end].alive) {
                let kind = usize::from(source.every == VIDEO_EVERY);
                longest[kind] = longest[kind].max(gap.saturating_sub(source.every));
            }
        }
        longest
    }
}

fn worst(links: &[(usize, usize, u64)], fail: impl Fn(&mut Network, &mut Random)) -> [Duration; 2] {
    worst_of(|seed| Stage::new(links, seed), fail)
}

fn worst_of(
    stage: impl Fn(u64) -> Stage,
    fail: impl Fn(&mut Network, &mut Random),
) -> [Duration; 2] {
    let mut worst = [Duration::ZERO; 2];
    for seed in 0..150 {
        let mut stage = stage(seed);
        stage.run(SPAN);
        stage.network.traffic.watch();
        // Every phase of every stream, in the end.
        let phase = stage.random.time(Duration::from_millis(100));
        stage.run(SPAN + phase);
        fail(&mut stage.network, &mut stage.random);
        stage.run(SPAN);
        assert_eq!(stage.network.traffic.duplicates, 0, "seed {seed}");
        for (worst, gap) in worst.iter_mut().zip(stage.gaps()) {
            *worst = (*worst).max(gap);
        }
    }
    worst
}

#[test]
fn a_silent_link_stops_media_no_longer_than_was_promised() {
    for links in [RING, LONG_RING, MESH] {
        let [audio, video] = worst(links, |network, random| {
            let (a, b, _) = links[random.below(links.len())];
            network.blackhole(a, b);
        });
        assert!(audio <= GAP_MAX && video <= GAP_MAX, "{audio:?}, {video:?}");
        assert!(audio > Duration::from_millis(100), "something did fail");
    }
}

#[test]
fn a_dead_broker_stops_the_media_of_others_no_longer_than_was_promised() {
    for links in [RING, LONG_RING] {
        let [audio, video] = worst(links, |network, random| network.kill(random.below(4)));
        assert!(audio <= GAP_MAX && video <= GAP_MAX, "{audio:?}, {video:?}");
        assert!(audio > Duration::from_millis(100), "something did fail");
    }
}

/// Nobody watches an idle link all the time, so the way around may lead over one that is dead, too.
#[test]
fn idle_links_beside_stop_the_media_of_one_source_no_longer_than_was_promised() {
    let stage = |seed| Stage::of((5, &[0]), TWO_RINGS, seed);
    let [audio, video] = worst_of(stage, |network, _| network.blackhole(0, 1));
    assert!(audio <= GAP_MAX && video <= GAP_MAX, "{audio:?}, {video:?}");
    let [audio, video] = worst_of(stage, |network, random| network.kill(1 + random.below(4)));
    assert!(audio <= GAP_MAX && video <= GAP_MAX, "{audio:?}, {video:?}");
}
