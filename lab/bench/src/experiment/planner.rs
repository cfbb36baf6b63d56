//! `planner`: what a central scheduler costs for the most brokers that it plans for: time of a
//! plan, and bytes that each broker is told.

use std::collections::BTreeMap;
use std::time::Duration;

use sangam_model::limits::BROKERS_PLANNED;
use sangam_model::{BrokerId, Measured, Random, Time};
use sangam_route::schedule::{Line, Scheduler, Teller, Told};
use sangam_route::{Method, Weigher};
use sangam_wire::{HEADER_LEN, Plan, PlanMethod, PlanTree};

use super::Reports;
use crate::args::Options;
use crate::error::Error;
use crate::process::this_thread_cpu;
use crate::report::{Bound, Report, Row};

/// The paper's longest, for one conference (Xiao et al., section VI-E).
const PLAN_MS_MAX: f64 = 9.1;
/// The same share of the second that a plan is for.
const PLAN_PERCENT_MAX: f64 = 1.0;
/// Of 1 Mb/s of media, which is little for a broker of so large a network.
const MEDIA_BYTES_PER_S: f64 = 125_000.0;
const MEDIA_PERCENT_MAX: f64 = 1.0;
/// Seconds that are planned.
const SECONDS: u64 = 120;
/// How long a link's congestion lasts, in seconds, and its share of such spans.
const LEVEL_SECONDS: u64 = 16;
const CONGESTED: f64 = 0.15;

/// Links of a broker to those so far from it around a ring: six each, or all.
const RINGS: [(&str, &[u32]); 2] = [("six links each", &[1, 7, 19]), ("full mesh", &[])];

/// Plans for both networks, calm and congested, by both methods.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let title = format!("Plans for {BROKERS_PLANNED} brokers, each second");
    let mut report = Report::new("planner", title);
    let seconds = options.seconds.unwrap_or(SECONDS).max(10);
    for (name, steps) in RINGS {
        for (weather, congested) in [("calm", 0.0), ("congested", CONGESTED)] {
            for method in [PlanMethod::VcRoute, PlanMethod::Via] {
                let mut world = World::new(steps, congested);
                let cost = Cost::of(&mut world, method, seconds);
                let case = format!("{name}, {weather}, {}", method.name());
                cost.check(&mut report, &case);
                let row = Row::default()
                    .with("network", name)
                    .with("links", world.links.len())
                    .with("weather", weather)
                    .with("routing", method.name());
                report.ours.push(cost.fill(row));
            }
        }
    }
    report.notes.push(format!(
        "{seconds} plans from figures that waver each second, and weights as brokers make them; \
         congested: {:.0} % of links are two \
         to four times as long for {LEVEL_SECONDS} s, with jitter. plan_ms is a thread's processor \
         time for all trees; the first plan, which makes all pairs, is first_plan_ms. \
         bytes_per_s is what each broker is told, event headers included, after the first 10 s; IP \
         and UDP headers come to 28 bytes a message.",
        CONGESTED * 100.0
    ));
    Ok(vec![("planner".to_owned(), report)])
}

/// Links that waver.
struct World {
    links: Vec<Link>,
    congested: f64,
    random: Random,
}

struct Link {
    ends: (BrokerId, BrokerId),
    base_ms: f64,
    factor: f64,
    weigher: Weigher,
}

impl World {
    fn new(steps: &[u32], congested: f64) -> Self {
        let brokers = BROKERS_PLANNED as u32;
        let mut random = Random::new(48);
        let mut links = BTreeMap::new();
        for broker in 0..brokers {
            let all: Vec<u32> = (1..brokers).collect();
            for step in if steps.is_empty() { &all } else { steps } {
                let peer = (broker + step) % brokers;
                let ends = (BrokerId(broker.min(peer)), BrokerId(broker.max(peer)));
                links.entry(ends).or_insert_with(|| Link {
                    ends,
                    base_ms: 5.0 + 145.0 * random.unit(),
                    factor: 1.0,
                    weigher: Weigher::new(None),
                });
            }
        }
        Self {
            links: links.into_values().collect(),
            congested,
            random,
        }
    }

