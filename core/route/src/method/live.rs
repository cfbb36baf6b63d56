//! Routing as live brokers do it, asked for each packet: what the laboratory's figures of a live
//! network are to be held against.
//!
//! Sender, relays and receiver are brokers. Links are measured twice a second, smoothed and weighed
//! as brokers do ([`Weigher`]). Without a scheduler the shortest way is taken, and kept as
//! core/broker keeps ways; with one, the way that [`Scheduler`] planned a second ago. A broker's
//! detour around a link that has fallen silent is not here.

use core::time::Duration;

use sangam_model::{BrokerId, Measured, Time};

use super::Settings;
use super::report::{Probe, ms};
use crate::schedule::{Line, Scheduler};
use crate::{Edge, Graph, Method, Paths, UNREACHABLE, Weigher};

/// Plans and reports are a second apart.
const EVERY: Duration = Duration::from_secs(1);
/// What a measurement counts in the smoothed delay and in its deviation, at two a second: what
/// core/link's filters of 1/8 and 1/16 every 50 ms make of four in a row.
const DELAY_SHARE: f64 = 0.414;
const JITTER_SHARE: f64 = 0.228;
/// What a measurement counts in the loss: core/link judges over 100 packets and more.
const LOSS_SHARE: f64 = 0.02;
/// So many lost probes in a row are the death of a link.
const DEAD: u8 = 2;
/// What a way may cost besides the shortest before it is left, and how long it stays, as in
/// core/broker's `ways.rs`.
const AT_ONCE: (u32, u32) = (1, 200);
const SOON: (u32, u32) = (4, 50);
const SOON_AFTER: Duration = Duration::from_secs(5);
const AT_LAST_AFTER: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(super) struct Live {
    relays: usize,
    /// By the number of the link.
    gauges: Vec<Gauge>,
    pairs: Vec<Pair>,
    scheduler: Option<Scheduler>,
    path: u16,
    /// Planned, and not followed yet.
    planned: Option<u16>,
    next: Time,
    /// Since when there has been a shorter way.
    kept: Option<Time>,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, Default)]
struct Gauge {
    delay_ms: Option<f64>,
    last_ms: f64,
    jitter_ms: f64,
    loss: f64,
    /// Probes in a row.
    lost: u8,
}

/// A link between two brokers, by place: the sender is 0, the receiver comes last.
#[derive(Clone, Debug)]
struct Pair {
    ends: (usize, usize),
    /// There, and back if the trace has that.
    links: (usize, usize),
    weigher: Weigher,
    measured: Option<Measured>,
    /// It is on the map.
    up: bool,
}

impl Live {
    pub(super) fn new(method: Method, settings: &Settings, paths: &Paths) -> Self {
        let relays = paths.iter().filter(|path| path.links().len() == 2).count();
        let by = match method {
            Method::ViaLive => Some(Method::Via),
            Method::VcRouteLive => Some(Method::VcRoute),
            _ => None,
        };
        Self {
            relays,
            gauges: vec![Gauge::default(); paths.links()],
            pairs: pairs(relays),
            scheduler: by.map(|method| Scheduler::new(method, settings.seed)),
            path: 0,
            planned: None,
            next: Time::ZERO,
            kept: None,
        }
    }

    pub(super) fn choose(&mut self, now: Time) -> u16 {
        if now >= self.next {
            self.next = now + EVERY;
            self.decide(now);
        }
        self.path
    }

    pub(super) fn probe(&mut self, now: Time, probe: &Probe) {
        let link = usize::from(probe.link);
        self.gauges[link].note(probe.delay_us.map(|us| f64::from(ms(us))));
        for pair in &mut self.pairs {
            if pair.links.0 == link || pair.links.1 == link {
                pair.measure(now, &self.gauges);
            }
        }
    }

    fn decide(&mut self, now: Time) {
        let Some(scheduler) = &mut self.scheduler else {
            return self.keep_or_leave(now);
        };
        if let Some(path) = self.planned.take() {
            self.path = path;
        }
        let line = |pair: &Pair| Line {
            ends: (id(pair.ends.0), id(pair.ends.1)),
            weight: pair.weigher.weight(),
            measured: pair.measured,
        };
        let up = self.pairs.iter().filter(|pair| pair.up);
        let lines: Vec<Line> = up.map(line).collect();
        let trees = scheduler.plan(now, &lines);
        let tree = trees.iter().find(|tree| tree.origin == id(0));
        let parent = |place: usize| {
            let parents = &tree?.parents;
            let at = parents.binary_search_by_key(&id(place), |(id, _)| *id);
            Some(parents[at.ok()?].1.0 as usize - 1)
        };
        self.planned = self.path_by(parent);
    }

    /// The shortest way by weights, with the patience that brokers have with the one they are on.
    fn keep_or_leave(&mut self, now: Time) {
        let (graph, receiver) = (self.graph(), id(self.relays + 1));
        let next = |place: usize| {
            let ways = graph.ways(id(place), None);
            Some(graph.first(&ways, receiver)?.0 as usize - 1)
        };
        let least = graph.cost(&graph.ways(id(0), None), receiver);
        let Some(path) = self.path_from(next).filter(|path| *path != self.path) else {
            self.kept = None;
            return;
        };
        let cost = self.cost(self.path);
        let over = |(share, units): (u32, u32)| cost > least.saturating_add(least / share + units);
        let since = *self.kept.get_or_insert(now);
        let patience = match (over(AT_ONCE), over(SOON)) {
            (true, _) => Duration::ZERO,
            (_, true) => SOON_AFTER,
            _ => AT_LAST_AFTER,
        };
        if least != UNREACHABLE && now - since >= patience {
            (self.path, self.kept) = (path, None);
        }
    }

