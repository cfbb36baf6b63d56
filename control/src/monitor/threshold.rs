//! Measures against bounds: "All the metrics can be checked for thresholds. If a certain
//! threshold is reached then the broker node can be informed to take actions to correct the
//! situation" (Wu et al., section 3.1 (2)).
//!
//! A [`Rule`] is raised once its measure was past the bound for as long as the rule says, and
//! cleared once it is back at the bound for that: the band between the two keeps it from
//! fluttering.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use sangam_model::{BrokerId, Time};
use serde::{Deserialize, Serialize};

use super::measures::{BROKER, LINK, Measure};
use super::report::{BrokerReport, LinkReport};

/// Rules of one configuration.
pub const RULES_MAX: usize = 64;
/// Things past their bound that are watched at once; further ones wait for room, counted.
const WATCHED_MAX: usize = 16_384;

/// A measure of a link or of a broker.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    /// Of each link.
    Link(&'static Measure<LinkReport>),
    /// Of the broker.
    Broker(&'static Measure<BrokerReport>),
}

/// What a raised threshold leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Only the alert.
    Alert,
    /// The link costs more, until cleared.
    RaiseWeight,
    /// No route takes the link, until cleared.
    Invalidate,
    /// The broker sends its clients elsewhere, until cleared.
    Drain,
    /// The alert is posted to a URL.
    Webhook,
}

/// On which side of a bound is too much, or too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Too much.
    Above,
    /// Too little.
    Below,
}

/// A bound, and what follows when it is passed.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What is measured.
    pub subject: Subject,
    /// On which side of the bound it is raised.
    pub side: Side,
    /// Raised past this, in the measure's unit.
    pub bound: f64,
    /// Cleared at this or on its other side; not past `bound`.
    pub clear: f64,
    /// How long it must stay past its bound.
    pub hold: Duration,
    /// What to do.
    pub action: Action,
    /// Whereto, for [`Action::Webhook`].
    pub url: Option<String>,
}

/// Something passed its bound, or came back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// [`super::SCHEMA`] of the writer.
    pub schema: u32,
    /// Which rule, counted from 0 in the order of the configuration.
    pub rule: usize,
    /// True when it passed, false when it came back or is gone.
    pub raised: bool,
    /// Such as `link.loss_ppm`.
    pub measure: String,
    /// Its value now; absent if what was measured is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The bound that was passed.
    pub bound: f64,
    /// What follows.
    pub action: Action,
    /// The broker, as eight hexadecimal digits.
    pub broker: String,
    /// Its name.
    pub name: String,
    /// The other end, for a link whose other end is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Its address, for a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The broker's clock, in milliseconds since 1970.
    pub unix_ms: u64,
}

/// Carries out what alerts lead to. A cleared alert undoes what it did when raised.
pub trait Actions {
    /// Makes a link dearer, or as dear as measured again.
    fn raise_weight(&mut self, link: &Alert);
    /// Takes a link out of all routes, or puts it back.
    fn invalidate(&mut self, link: &Alert);
    /// Drains the broker, or ends the drain.
    fn drain(&mut self, broker: &Alert);
}

/// Which rule, at which broker, at which link: the address and who is there.
type Key = (usize, BrokerId, Option<(String, Option<BrokerId>)>);

#[derive(Clone, Copy, Debug)]
struct Watched {
    since: Time,
    raised: bool,
}

/// Checks reports against rules. Pure: time is given.
#[derive(Debug, Default)]
pub struct Thresholds {
    rules: Vec<Rule>,
    watched: BTreeMap<Key, Watched>,
    alerts: VecDeque<Alert>,
    unwatched: u64,
}

impl Subject {
    /// The measure of this name, such as `link.loss_ppm` or `broker.cpu_share`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (kind, name) = name.split_once('.')?;
        match kind {
            "link" => LINK.iter().find(|one| one.name == name).map(Self::Link),
            "broker" => BROKER.iter().find(|one| one.name == name).map(Self::Broker),
            _ => None,
        }
    }

    /// Every name there is.
    pub fn names() -> impl Iterator<Item = String> {
        let links = LINK.iter().map(|one| format!("link.{}", one.name));
        links.chain(BROKER.iter().map(|one| format!("broker.{}", one.name)))
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Link(one) => write!(f, "link.{}", one.name),
            Self::Broker(one) => write!(f, "broker.{}", one.name),
        }
    }
}

impl Side {
    fn is_past(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Above => value > bound,
            Self::Below => value < bound,
        }
    }
}

