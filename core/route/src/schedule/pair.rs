//! By which neighbour one broker gets what enters the network at another.

use core::time::Duration;

use sangam_model::{BrokerId, Measured, Time, hash};

use crate::estimate::DEVIATIONS;
use crate::method::{Arrival, Feedback, Moments, Past, Report, Settings};
use crate::{Estimate, Method, Paths, Router};

/// Decisions each second, at most. The paper's scheduler makes one for each packet; what it plans
/// is the path that nearly all of them take.
const DECISIONS: u32 = 20;
/// So many of them must be for other arms before one of these is planned: a plan moves the streams
/// of whole conferences, while one packet's path is its own.
const AGREED: u32 = 18;
/// And what is measured now must be better by so many milliseconds and by this share.
const MARGIN: (f64, f64) = (2.0, 0.1);
/// How long a router remembers. The prior of Thompson sampling never forgets by itself: without
/// this a scheduler would keep to yesterday's path.
const MEMORY: Duration = Duration::from_secs(10);
/// Parts of that into which the first ends of pairs fall that began together.
const SPREAD: u32 = 10;
/// Reports of so many seconds count as one independent measurement in the history of an arm:
/// queues last for seconds.
const CORRELATED: u32 = 5;
/// What links report is believed up to this: longer delays are told from each other by nobody.
const MS_MAX: f64 = 10_000.0;

/// What a way is like.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figure {
    /// Transmit latency, and what loss weighs.
    transit_ms: f64,
    /// Variance, in square milliseconds.
    spread: f64,
}

/// A neighbour that is nearer to the origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arm {
    /// What the way by it costs on the map.
    pub(super) cost: u32,
    pub(super) peer: BrokerId,
    /// From the origin to the broker that chooses.
    pub(super) figure: Figure,
}

/// The choices of one broker for one origin.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    method: Method,
    seed: u64,
    /// What the numbers of paths mean.
    peers: Vec<BrokerId>,
    router: Router,
    /// Since the router was made.
    observed: Vec<Moments>,
    ends: Time,
    chosen: usize,
    pub(super) planned: Time,
}

impl Figure {
    pub(super) fn of(measured: &Measured) -> Self {
        let link = Estimate::of(measured);
        Self {
            transit_ms: (link.mean_ms() + link.loss_ms()).min(MS_MAX),
            spread: link.spread().min(MS_MAX * MS_MAX),
        }
    }

    /// This way, and then another.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            transit_ms: (self.transit_ms + other.transit_ms).min(MS_MAX),
            spread: (self.spread + other.spread).min(MS_MAX * MS_MAX),
        }
    }

    /// How long a receiver lets packets wait that come over it.
    fn lag_ms(self) -> f64 {
        DEVIATIONS * self.spread.sqrt()
    }

    /// What a method wants to be small: VCRoute predicts when packets are played, Via only when
    /// they arrive.
    fn latency_ms(self, method: Method) -> f64 {
        match method {
            Method::Via => self.transit_ms,
            _ => self.transit_ms + self.lag_ms(),
        }
    }

    fn arrival(self) -> Arrival {
        let us = |ms: f64| (ms * 1e3) as i64;
        Arrival {
            transit_us: us(self.transit_ms),
            jitter_us: us(self.spread.sqrt()),
            lag_us: us(self.lag_ms()),
        }
    }
}

/// The arm with the shortest way by the map.
fn shortest(arms: &[Arm]) -> usize {
    let costs = arms.iter().map(|arm| (arm.cost, arm.peer));
    let least = costs.zip(0..).min();
    least.map_or(0, |(_, place)| place)
}

impl Pair {
    /// Begins with the shortest way by the map.
    pub(super) fn new((method, seed): (Method, u64), now: Time, arms: &[Arm]) -> Self {
        let mut pair = Self {
            method,
            seed,
            peers: Vec::new(),
            router: Router::new(method, Paths::parallel(1), &Settings::default()),
            observed: Vec::new(),
            ends: now,
            chosen: shortest(arms),
            planned: now,
        };
        pair.begin(now, arms, Vec::new());
        // Not all at once, later.
        pair.ends = now + MEMORY * (1 + seed as u32 % SPREAD) / SPREAD;
        pair
    }

    /// The arm that is planned now.
    pub(super) fn choose(&mut self, now: Time, arms: &[Arm]) -> usize {
        self.planned = now;
        self.renew(now, arms);
        for (path, (arm, observed)) in arms.iter().zip(&mut self.observed).enumerate() {
            observed.add(arm.figure.latency_ms(self.method));
            let report = Report::Arrived(arm.figure.arrival());
            let path = path as u16;
            let sent = now;
            self.router.feedback(now, &Feedback { path, sent, report });
        }
        if let Some(agreed) = self.agreed(now)
            && self.is_worth(arms, agreed)
        {
            self.chosen = agreed;
        }
        self.chosen
    }

    /// The arm that most decisions of this second are for, if nearly all are for another than now.
    fn agreed(&mut self, now: Time) -> Option<usize> {
        if let Some(only) = self.router.certain() {
            return Some(only.into());
        }
        let mut votes = vec![0_u32; self.peers.len()];
        for _ in 0..DECISIONS {
            let choice = self.router.choose(now, |_| None);
            if let Some(votes) = votes.get_mut(usize::from(choice.path)) {
                *votes += 1;
            }
            if votes
                .get(self.chosen)
                .is_some_and(|votes| DECISIONS - votes < AGREED)
            {
                // Whatever the others will be for.
                return None;
            }
        }
        // Of several that are equally good none would ever have them all.
        (0..votes.len()).max_by_key(|arm| votes[*arm])
    }

    fn is_worth(&self, arms: &[Arm], other: usize) -> bool {
        let latency_ms = |arm: usize| arms.get(arm).map(|arm| arm.figure.latency_ms(self.method));
        match (latency_ms(self.chosen), latency_ms(other)) {
            (Some(now), Some(then)) => now - then > MARGIN.0.max(MARGIN.1 * now),
            _ => true,
        }
    }

    /// Begins anew with other arms, or when the time has come; then with what was observed.
    fn renew(&mut self, now: Time, arms: &[Arm]) {
        let same = self.peers.iter().eq(arms.iter().map(|arm| &arm.peer));
        if same && now < self.ends {
            return;
        }
        let chosen = self.peers.get(self.chosen);
        let stays = arms.iter().position(|arm| Some(&arm.peer) == chosen);
        self.chosen = stays.unwrap_or_else(|| shortest(arms));
        let known = self.peers.iter().zip(&self.observed);
        let known: Vec<_> = known.collect();
        let past = |arm: &Arm| {
            let of_peer = known.iter().find(|(peer, _)| **peer == arm.peer);
            of_peer.and_then(|(_, observed)| observed.past())
        };
        let history = arms.iter().map(past).map(|past| {
            let past = past.unwrap_or_default();
            Past {
                samples: past.samples / CORRELATED,
                ..past
            }
        });
        let history = history.collect();
        self.begin(now, arms, history);
    }

    fn begin(&mut self, now: Time, arms: &[Arm], history: Vec<Past>) {
        self.ends = now + MEMORY;
        self.peers = arms.iter().map(|arm| arm.peer).collect();
        self.observed = vec![Moments::default(); arms.len()];
        let settings = Settings {
            seed: hash::fold(self.seed ^ now.as_micros(), hash::KEY),
            history,
            refresh: Duration::MAX,
            ..Settings::default()
        };
        let paths = Paths::parallel(arms.len());
        self.router = Router::new(self.method, paths, &settings);
    }
}