    fn graph(&self) -> Graph {
        let edges = (0..self.relays + 2).map(|place| {
            let touching = self.pairs.iter().filter_map(move |pair| {
                let to = match pair.ends {
                    (a, b) if a == place => b,
                    (a, b) if b == place => a,
                    _ => return None,
                };
                let weight = pair.weigher.weight();
                let edge = Edge { to: id(to), weight };
                pair.up.then_some(edge)
            });
            (id(place), touching)
        });
        Graph::new(edges)
    }

    /// What the weights of a path add up to.
    fn cost(&self, path: u16) -> u32 {
        let places = self.places(path);
        let crossed = places.windows(2).map(|ends| {
            let ends = (ends[0].min(ends[1]), ends[0].max(ends[1]));
            let mut pairs = self.pairs.iter();
            let pair = pairs.find(|pair| pair.ends == ends);
            let up = pair.filter(|pair| pair.up);
            up.map_or(UNREACHABLE, |pair| pair.weigher.weight().into())
        });
        crossed.fold(0, u32::saturating_add)
    }

    /// The brokers of a path ([`Paths::overlay`]).
    fn places(&self, path: u16) -> Vec<usize> {
        let (path, relays, end) = (usize::from(path), self.relays, self.relays + 1);
        if path == 0 {
            vec![0, end]
        } else if path <= relays {
            vec![0, path, end]
        } else {
            let number = path - 1 - relays;
            let others = relays.saturating_sub(1).max(1);
            let (first, rest) = (number / others, number % others);
            let second = rest + usize::from(rest >= first);
            vec![0, 1 + first, 1 + second, end]
        }
    }

    /// The number of the path of these relays; none of more than two.
    fn number(&self, relays: &[usize]) -> Option<u16> {
        let number = match *relays {
            [] => 0,
            [one] => one,
            [first, second] => {
                let (first, second) = (first - 1, second - 1);
                let rest = second - usize::from(second > first);
                1 + self.relays + first * (self.relays - 1) + rest
            }
            _ => return None,
        };
        u16::try_from(number).ok()
    }

    /// The path on which each broker, from the receiver on, gets the stream by this neighbour.
    fn path_by(&self, parent: impl Fn(usize) -> Option<usize>) -> Option<u16> {
        let mut relays = self.walk((self.relays + 1, 0), parent)?;
        relays.reverse();
        self.number(&relays)
    }

    /// The path on which each broker, from the sender on, passes the stream to this neighbour.
    fn path_from(&self, next: impl Fn(usize) -> Option<usize>) -> Option<u16> {
        let relays = self.walk((0, self.relays + 1), next)?;
        self.number(&relays)
    }

    fn walk(
        &self,
        (from, to): (usize, usize),
        step: impl Fn(usize) -> Option<usize>,
    ) -> Option<Vec<usize>> {
        let (mut at, mut between) = (from, Vec::new());
        for _ in 0..=self.relays {
            at = step(at)?;
            if at == to {
                return Some(between);
            }
            between.push(at);
        }
        None
    }
}

impl Gauge {
    fn note(&mut self, delay_ms: Option<f64>) {
        let lost = f64::from(u8::from(delay_ms.is_none()));
        self.loss += LOSS_SHARE * (lost - self.loss);
        let Some(now_ms) = delay_ms else {
            self.lost = self.lost.saturating_add(1);
            return;
        };
        self.lost = 0;
        match &mut self.delay_ms {
            Some(delay_ms) => {
                *delay_ms += DELAY_SHARE * (now_ms - *delay_ms);
                let change = (now_ms - self.last_ms).abs();
                self.jitter_ms += JITTER_SHARE * (change - self.jitter_ms);
            }
            none => *none = Some(now_ms),
        }
        self.last_ms = now_ms;
    }
}

impl Pair {
    /// Both ends know half of the round trip and the worse of both deviations and losses.
    fn measure(&mut self, now: Time, gauges: &[Gauge]) {
        let (there, back) = (gauges[self.links.0], gauges[self.links.1]);
        self.up = there.lost.max(back.lost) < DEAD;
        let (Some(there_ms), Some(back_ms)) = (there.delay_ms, back.delay_ms) else {
            return;
        };
        let of_ms = |ms: f64| Duration::from_secs_f64(ms.max(0.0) / 1e3);
        let measured = Measured {
            rtt: of_ms(there_ms + back_ms),
            jitter: of_ms(there.jitter_ms.max(back.jitter_ms)),
            loss_ppm: (there.loss.max(back.loss) * 1e6) as u32,
        };
        self.weigher.measure(now, &measured);
        self.measured = Some(measured);
    }
}

/// All links of [`Paths::overlay`] with so many relays.
fn pairs(relays: usize) -> Vec<Pair> {
    let pair = |ends: (usize, usize), links: (usize, usize)| Pair {
        ends,
        links,
        weigher: Weigher::new(None),
        measured: None,
        up: true,
    };
    let end = relays + 1;
    let mut pairs = vec![pair((0, end), (0, 0))];
    for relay in 0..relays {
        let (up, down) = (1 + relay, 1 + relays + relay);
        pairs.push(pair((0, 1 + relay), (up, up)));
        pairs.push(pair((1 + relay, end), (down, down)));
    }
    let link = |first: usize, second: usize| {
        let rest = second - usize::from(second > first);
        1 + 2 * relays + first * (relays - 1) + rest
    };
    for first in 0..relays {
        for second in first + 1..relays {
            let links = (link(first, second), link(second, first));
            pairs.push(pair((1 + first, 1 + second), links));
        }
    }
    pairs
}

fn id(place: usize) -> BrokerId {
    BrokerId(place as u32 + 1)
}
