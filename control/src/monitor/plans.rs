//! Plans of a central scheduler: made from what brokers report, and heard by brokers.
//!
//! Each second a scheduler publishes at least one message on `$sangam/plan/<name>`: trees that
//! changed, a few that did not, or just that it lives. `docs/spec/plans.md` has the bytes.

use std::collections::BTreeMap;
use std::time::Duration;

use sangam_client::{Client, ClientError, Received};
use sangam_model::{BrokerId, Filter, Measured, StreamId, Time};
use sangam_route::schedule::{Line, Scheduler, Teller, Tree};
use sangam_route::{Method, WEIGHT_MAX};
use sangam_wire::{Event, HEADER_LEN, Plan, PlanMethod, PlanTree};

use super::PLANS;
use super::network::Network;
use super::report::{BrokerReport, LinkReport};

/// Figures of links that are older say nothing of now.
const OLD_MS: u64 = 5_000;

/// Plans for the network that an aggregation node sees. Pure: time is given.
#[derive(Debug)]
pub struct Planner {
    method: PlanMethod,
    scheduler: Scheduler,
    teller: Teller,
    number: u32,
    counts: PlanCounts,
}

/// What plans cost until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanCounts {
    /// Messages published.
    pub messages: u64,
    /// Their bytes, headers of events included.
    pub bytes: u64,
    /// Trees told because they changed.
    pub changed: u64,
    /// Trees told again.
    pub again: u64,
}

impl Planner {
    /// One that has heard nothing yet; chance is drawn from `seed`.
    #[must_use]
    pub fn new(method: PlanMethod, seed: u64) -> Self {
        let by = match method {
            PlanMethod::VcRoute => Method::VcRoute,
            PlanMethod::Via => Method::Via,
        };
        Self {
            method,
            scheduler: Scheduler::new(by, seed),
            teller: Teller::default(),
            number: 0,
            counts: PlanCounts::default(),
        }
    }

    /// Plans for a network; what is to be published of it now. Call it once a second.
    pub fn plan(&mut self, now: Time, network: &Network) -> Vec<Vec<u8>> {
        let trees = self.scheduler.plan(now, &lines(network));
        let told = self.teller.tell(now, trees);
        self.counts.changed += told.changed.len() as u64;
        self.counts.again += told.again.len() as u64;
        let trees = told.changed.into_iter().chain(told.again);
        let trees: Vec<PlanTree> = trees.map(plan_tree).collect();
        self.messages(&trees)
    }

    /// What says that all that was told stands.
    pub fn beat(&mut self) -> Vec<Vec<u8>> {
        self.messages(&[])
    }

    /// Tells everything anew from now on: nobody may have heard what was told.
    pub fn begin_anew(&mut self) {
        self.teller = Teller::default();
    }

    /// What it cost.
    #[must_use]
    pub const fn counts(&self) -> PlanCounts {
        self.counts
    }

    fn messages(&mut self, mut trees: &[PlanTree]) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        loop {
            // Each tree fits by itself.
            let (some, rest) = trees.split_at(Plan::room_for(trees).min(trees.len()));
            self.number = self.number.wrapping_add(1);
            let plan = Plan {
                method: self.method,
                number: self.number,
                trees: some.to_vec(),
            };
            let mut bytes = Vec::new();
            match plan.encode(&mut bytes) {
                Ok(()) => {
                    self.counts.messages += 1;
                    self.counts.bytes += (HEADER_LEN + bytes.len()) as u64;
                    messages.push(bytes);
                }
                Err(error) => tracing::error!(%error, "a plan cannot be told"),
            }
            if rest.is_empty() || some.is_empty() {
                return messages;
            }
            trees = rest;
        }
    }
}

fn plan_tree(tree: Tree) -> PlanTree {
    PlanTree {
        origin: tree.origin,
        parents: tree.parents,
    }
}

/// What one end says of a link: weight and figures.
type End = (u16, Option<Measured>);

