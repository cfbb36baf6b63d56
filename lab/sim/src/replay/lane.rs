//! One method in one session: it sends, hears what became of it, and feeds its receivers.

use core::cmp::Ordering;
use core::time::Duration;

use sangam_jitter::{Config, Input, Kind, Output, Packet, Receiver};
use sangam_model::Time;
use sangam_route::method::{Arrival, Feedback, Probe, Report};
use sangam_route::predictor::{Sample, State};
use sangam_route::{Method, Paths, Router};

use super::roster::Entry;
use super::tally::{Span, Tally, age};
use super::wheel::{Timed, Wheel};
use super::{Costs, Sent, Stream};
use crate::trace::{Columns, LOST, STEP};

/// When the sender takes a packet for lost of which it hears nothing.
const LOST_AFTER: Duration = Duration::from_secs(2);
/// Packets of which is remembered how they arrived: more than can be under way.
const REMEMBERED: usize = 8_192;

/// A packet that came, and when.
pub(super) type Arrived = (Time, u64);

/// A method at work.
#[derive(Debug)]
pub(super) struct Lane {
    router: Router,
    hears_packets: bool,
    hears_probes: bool,
    /// The receiver whose reports the sender gets.
    sight: Receiver,
    remembered: Vec<Remembered>,
    flights: Wheel<Flight>,
    news: Wheel<News>,
    told: u64,
    /// Since the receivers last took them, in order.
    arrivals: Vec<Arrived>,
    span: Span,
    pub(super) sent: Vec<Sent>,
    pub(super) spent_ns: u64,
    watch: Option<Watch>,
}

/// A packet: what was known of its path when it left, how it fared, and its latency.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Watched {
    /// What the sender had last heard of the path.
    pub known: State,
    /// How the packet fared.
    pub sample: Sample,
}

/// What is kept of packets for predictors to be judged by.
#[derive(Debug)]
struct Watch {
    /// Of each path, the last that was heard.
    latest: Vec<Option<State>>,
    /// What was known when a packet left, by its number around a ring.
    known: Vec<Option<State>>,
    packets: Vec<Watched>,
}

/// A copy of a packet under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    arrives_us: u64,
    seq: u64,
    path: u16,
}

/// How a packet arrived.
#[derive(Clone, Copy, Debug, Default)]
struct Remembered {
    seq: u64,
    path: u16,
    arrival: Arrival,
}

/// What the sender will know at a moment.
#[derive(Clone, Copy, Debug)]
struct News {
    due: Time,
    number: u64,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Packet(Feedback),
    Link(Probe),
}

impl Lane {
    pub(super) fn new(entry: &Entry, router: Router, span: Span) -> Self {
        let fixed = [Method::Direct, Method::BestStatic, Method::Oracle];
        Self {
            hears_packets: !fixed.contains(&entry.method),
            hears_probes: entry.method.probes(),
            router,
            sight: Receiver::new(Kind::WmJitter, &Config::default()),
            remembered: vec![Remembered::default(); REMEMBERED],
            flights: Wheel::new(),
            news: Wheel::new(),
            told: 0,
            arrivals: Vec::new(),
            span,
            sent: vec![Sent::default(); span.blocks],
            spent_ns: 0,
            watch: None,
        }
    }

    /// Keeps what predictors can be judged by.
    pub(super) fn watch(&mut self) {
        self.watch = Some(Watch {
            latest: vec![None; self.router.paths().len()],
            known: vec![None; REMEMBERED],
            packets: Vec::new(),
        });
    }

    /// What was kept.
    pub(super) fn watched(&mut self) -> Vec<Watched> {
        self.watch
            .take()
            .map_or_else(Vec::new, |watch| watch.packets)
    }

    /// Sends the packet of a moment, after everything that is known by then.
    pub(super) fn send(&mut self, seq: u64, delays: &[u32]) {
        let now = departure(seq);
        self.flights.advance(seq);
        self.land(true);
        self.hear(seq);
        let truth = |path: u16| match delays[usize::from(path)] {
            LOST => None,
            delay => Some(i64::from(delay)),
        };
        let choice = self.router.choose(now, truth);
        if let Some(watch) = &mut self.watch {
            watch.known[seq as usize % REMEMBERED] = watch.latest[usize::from(choice.path)];
        }
        let copies = [Some(choice.path), choice.duplicate];
        let mut fastest = LOST;
        for path in copies.into_iter().flatten() {
            let delay = delays[usize::from(path)];
            fastest = fastest.min(delay);
            if delay == LOST {
                let report = Report::Lost;
                self.tell(
                    now + LOST_AFTER,
                    What::Packet(Feedback {
                        path,
                        sent: now,
                        report,
                    }),
                );
                continue;
            }
            self.flights.push(Flight {
                arrives_us: now.as_micros() + u64::from(delay),
                seq,
                path,
            });
        }
        if fastest != LOST
            && let Some(place) = self.span.place(seq)
        {
            self.sent[place].packets += 1;
            self.sent[place].transit_us += u64::from(fastest);
        }
    }