impl Thresholds {
    /// Watches by these rules; those past [`RULES_MAX`] are left out.
    #[must_use]
    pub fn new(mut rules: Vec<Rule>) -> Self {
        rules.truncate(RULES_MAX);
        Self {
            rules,
            ..Self::default()
        }
    }

    /// Whether there is nothing to watch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule of an alert.
    #[must_use]
    pub fn rule(&self, alert: &Alert) -> Option<&Rule> {
        self.rules.get(alert.rule)
    }

    /// Things that passed a bound while too many others were watched.
    #[must_use]
    pub fn unwatched(&self) -> u64 {
        self.unwatched
    }

    /// Checks a broker's newest report. [`Self::poll`] has what follows.
    pub fn handle(&mut self, now: Time, report: &BrokerReport) {
        let mut seen = Vec::new();
        for number in 0..self.rules.len() {
            match self.rules[number].subject {
                Subject::Broker(measure) => {
                    let key = (number, report.broker, None);
                    self.check(now, (&key, (measure.of)(report)), report);
                    seen.push(key);
                }
                Subject::Link(measure) => {
                    for link in &report.links {
                        let at = (link.address.clone(), link.peer);
                        let key = (number, report.broker, Some(at));
                        self.check(now, (&key, (measure.of)(link)), report);
                        seen.push(key);
                    }
                }
            }
        }
        let gone = |key: &Key| key.1 == report.broker && !seen.contains(key);
        let gone: Vec<Key> = self
            .watched
            .keys()
            .filter(|key| gone(key))
            .cloned()
            .collect();
        for key in gone {
            self.clear(&key, None, report);
        }
    }

    /// What passed its bound or came back, in order.
    pub fn poll(&mut self) -> Option<Alert> {
        self.alerts.pop_front()
    }

    /// A broker is gone: so is what was raised about it.
    pub fn forget(&mut self, report: &BrokerReport) {
        let of_it = |key: &&Key| key.1 == report.broker;
        let keys: Vec<Key> = self.watched.keys().filter(of_it).cloned().collect();
        for key in keys {
            self.clear(&key, None, report);
        }
    }

    fn check(&mut self, now: Time, (key, value): (&Key, Option<f64>), report: &BrokerReport) {
        let rule = &self.rules[key.0];
        let stays = |value: &f64| rule.side.is_past(*value, rule.clear);
        let Some(value) = value.filter(stays) else {
            return self.clear(key, value, report);
        };
        let (past, hold) = (rule.side.is_past(value, rule.bound), rule.hold);
        let full = self.watched.len() >= WATCHED_MAX;
        match self.watched.get_mut(key) {
            Some(watched) if watched.raised => {}
            // Back in the band before its time: it has to start again.
            Some(_) if !past => {
                self.watched.remove(key);
            }
            Some(watched) if now.since(watched.since) < hold => {}
            Some(watched) => {
                watched.raised = true;
                self.alert(key, Some(value), report);
            }
            None if !past => {}
            None if full => self.unwatched += 1,
            None => {
                let raised = hold.is_zero();
                self.watched
                    .insert(key.clone(), Watched { since: now, raised });
                if raised {
                    self.alert(key, Some(value), report);
                }
            }
        }
    }

    fn clear(&mut self, key: &Key, value: Option<f64>, report: &BrokerReport) {
        if self
            .watched
            .remove(key)
            .is_some_and(|watched| watched.raised)
        {
            self.alert(key, value, report);
        }
    }

