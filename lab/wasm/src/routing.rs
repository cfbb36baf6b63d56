//! Which path each packet takes: by chance, or by one of core/route's methods, which hear what
//! became of packets as late as a sender does.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use sangam_jitter::{Config, Input, Kind, Packet, Receiver};
use sangam_model::Time;
use sangam_route::method::{Feedback, Probe, Report, Settings};
use sangam_route::{Method, Paths, Router};

use crate::network::{Arrival, Network, SPACING_US};

/// The methods of the page, in its order; none: each packet takes a path by chance.
pub const METHODS: [Option<Method>; 5] = [
    None,
    Some(Method::Direct),
    Some(Method::Via),
    Some(Method::VcRoute),
    Some(Method::Ours),
];

/// Packets from one round of probes to the next: two a second.
const PROBE_EVERY: u64 = 50;
/// When a sender takes a packet for lost.
const LOST_US: u64 = 2_000_000;

/// A sender that follows a method, and what is on its way to it.
pub(crate) struct Sender {
    router: Router,
    /// The receiver whose reports the sender gets.
    sight: Receiver,
    /// Packets that have not arrived: when they will, and by which path.
    flights: BinaryHeap<Reverse<(u64, u64, u16)>>,
    /// What the sender will hear, and when.
    news: BinaryHeap<Reverse<(u64, u64)>>,
    told: Vec<News>,
}

#[derive(Clone, Copy)]
enum News {
    Packet(Feedback),
    Link(Probe),
}

impl Sender {
    pub(crate) fn new(method: Method, paths: u32, seed: u64) -> Self {
        let settings = Settings {
            seed,
            ..Settings::default()
        };
        Self {
            router: Router::new(method, Paths::parallel(paths as usize), &settings),
            sight: Receiver::new(Kind::WmJitter, &Config::default()),
            flights: BinaryHeap::new(),
            news: BinaryHeap::new(),
            told: Vec::new(),
        }
    }

    /// Sends a packet of which is known what it would meet on each path, in microseconds, none
    /// where it is lost; when it arrives, if it does. A copy on a second path may be sooner.
    pub(crate) fn send(&mut self, seq: u64, delays_us: &[Option<u64>]) -> Option<Arrival> {
        let now_us = seq * SPACING_US;
        self.land(now_us);
        self.hear(now_us);
        if seq.is_multiple_of(PROBE_EVERY) {
            for (link, delay_us) in (0..).zip(delays_us) {
                let probe = Probe {
                    link,
                    sent: Time::from_micros(now_us),
                    delay_us: delay_us.map(|us| us as i64),
                };
                let due_us = now_us + delay_us.map_or(LOST_US, |us| 2 * us);
                self.tell(due_us, News::Link(probe));
            }
        }
        let truth = |path: u16| Some((*delays_us.get(usize::from(path))?)? as i64);
        let choice = self.router.choose(Time::from_micros(now_us), truth);
        let copies = [Some(choice.path), choice.duplicate];
        let mut at_us = None;
        for path in copies.into_iter().flatten() {
            match delays_us.get(usize::from(path)).copied().flatten() {
                Some(delay_us) => {
                    let arrives_us = now_us + delay_us;
                    self.flights.push(Reverse((arrives_us, seq, path)));
                    at_us = Some(at_us.map_or(arrives_us, |at: u64| at.min(arrives_us)));
                }
                None => {
                    let lost = feedback(path, now_us, Report::Lost);
                    self.tell(now_us + LOST_US, News::Packet(lost));
                }
            }
        }
        at_us.map(|at_us| Arrival { at_us, seq })
    }

    /// Packets that have arrived are reported, which takes as long as they took.
    fn land(&mut self, now_us: u64) {
        while let Some(Reverse((at_us, seq, path))) = self.flights.peek().copied()
            && at_us <= now_us
        {
            self.flights.pop();
            let sent_us = seq * SPACING_US;
            let packet = Packet {
                seq,
                sent: Time::from_micros(sent_us),
            };
            self.sight
                .handle(Time::from_micros(at_us), Input::Packet(packet));
            let (jitter, lag) = self.sight.estimate().unwrap_or_default();
            while self.sight.poll().is_some() {}
            let transit_us = at_us - sent_us;
            let arrived = Report::Arrived(sangam_route::method::Arrival {
                transit_us: transit_us as i64,
                jitter_us: jitter.as_micros() as i64,
                lag_us: lag.as_micros() as i64,
            });
            let told = feedback(path, sent_us, arrived);
            self.tell(at_us + transit_us, News::Packet(told));
        }
    }

    fn tell(&mut self, due_us: u64, news: News) {
        self.news.push(Reverse((due_us, self.told.len() as u64)));
        self.told.push(news);
    }

    fn hear(&mut self, now_us: u64) {
        while let Some(Reverse((due_us, number))) = self.news.peek().copied()
            && due_us <= now_us
        {
            self.news.pop();
            let now = Time::from_micros(due_us);
            match self.told[number as usize] {
                News::Packet(feedback) => self.router.feedback(now, &feedback),
                News::Link(probe) => self.router.probe(now, &probe),
            }
        }
    }
}

fn feedback(path: u16, sent_us: u64, report: Report) -> Feedback {
    Feedback {
        path,
        sent: Time::from_micros(sent_us),
        report,
    }
}

impl Network {
    /// What arrives where a method chooses, in order of time.
    pub(crate) fn routed(&self, method: Method) -> Vec<Arrival> {
        let mut sender = Sender::new(method, self.paths(), self.seed);
        let mut arrivals = Vec::new();
        for (seq, delays_us) in (0..).zip(self.delays()) {
            arrivals.extend(sender.send(seq, &delays_us));
        }
        arrivals.sort_unstable();
        arrivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_ms(network: &Network) -> f64 {
        let arrivals = network.arrivals();
        let delays = arrivals.iter().map(|it| it.at_us - it.seq * SPACING_US);
        delays.sum::<u64>() as f64 / arrivals.len() as f64 / 1e3
    }

    #[test]
    fn a_method_avoids_the_path_that_is_congested() {
        let network = |method| Network {
            seed: 3,
            jitter_ms: 5.0,
            loss: 0.0,
            paths: 3,
            packets: 3_000,
            congestion_ms: 200.0,
            method,
        };
        let [chance, direct, ours] = [0, 1, 4].map(|method| mean_ms(&network(method)));
        assert!(ours < 0.8 * direct, "{ours} against {direct} ms direct");
        assert!(ours < 0.8 * chance, "{ours} against {chance} ms by chance");
        let vcroute = mean_ms(&network(3));
        assert!(vcroute < chance, "{vcroute} against {chance} ms by chance");
    }
}
