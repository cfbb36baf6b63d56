//! What all subscribers noticed of one kind of failure, as rows and checks.

use std::time::Duration;

use sangam_model::Time;

use super::CALM;
use super::failure::{Episode, Failure};
use super::gaps::Log;
use super::stage::Pair;
use super::ways::{Part, Topology};
use crate::load::Media;
use crate::process::Carrier;
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
    /// The longest gap of those whose way did not cross what failed.
    others_gap: Duration,
    /// Whether anybody's way could cross what failed.
    crossable: bool,
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
            found.crossable |= topology.is_crossed(episode.part);
            found.silent += episode.silent;
            let mut restored = Some(Duration::ZERO);
            for (pair, log) in logs {
                found.again += log.again(before(episode, CALM), episode.ended);
                let heard = log.back_after(episode.mended, Duration::MAX);
                restored = restored.zip(heard).map(|(all, one)| all.max(one));
                match concern(topology, episode, (pair, log)) {
                    Concern::Gone => {}
                    Concern::Crossed => found.crossed(episode, (pair, log)),
                    Concern::None => {
                        found.others_lost += lost(episode, log);
                        let gap = log.gap(episode.failed, episode.mended);
                        found.others_gap = found.others_gap.max(gap);
                    }
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

    /// The gaps of all whose way crossed what failed, in ms.
    pub(super) fn gaps_ms(&self) -> impl Iterator<Item = f64> {
        let all = self.audio.gaps.iter().chain(&self.video.gaps);
        all.map(|gap| ms(*gap))
    }

    /// A row for audio and one for video.
    pub(super) fn rows(
        &self,
        (topology, carrier): (&Topology, Carrier),
        failure: Failure,
    ) -> [Row; 2] {
        [("audio", &self.audio), ("video", &self.video)].map(|(media, crossing)| {
            let mut row = Row::default()
                .with("layout", topology.name)
                .with("transport", carrier.name())
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
                .set("others_gap_max_ms", ms(self.others_gap))
                .set("mending_lost", self.mending_lost);
            if let Some(slowest) = percentile(&self.restored, 1.0) {
                row.set("restored_ms", slowest);
            }
            row
        })
    }

    /// Holds it to what was promised.
    pub(super) fn check(
        &self,
        verdict: &mut Verdict,
        (topology, carrier): (&Topology, Carrier),
        failure: Failure,
    ) {
        let mut check = |what: &str, value: f64, bound| {
            let (layout, by) = (topology.name, carrier.name());
            let name = format!("{layout} by {by}, {}: {what}", failure.name());
            verdict.check(name, value, bound);
        };
        for (media, crossing) in [("audio", &self.audio), ("video", &self.video)] {
            // A mesh has no way through a broker that has a shorter one around it.
            if self.crossable {
                let what = format!("subscribers of {media} whose way crossed it");
                let count = crossing.gaps.len() as f64;
                check(&what, count, Bound::AtLeast(1.0));
            }
            if let Some(longest) = percentile(&crossing.gaps, 1.0) {
                let what = format!("longest gap of {media} in ms");
                check(&what, longest, Bound::AtMost(GAP_MS_MAX));
            }
        }
        let none = Bound::AtMost(0.0);
        let longest = ms(self.others_gap);
        check(
            "longest gap of others in ms",
            longest,
            Bound::AtMost(GAP_MS_MAX),
        );
        check("events delivered twice", self.again as f64, none);
        check("events lost by others", self.others_lost as f64, none);
        check("events lost in mending", self.mending_lost as f64, none);
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

#[cfg(test)]
mod tests {
    use super::super::ways::{MESH, RING};
    use super::*;
    use crate::load::Stamp;
    use crate::measure::Arrival;

    const MS: Duration = Duration::from_millis(1);

    /// A broker killed at 5 s and back at 7.5 s.
    fn killed(broker: usize) -> Episode {
        Episode {
            failure: Failure::Kill,
            part: Part::Broker(broker),
            failed: Time::from_millis(5_000),
            mended: Time::from_millis(7_500),
            ended: Time::from_millis(9_000),
            silent: 0,
        }
    }

    /// Audio that takes a way of 16 ms and is silent for a while from a moment on.
    fn arrivals(silent: core::ops::Range<u64>) -> Vec<Arrival> {
        let sent = (0..400_u32).map(|number| (number, u64::from(number) * 30));
        let heard = sent.filter(|(_, at)| !silent.contains(at));
        let arrival = |(number, at)| {
            let sent = Time::from_millis(at);
            let at = sent + MS * 16;
            let stamp = Stamp { sent, number };
            Arrival { stamp, at }
        };
        heard.map(arrival).collect()
    }

    /// The checks that a kill misses whose only witness is a pair that is silent for a while.
    fn missed(
        (topology, killed): (&Topology, Episode),
        ends: (usize, usize),
        silent: core::ops::Range<u64>,
    ) -> String {
        let arrivals = arrivals(silent);
        let pair = Pair {
            publisher: ends.0,
            subscriber: ends.1,
            media: Media::Audio,
        };
        let logs = [(pair, Log::new(&arrivals, MS * 30))];
        let found = Found::of(topology, [killed].iter(), &logs);
        let mut verdict = Verdict::default();
        found.check(&mut verdict, (topology, Carrier::Udp), Failure::Kill);
        let missed = verdict.checks.iter().filter(|check| !check.passed);
        let names = missed.map(|check| check.name.rsplit(": ").next().unwrap_or_default());
        names.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_failure_that_nobody_s_way_crossed_is_missed() {
        let nobody = "subscribers of audio whose way crossed it; \
                      subscribers of video whose way crossed it";
        assert_eq!(missed((&RING, killed(3)), (0, 1), 0..0), nobody);
        let spare = missed((&MESH, killed(3)), (0, 1), 0..0);
        assert_eq!(spare, "", "where nobody's can, it is not");
    }

    #[test]
    fn gaps_of_those_beside_a_failure_are_missed() {
        let gap = "longest gap of others in ms; events lost by others";
        assert_eq!(missed((&MESH, killed(3)), (0, 1), 5_100..6_000), gap);
    }

    #[test]
    fn losses_in_mending_are_missed() {
        // 1-0-3 takes 15 ms, 1-2-3 takes 25.
        let lost = missed((&RING, killed(0)), (1, 3), 7_600..8_000);
        assert!(
            lost.ends_with("crossed it; events lost in mending"),
            "{lost}"
        );
    }
}