/// Links that both ends report, by the worse end, as the map has them.
fn lines(network: &Network) -> Vec<Line> {
    let mut ends: BTreeMap<(BrokerId, BrokerId), End> = BTreeMap::new();
    for view in network.brokers.iter().filter(|view| !view.stale) {
        let report = &view.report;
        for link in report.links.iter().filter(|link| link.up) {
            let Some(peer) = link.peer else { continue };
            let of_pair = ends.entry((report.broker, peer));
            of_pair.or_insert_with(|| end(report, link));
        }
    }
    let line = |((a, b), (weight, measured)): (&(BrokerId, BrokerId), &End)| {
        let (back, theirs) = ends.get(&(*b, *a)).filter(|_| a < b)?;
        Some(Line {
            ends: (*a, *b),
            weight: *weight.max(back),
            measured: worse(*measured, *theirs),
        })
    };
    ends.iter().filter_map(line).collect()
}

fn end(report: &BrokerReport, link: &LinkReport) -> End {
    let weight = link.weight.unwrap_or(1).try_into().unwrap_or(WEIGHT_MAX);
    // As on the map.
    let weight = if report.draining { WEIGHT_MAX } else { weight };
    let usable = link.suspect != Some(true) && link.age_ms <= OLD_MS;
    let rtt_us = link.rtt_us.filter(|_| usable);
    let measured = rtt_us.map(|rtt_us| Measured {
        rtt: Duration::from_micros(rtt_us),
        jitter: Duration::from_micros(link.jitter_us.unwrap_or(0)),
        loss_ppm: link.loss_ppm.unwrap_or(0).min(1_000_000),
    });
    (weight, measured)
}

/// None if one end does not know.
fn worse(a: Option<Measured>, b: Option<Measured>) -> Option<Measured> {
    let (a, b) = (a?, b?);
    Some(Measured {
        rtt: a.rtt.max(b.rtt),
        jitter: a.jitter.max(b.jitter),
        loss_ppm: a.loss_ppm.max(b.loss_ppm),
    })
}

/// Hears what schedulers publish.
#[derive(Debug)]
pub struct PlanListener {
    client: Client,
}

impl PlanListener {
    /// Subscribes through a client of the broker that is to follow plans.
    ///
    /// # Errors
    /// As [`Client::subscribe`].
    pub fn new(client: Client) -> Result<Self, ClientError> {
        let filter = Filter::new(&format!("{PLANS}/+"));
        client.subscribe(&filter.expect("a wildcard may follow two levels"))?;
        Ok(Self { client })
    }