    /// What links report in this second.
    fn lines(&mut self, second: u64) -> Vec<Line> {
        let (congested, random) = (self.congested, &mut self.random);
        let mut line = |link: &mut Link| {
            if second.is_multiple_of(LEVEL_SECONDS) {
                let is_congested = random.chance(congested);
                let extent = 2.0 + 2.0 * random.unit();
                link.factor = if is_congested { extent } else { 1.0 };
            }
            let wobble = (1.0 + 0.02 * random.normal()).max(0.5);
            let ms = link.base_ms * link.factor * wobble;
            let jitter_ms = 0.5 + (link.factor - 1.0) * 10.0 + random.unit();
            let measured = Measured {
                rtt: Duration::from_secs_f64(2.0 * ms / 1e3),
                jitter: Duration::from_secs_f64(jitter_ms / 1e3),
                loss_ppm: 0,
            };
            link.weigher
                .measure(Time::from_millis(1_000 * second), &measured);
            Line {
                ends: link.ends,
                weight: link.weigher.weight(),
                measured: Some(measured),
            }
        };
        self.links.iter_mut().map(&mut line).collect()
    }
}

/// Of all plans.
#[derive(Default)]
struct Cost {
    first_ms: f64,
    sum_ms: f64,
    most_ms: f64,
    plans: f64,
    bytes: f64,
    messages: f64,
    changed: f64,
    told_s: f64,
}

impl Cost {
    fn of(world: &mut World, method: PlanMethod, seconds: u64) -> Self {
        let by = match method {
            PlanMethod::VcRoute => Method::VcRoute,
            PlanMethod::Via => Method::Via,
        };
        let (mut scheduler, mut teller) = (Scheduler::new(by, 1), Teller::default());
        let mut cost = Self::default();
        for second in 0..seconds {
            let now = Time::from_millis(1_000 * second);
            let lines = world.lines(second);
            let begin = this_thread_cpu();
            let trees = scheduler.plan(now, &lines);
            let told = teller.tell(now, trees);
            let ms = (this_thread_cpu() - begin).as_secs_f64() * 1e3;
            if second == 0 {
                cost.first_ms = ms;
                continue;
            }
            cost.sum_ms += ms;
            cost.most_ms = cost.most_ms.max(ms);
            cost.plans += 1.0;
            // All trees are told at first.
            if second >= 10 {
                cost.told_s += 1.0;
                cost.tell(method, told);
            }
        }
        cost
    }

    /// Counts the messages that `sangam monitor` would publish.
    fn tell(&mut self, method: PlanMethod, told: Told) {
        self.changed += told.changed.len() as f64;
        let trees = told.changed.into_iter().chain(told.again);
        let trees: Vec<PlanTree> = trees
            .map(|tree| PlanTree {
                origin: tree.origin,
                parents: tree.parents,
            })
            .collect();
        let mut rest = &trees[..];
        loop {
            let (some, more) = rest.split_at(Plan::room_for(rest).min(rest.len()));
            let plan = Plan {
                method,
                number: 1,
                trees: some.to_vec(),
            };
            let mut bytes = Vec::new();
            // One that did not fit would be no message, either.
            if plan.encode(&mut bytes).is_ok() {
                self.bytes += (HEADER_LEN + bytes.len()) as f64;
                self.messages += 1.0;
            }
            if more.is_empty() || some.is_empty() {
                return;
            }
            rest = more;
        }
    }

    fn mean_ms(&self) -> f64 {
        self.sum_ms / self.plans.max(1.0)
    }

    fn bytes_per_s(&self) -> f64 {
        self.bytes / self.told_s.max(1.0)
    }

    fn fill(&self, row: Row) -> Row {
        row.with("plan_ms", self.mean_ms())
            .with("plan_max_ms", self.most_ms)
            .with("first_plan_ms", self.first_ms)
            .with("bytes_per_s", self.bytes_per_s())
            .with("messages_per_s", self.messages / self.told_s.max(1.0))
            .with("trees_changed_per_s", self.changed / self.told_s.max(1.0))
    }

    fn check(&self, report: &mut Report, case: &str) {
        for (what, value, most) in [
            ("ms a plan", self.mean_ms(), PLAN_MS_MAX),
            (
                "percent of the second it is for",
                self.mean_ms() / 10.0,
                PLAN_PERCENT_MAX,
            ),
            (
                "bytes told, in percent of 1 Mb/s of media",
                self.bytes_per_s() * 100.0 / MEDIA_BYTES_PER_S,
                MEDIA_PERCENT_MAX,
            ),
        ] {
            let name = format!("{case}: {what}");
            report.verdict.check(name, value, Bound::AtMost(most));
        }
    }
}
