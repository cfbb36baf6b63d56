//! What all subscribers noticed of one kind of failure, as rows and checks.

use std::time::Duration;

use sangam_model::Time;

use super::CALM;
use super::failure::{Episode, Failure};
use super::gaps::Log;
use super::stage::Pair;
use super::ways::{Part, Topology};
use crate::load::Media;
use crate::report::{Bound, Row, Verdict};

/// What the project asks for: media stops no longer than this, in milliseconds.
const GAP_MS_MAX: f64 = 400.0;
/// What was sent shortly before a failure may be lost in it: the longest way, and more.
const ON_THE_WAY: Duration = Duration::from_millis(200);
/// Ways are told by the latencies of this time.
const RIGHT_BEFORE: Duration = Duration::from_secs(1);
/// A way is taken again if packets take no longer than before it failed, and this.
const SLACK: Duration = Duration::from_millis(4);

/// What was found for one kind of failure.
#[derive(Default)]
pub(super) struct Found {
    audio: Crossing,
    video: Crossing,
    episodes: usize,
    others_lost: u64,
    mending_lost: u64,
    again: u64,
    silent: u64,
    restored: Vec<Duration>,
}

/// Subscribers whose way crossed what failed.
#[derive(Default)]
struct Crossing {
    gaps: Vec<Duration>,
    calm: Duration,
    lost: u64,
    back: Vec<Duration>,
}

/// What a failure is to a pair.
enum Concern {
    /// One of its ends is the failed broker.
    Gone,
    /// Its way crossed what failed.
    Crossed,
    /// Nothing to it.
    None,
}

impl Found {
    /// What these episodes were to these pairs.
    pub(super) fn of<'a>(
        topology: &Topology,
        episodes: impl Iterator<Item = &'a Episode>,
        logs: &[(Pair, Log<'_>)],
    ) -> Self {
        let mut found = Self::default();
        for episode in episodes {
            found.episodes += 1;
            found.silent += episode.silent;
            let mut restored = Some(Duration::ZERO);
            for (pair, log) in logs {
                found.again += log.again(before(episode, CALM), episode.ended);
                let heard = log.back_after(episode.mended, Duration::MAX);
                restored = restored.zip(heard).map(|(all, one)| all.max(one));
                match concern(topology, episode, (pair, log)) {
                    Concern::Gone => {}
                    Concern::Crossed => found.crossed(episode, (pair, log)),
                    Concern::None => found.others_lost += lost(episode, log),
                }
            }
            found.restored.extend(restored);
        }
        found
    }

    fn crossed(&mut self, episode: &Episode, (pair, log): (&Pair, &Log<'_>)) {
        self.mending_lost += log.lost(episode.mended, episode.ended).unwrap_or_default();
        let most = usual(episode, log) + SLACK;
        let back = log.back_after(episode.mended, most);
        let crossing = match pair.media {
            Media::Video | Media::Camera => &mut self.video,
            Media::Audio | Media::Cloud => &mut self.audio,
        };
        crossing.gaps.push(log.gap(episode.failed, episode.mended));
        let calm = log.gap(before(episode, CALM), episode.failed);
        crossing.calm = crossing.calm.max(calm);
        crossing.lost += lost(episode, log);
        crossing.back.extend(back);
    }

    /// A row for audio and one for video.
    pub(super) fn rows(&self, topology: &Topology, failure: Failure) -> [Row; 2] {
        [("audio", &self.audio), ("video", &self.video)].map(|(media, crossing)| {
            let mut row = Row::default()
                .with("layout", topology.name)
                .with("failure", failure.name())
                .with("repetitions", self.episodes)
                .with("media", media)
                .with("crossing", crossing.gaps.len());
            for (name, value) in [
                ("gap_p50_ms", percentile(&crossing.gaps, 0.5)),
                ("gap_p99_ms", percentile(&crossing.gaps, 0.99)),
                ("gap_max_ms", percentile(&crossing.gaps, 1.0)),
                ("calm_gap_max_ms", Some(ms(crossing.calm))),
                ("way_back_ms", percentile(&crossing.back, 1.0)),
            ] {
                if let Some(value) = value {
                    row.set(name, value);
                }
            }
            row.set("lost", crossing.lost)
                .set("duplicates", self.again)
                .set("others_lost", self.others_lost)
                .set("mending_lost", self.mending_lost);
            if let Some(slowest) = percentile(&self.restored, 1.0) {
                row.set("restored_ms", slowest);
            }
            row
        })
    }

    /// Holds it to what was promised.
    pub(super) fn check(&self, verdict: &mut Verdict, topology: &Topology, failure: Failure) {
        let mut check = |what: &str, value: f64, bound| {
            let name = format!("{}, {}: {what}", topology.name, failure.name());
            verdict.check(name, value, bound);
        };
        // A mesh has no way through a broker that has a shorter one around it.
        for (media, crossing) in [("audio", &self.audio), ("video", &self.video)] {
            if let Some(longest) = percentile(&crossing.gaps, 1.0) {
                let what = format!("longest gap of {media} in ms");
                check(&what, longest, Bound::AtMost(GAP_MS_MAX));
            }
        }
        let none = Bound::AtMost(0.0);
        check("events delivered twice", self.again as f64, none);
        check("events lost by others", self.others_lost as f64, none);
        check("subscribers not served again", self.silent as f64, none);
    }
}

fn concern(topology: &Topology, episode: &Episode, (pair, log): (&Pair, &Log<'_>)) -> Concern {
    let ends = (pair.publisher, pair.subscriber);
    if matches!(episode.part, Part::Broker(broker) if pair.is_at(broker)) {
        Concern::Gone
    } else if topology.crosses(ends, usual(episode, log), episode.part) {
        Concern::Crossed
    } else {
        Concern::None
    }
}

fn lost(episode: &Episode, log: &Log<'_>) -> u64 {
    let from = before(episode, ON_THE_WAY);
    log.lost(from, episode.mended).unwrap_or_default()
}

/// The latency right before the failure.
fn usual(episode: &Episode, log: &Log<'_>) -> Duration {
    log.latency(before(episode, RIGHT_BEFORE), episode.failed)
}

fn before(episode: &Episode, span: Duration) -> Time {
    Time::ZERO + (episode.failed - (Time::ZERO + span))
}

/// The value that this share does not exceed; `None` of nothing.
fn percentile(durations: &[Duration], share: f64) -> Option<f64> {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().map(ms)
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