    /// What was published within `timeout`, and by which stream; empty if nothing that can be
    /// read, `None` once the broker has stopped.
    pub fn hear(&mut self, timeout: Duration) -> Option<Vec<(StreamId, Plan)>> {
        match self.client.recv(timeout) {
            Some(Received::Event(packet)) => {
                let event = Event::decode(&packet).ok();
                let plan = event.and_then(|event| {
                    let plan = Plan::decode(event.payload);
                    let plan = plan.inspect_err(|error| {
                        let stream = event.header.stream;
                        tracing::debug!(%error, %stream, "a plan cannot be read");
                    });
                    Some((event.header.stream, plan.ok()?))
                });
                Some(plan.into_iter().collect())
            }
            None if self.client.is_closed() => None,
            _ => Some(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::BrokerView;

    fn link(peer: u32, weight: u32, rtt_us: u64, jitter_us: u64) -> LinkReport {
        LinkReport {
            peer: Some(BrokerId(peer)),
            up: true,
            weight: Some(weight),
            rtt_us: Some(rtt_us),
            jitter_us: Some(jitter_us),
            loss_ppm: Some(0),
            ..LinkReport::default()
        }
    }

    fn network(brokers: &[(u32, Vec<LinkReport>)]) -> Network {
        let view = |(id, links): &(u32, Vec<LinkReport>)| BrokerView {
            report: BrokerReport {
                broker: BrokerId(*id),
                links: links.clone(),
                ..BrokerReport::default()
            },
            ..BrokerView::default()
        };
        Network::new("test", 0, brokers.iter().map(view).collect())
    }

    /// 1 and 3 are two hops apart, by 2 or by 4; the link of 2 and 3 may shake.
    fn ring(jitter_us: u64) -> Network {
        network(&[
            (1, vec![link(2, 100, 9_000, 100), link(4, 120, 9_500, 100)]),
            (
                2,
                vec![link(1, 100, 9_000, 100), link(3, 100, 9_000, jitter_us)],
            ),
            (3, vec![link(2, 100, 9_000, 100), link(4, 120, 9_500, 100)]),
            (4, vec![link(3, 120, 9_500, 100), link(1, 120, 9_500, 100)]),
        ])
    }

    fn told(messages: &[Vec<u8>]) -> Vec<PlanTree> {
        let plans = messages.iter().map(|bytes| Plan::decode(bytes).unwrap());
        plans.flat_map(|plan| plan.trees).collect()
    }

    #[test]
    fn a_link_counts_as_its_worse_end_says_and_not_at_all_if_one_end_is_missing() {
        let seen = lines(&ring(30_000));
        assert_eq!(seen.len(), 4);
        let shaky = seen
            .iter()
            .find(|line| line.ends == (BrokerId(2), BrokerId(3)));
        let jitter = shaky.and_then(|line| line.measured).map(|link| link.jitter);
        assert_eq!(jitter, Some(Duration::from_millis(30)));

        let mut network = ring(100);
        network.brokers[0].report.links.remove(0);
        network.brokers[2].stale = true;
        network.brokers[3].report.draining = true;
        let seen = lines(&network);
        let seen: Vec<_> = seen.iter().map(|line| (line.ends.1, line.weight)).collect();
        assert_eq!(seen, [(BrokerId(4), WEIGHT_MAX)]);
    }

    #[test]
    fn what_is_in_doubt_or_was_measured_long_ago_is_not_planned_over() {
        let mut network = ring(100);
        network.brokers[0].report.links[0].suspect = Some(true);
        network.brokers[2].report.links[1].age_ms = OLD_MS + 1;
        let seen = lines(&network);
        let unmeasured = seen.iter().filter(|line| line.measured.is_none());
        assert_eq!(unmeasured.count(), 2);
        assert_eq!(seen.len(), 4);
    }

    #[test]
    fn trees_are_told_when_they_change_and_beats_otherwise() {
        let mut planner = Planner::new(PlanMethod::VcRoute, 5);
        let mut now = Time::from_millis(60_000);
        let first = told(&planner.plan(now, &ring(100)));
        assert_eq!(first.len(), 4);
        let before = planner.counts();
        assert_eq!((before.changed, before.again), (4, 0));
        for _ in 0..9 {
            now += Duration::from_secs(1);
            let messages = planner.plan(now, &ring(100));
            assert_eq!((messages.len(), messages[0].len()), (1, 6));
        }
        let beats = planner.counts();
        assert_eq!(beats.bytes - before.bytes, 9 * (6 + HEADER_LEN as u64));
        let mut parents = Vec::new();
        for _ in 0..15 {
            now += Duration::from_secs(1);
            let trees = told(&planner.plan(now, &ring(30_000)));
            let from_1 = trees.into_iter().filter(|tree| tree.origin == BrokerId(1));
            parents.extend(from_1.flat_map(|tree| tree.parents));
        }
        let of_3 = parents.iter().filter(|(broker, _)| *broker == BrokerId(3));
        let of_3: Vec<_> = of_3.map(|(_, parent)| *parent).collect();
        assert_eq!(of_3, [BrokerId(4)], "told once");
        planner.begin_anew();
        now += Duration::from_secs(1);
        assert_eq!(told(&planner.plan(now, &ring(30_000))).len(), 4);
        assert_eq!(told(&planner.beat()), []);
    }
}
