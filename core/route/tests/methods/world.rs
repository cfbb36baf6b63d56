//! A network as a function of link and time, one sender, and a receiver that releases in order.

use core::time::Duration;
use std::collections::BTreeMap;

use sangam_model::Time;
use sangam_route::method::{Arrival, Costs, Feedback, Probe, Report, Settings};
use sangam_route::{Method, Paths, Router};

/// Packets are so far apart.
const EVERY: Duration = Duration::from_millis(10);
/// What a lost packet is known by, after it was sent.
const MISSED: Duration = Duration::from_millis(600);
/// Each link is probed so often.
const PROBE_EVERY: Duration = Duration::from_millis(500);

/// One-way delay of a link in microseconds, none if it loses what is sent now.
pub(crate) type Delays = fn(link: u16, now: Time) -> Option<i64>;

pub(crate) struct World {
    pub(crate) router: Router,
    delays: Delays,
    events: BTreeMap<(Time, u64), Event>,
    count: u64,
    pub(crate) now: Time,
    last_release: Time,
    /// What the sender hears of its packets and probes.
    pub(crate) news: News,
    /// Of every packet that arrived, in milliseconds.
    pub(crate) transits: Vec<f64>,
    pub(crate) taken: BTreeMap<u16, u64>,
}

enum Event {
    Feedback(Feedback),
    Probe(Probe),
}

/// What reaches the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// All reports and answers.
    All,
    /// None, and nobody tells the router so.
    None,
    /// None; whoever drives the router takes all that is unanswered for lost.
    Lost,
    /// All but what crosses this link, there or back.
    AllBut(u16),
}

pub(crate) fn settings() -> Settings {
    Settings {
        seed: 1,
        ..Settings::default()
    }
}

impl World {
    pub(crate) fn new(method: Method, settings: &Settings, delays: Delays) -> Self {
        Self {
            router: Router::new(method, Paths::overlay(4), settings),
            delays,
            events: BTreeMap::new(),
            count: 0,
            now: Time::ZERO,
            last_release: Time::ZERO,
            news: News::All,
            transits: Vec::new(),
            taken: BTreeMap::new(),
        }
    }

    fn delay(&self, path: u16) -> Option<i64> {
        let links = self.router.paths().get(usize::from(path))?.links();
        links
            .iter()
            .map(|link| (self.delays)(*link, self.now))
            .sum()
    }

    fn plan(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    /// Sends packets for so many seconds.
    pub(crate) fn run(&mut self, seconds: u64) -> &mut Self {
        for _ in 0..seconds * 100 {
            self.now += EVERY;
            self.hear();
            self.probe();
            let truths: Vec<_> = (0..17).map(|path| self.delay(path)).collect();
            let choice = self
                .router
                .choose(self.now, |path| truths[usize::from(path)]);
            *self.taken.entry(choice.path).or_default() += 1;
            let copies = [Some(choice.path), choice.duplicate];
            let arrivals: Vec<i64> = copies
                .into_iter()
                .flatten()
                .filter_map(|path| self.send(path))
                .collect();
            if let Some(transit_us) = arrivals.into_iter().min() {
                self.transits.push(transit_us as f64 / 1e3);
            }
        }
        self
    }

    fn hear(&mut self) {
        while let Some(((at, _), _)) = self.events.first_key_value() {
            if *at > self.now {
                return;
            }
            let event = self.events.pop_first().map(|(_, event)| event);
            match event.and_then(|event| self.reaching(event)) {
                Some(Event::Feedback(feedback)) => self.router.feedback(self.now, &feedback),
                Some(Event::Probe(probe)) => self.router.probe(self.now, &probe),
                None => {}
            }
        }
    }

    /// What is left of an event on its way to the sender.
    fn reaching(&self, event: Event) -> Option<Event> {
        match (self.news, event) {
            (News::None, _) => None,
            (News::AllBut(link), Event::Probe(probe)) if probe.link == link => None,
            (News::AllBut(link), Event::Feedback(feedback)) => {
                let path = self.router.paths().get(usize::from(feedback.path))?;
                (!path.links().contains(&link)).then_some(Event::Feedback(feedback))
            }
            (News::Lost, Event::Probe(probe)) => Some(Event::Probe(Probe {
                delay_us: None,
                ..probe
            })),
            (News::Lost, Event::Feedback(feedback)) => match feedback.report {
                // One report for each packet: that it was released is the second.
                Report::Released { .. } => None,
                Report::Arrived(_) | Report::Lost => Some(Event::Feedback(Feedback {
                    report: Report::Lost,
                    ..feedback
                })),
            },
            (News::All | News::AllBut(_), event) => Some(event),
        }
    }

    fn probe(&mut self) {
        let every = PROBE_EVERY.as_micros() as u64;
        if !self.now.as_micros().is_multiple_of(every) {
            return;
        }
        for link in 0..self.router.paths().links() as u16 {
            let delay_us = (self.delays)(link, self.now);
            let round = delay_us.map_or(MISSED, |us| Duration::from_micros(2 * us as u64));
            let sent = self.now;
            self.plan(
                sent + round,
                Event::Probe(Probe {
                    link,
                    sent,
                    delay_us,
                }),
            );
        }
    }

    fn send(&mut self, path: u16) -> Option<i64> {
        let sent = self.now;
        let Some(transit_us) = self.delay(path) else {
            let report = Report::Lost;
            self.plan(
                sent + MISSED,
                Event::Feedback(Feedback { path, sent, report }),
            );
            return None;
        };
        let back = Duration::from_micros(transit_us as u64);
        let arrived = sent + back;
        self.last_release = self.last_release.max(arrived);
        let released = self.last_release;
        let arrival = Arrival {
            transit_us,
            jitter_us: 0,
            lag_us: 10_000,
        };
        let report = Report::Arrived(arrival);
        self.plan(
            arrived + back,
            Event::Feedback(Feedback { path, sent, report }),
        );
        let report = Report::Released {
            arrival,
            end_to_end_us: (released - sent).as_micros() as i64,
        };
        self.plan(
            released + back,
            Event::Feedback(Feedback { path, sent, report }),
        );
        Some(transit_us)
    }

    /// Mean transit of all packets since the last call.
    pub(crate) fn mean_ms(&mut self) -> f64 {
        let mean = self.transits.iter().sum::<f64>() / self.transits.len().max(1) as f64;
        self.transits.clear();
        mean
    }

    pub(crate) fn costs(&self) -> &Costs {
        self.router.costs()
    }
}

/// A number in `-1.0..1.0` that link and time decide.
pub(crate) fn noise(link: u16, now: Time) -> f64 {
    let mixed = sangam_model::hash::fold(u64::from(link) << 48 | now.as_micros(), 0x1234_5678);
    (mixed >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}