    fn alert(&mut self, key: &Key, value: Option<f64>, report: &BrokerReport) {
        let (address, peer) = key.2.clone().unzip();
        let rule = &self.rules[key.0];
        let raised = self.watched.get(key).is_some_and(|watched| watched.raised);
        self.alerts.push_back(Alert {
            schema: super::SCHEMA,
            rule: key.0,
            raised,
            measure: rule.subject.to_string(),
            value,
            bound: if raised { rule.bound } else { rule.clear },
            action: rule.action,
            broker: report.broker.to_string(),
            name: report.name.clone(),
            peer: peer.flatten().map(|peer| peer.to_string()),
            address,
            unix_ms: report.at.unix_ms,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(measure: &str, above: f64, below: f64) -> Rule {
        Rule {
            subject: Subject::named(measure).unwrap(),
            side: Side::Above,
            bound: above,
            clear: below,
            hold: Duration::from_secs(2),
            action: Action::Alert,
            url: None,
        }
    }

    fn lossy(ppm: u32) -> BrokerReport {
        BrokerReport {
            links: vec![LinkReport {
                address: "[::1]:4600".to_owned(),
                peer: Some(BrokerId(0xab)),
                loss_ppm: Some(ppm),
                ..LinkReport::default()
            }],
            ..BrokerReport::default()
        }
    }

    /// Whether something was raised or cleared in each second of this loss.
    fn timeline(thresholds: &mut Thresholds, losses: &[u32]) -> Vec<Option<bool>> {
        let second = |(at, ppm): (u64, &u32)| {
            thresholds.handle(Time::from_millis(at * 1_000), &lossy(*ppm));
            let alert = thresholds.poll();
            assert!(thresholds.poll().is_none());
            alert.map(|alert| alert.raised)
        };
        (1..).zip(losses).map(second).collect()
    }

    #[test]
    fn a_threshold_is_raised_after_its_time_and_cleared_below_its_band() {
        let mut thresholds = Thresholds::new(vec![rule("link.loss_ppm", 20_000.0, 10_000.0)]);
        let losses = [0, 30_000, 30_000, 30_000, 15_000, 30_000, 9_000, 9_000];
        let expected = [None, None, None, Some(true), None, None, Some(false), None];
        assert_eq!(timeline(&mut thresholds, &losses), expected);
    }

    #[test]
    fn a_short_peak_raises_nothing() {
        let mut thresholds = Thresholds::new(vec![rule("link.loss_ppm", 20_000.0, 10_000.0)]);
        let losses = [30_000, 30_000, 15_000, 30_000, 30_000, 15_000];
        assert_eq!(timeline(&mut thresholds, &losses), [None; 6]);
    }

    #[test]
    fn what_is_gone_is_cleared() {
        let mut thresholds = Thresholds::new(vec![rule("link.loss_ppm", 1.0, 1.0)]);
        assert_eq!(
            timeline(&mut thresholds, &[9, 9, 9]),
            [None, None, Some(true)]
        );
        thresholds.handle(Time::from_millis(9_000), &BrokerReport::default());
        let cleared = thresholds.poll().unwrap();
        assert_eq!((cleared.raised, cleared.value), (false, None));
        assert_eq!(cleared.address.as_deref(), Some("[::1]:4600"));
        assert_eq!(
            cleared.peer.as_deref(),
            Some("000000ab"),
            "for whom it was raised"
        );
    }

    #[test]
    fn another_broker_at_the_same_address_is_another_link() {
        let mut thresholds = Thresholds::new(vec![Rule {
            hold: Duration::ZERO,
            ..rule("link.loss_ppm", 1.0, 1.0)
        }]);
        let mut report = lossy(9);
        thresholds.handle(Time::ZERO, &report);
        report.links[0].peer = Some(BrokerId(0xcd));
        thresholds.handle(Time::ZERO, &report);
        let said = std::iter::from_fn(|| thresholds.poll());
        let said = said.map(|alert| (alert.raised, alert.peer.unwrap()));
        let expected = [(true, "000000ab"), (true, "000000cd"), (false, "000000ab")];
        assert_eq!(
            said.collect::<Vec<_>>(),
            expected.map(|(raised, peer)| (raised, peer.to_owned()))
        );
    }

    #[test]
    fn too_little_raises_as_too_much_does() {
        let mut thresholds = Thresholds::new(vec![Rule {
            side: Side::Below,
            ..rule("link.loss_ppm", 10.0, 20.0)
        }]);
        let losses = [10, 9, 9, 9, 15, 19, 20, 15, 9, 11];
        let raised = [None, None, None, Some(true), None, None, Some(false), None];
        let expected = [&raised[..], &[None, None]].concat();
        assert_eq!(timeline(&mut thresholds, &losses), expected);
    }

    #[test]
    fn what_is_not_measured_raises_nothing() {
        let mut thresholds = Thresholds::new(vec![rule("link.jitter_us", 0.0, 0.0)]);
        assert_eq!(timeline(&mut thresholds, &[9, 9, 9, 9]), [None; 4]);
    }

    #[test]
    fn a_broker_has_measures_too() {
        let mut thresholds = Thresholds::new(vec![Rule {
            hold: Duration::ZERO,
            ..rule("broker.clients", 10.0, 5.0)
        }]);
        let mut busy = lossy(0);
        busy.clients = 11;
        thresholds.handle(Time::ZERO, &busy);
        let alert = thresholds.poll().unwrap();
        assert_eq!(
            (alert.measure.as_str(), alert.value),
            ("broker.clients", Some(11.0))
        );
        thresholds.forget(&busy);
        assert!(!thresholds.poll().unwrap().raised);
    }

    #[test]
    fn names_are_found_and_others_are_not() {
        assert!(Subject::names().all(|name| Subject::named(&name).is_some()));
        assert!(Subject::named("link.colour").is_none() && Subject::named("loss_ppm").is_none());
    }
}