    /// Sends probes along links; the answers take the same time back.
    pub(super) fn probe(&mut self, seq: u64, links: &[u16], columns: &Columns, row: usize) {
        if !self.hears_probes {
            return;
        }
        let sent = departure(seq);
        for link in links {
            let delay = columns.link(usize::from(*link))[row];
            let (due, delay_us) = match delay {
                LOST => (sent + LOST_AFTER, None),
                us => (
                    sent + Duration::from_micros(2 * u64::from(us)),
                    Some(i64::from(us)),
                ),
            };
            let link = *link;
            self.tell(
                due,
                What::Link(Probe {
                    link,
                    sent,
                    delay_us,
                }),
            );
        }
    }

    /// What has arrived since it was last taken, in order.
    pub(super) fn arrived(&self) -> &[Arrived] {
        &self.arrivals
    }

    /// Forgets that: receivers have it.
    pub(super) fn clear(&mut self) {
        self.arrivals.clear();
    }

    /// Lets everything arrive that was sent.
    pub(super) fn end(&mut self) {
        self.flights.end();
        self.land(false);
    }

    /// What it cost, with what receivers made of it.
    pub(super) fn finish(self, tallies: Vec<Tally>) -> Stream {
        Stream {
            tallies,
            costs: Costs::of(self.router.costs(), self.spent_ns),
            sent: self.sent,
        }
    }

    /// Lets packets arrive that are due; the sender hears of them if it is still there.
    fn land(&mut self, reports: bool) {
        while let Some(flight) = self.flights.pop() {
            let at = Time::from_micros(flight.arrives_us);
            self.arrivals.push((at, flight.seq));
            if self.hears_packets && reports {
                self.see(flight, at);
            }
        }
    }

    /// The receiver reports a packet, and what that let go. Reports take as long as the packet.
    fn see(&mut self, flight: Flight, at: Time) {
        let Flight { seq, path, .. } = flight;
        let sent = departure(seq);
        self.sight.handle(at, Input::Packet(Packet { seq, sent }));
        let (jitter, lag) = self.sight.estimate().unwrap_or_default();
        let transit = at - sent;
        let arrival = Arrival {
            transit_us: transit.as_micros() as i64,
            jitter_us: jitter.as_micros() as i64,
            lag_us: lag.as_micros() as i64,
        };
        let report = Report::Arrived(arrival);
        self.tell(at + transit, What::Packet(Feedback { path, sent, report }));
        let slot = &mut self.remembered[seq as usize % REMEMBERED];
        if slot.seq != seq || slot.arrival == Arrival::default() {
            *slot = Remembered { seq, path, arrival };
        }
        while let Some(output) = self.sight.poll() {
            if let Output::Release { seq, at } = output {
                self.released(seq, at);
            }
        }
    }

    fn released(&mut self, seq: u64, at: Time) {
        let Remembered {
            seq: known,
            path,
            arrival,
        } = self.remembered[seq as usize % REMEMBERED];
        if known != seq {
            return;
        }
        if let Some(watch) = &mut self.watch
            && let Some(known) = watch.known[seq as usize % REMEMBERED]
        {
            let end_to_end_ms = age(seq, at) as f32 / 1e3;
            let state = state(&arrival);
            watch.packets.push(Watched {
                known,
                sample: Sample {
                    state,
                    end_to_end_ms,
                },
            });
        }
        let report = Report::Released {
            arrival,
            end_to_end_us: age(seq, at) as i64,
        };
        let sent = departure(seq);
        let due = at + Duration::from_micros(arrival.transit_us.unsigned_abs());
        self.tell(due, What::Packet(Feedback { path, sent, report }));
    }

    fn tell(&mut self, due: Time, what: What) {
        if !self.hears_packets {
            return;
        }
        self.told += 1;
        let number = self.told;
        self.news.push(News { due, number, what });
    }

    /// Tells the router what is known when a packet leaves.
    fn hear(&mut self, seq: u64) {
        self.news.advance(seq);
        while let Some(news) = self.news.pop() {
            match news.what {
                What::Packet(feedback) => {
                    if let (Some(watch), Report::Arrived(arrival)) =
                        (&mut self.watch, &feedback.report)
                    {
                        watch.latest[usize::from(feedback.path)] = Some(state(arrival));
                    }
                    self.router.feedback(news.due, &feedback);
                }
                What::Link(probe) => self.router.probe(news.due, &probe),
            }
        }
    }
}

fn state(arrival: &Arrival) -> State {
    let ms = |us: i64| us as f32 / 1e3;
    State {
        transit_ms: ms(arrival.transit_us),
        jitter_ms: ms(arrival.jitter_us),
        lag_ms: ms(arrival.lag_us),
    }
}

pub(super) fn departure(seq: u64) -> Time {
    Time::from_micros(seq * STEP.as_micros() as u64)
}

impl Timed for Flight {
    fn due_us(&self) -> u64 {
        self.arrives_us
    }
}

impl Timed for News {
    fn due_us(&self) -> u64 {
        self.due.as_micros()
    }
}

impl Ord for News {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl PartialOrd for News {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for News {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for News {}

/// The paths of a session, as core/route numbers them.
pub(super) fn paths(parallel: bool, links: usize, relays: usize) -> Paths {
    if parallel {
        Paths::parallel(links)
    } else {
        Paths::overlay(relays)
    }
}
