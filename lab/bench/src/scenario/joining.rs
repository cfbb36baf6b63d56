//! Who joins when: measured receivers stand where the plan wants them in the order.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sangam_model::{Filter, Topic};

use super::POLL;
use super::outcome::Heard;
use super::plan::{Plan, Probe};
use super::world::{Venue, World};
use crate::args::Receivers;
use crate::crowd::{Home, Listener, Published, Purpose, Spec};
use crate::error::Error;
use crate::machine;
use crate::measure::Window;
use crate::process::Broker;

/// A join takes a round trip or three; this is for a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(30);
/// And for each participant besides.
const PATIENCE_EACH: Duration = Duration::from_millis(5);

/// How long to look whether brokers repeat something: they repeat what nobody acknowledged at
/// least every 2 s.
const REPEATED_WITHIN: Duration = Duration::from_millis(2_500);

/// All receiving participants.
pub(super) struct Crowd {
    /// Passive ones.
    pub(super) passive: Vec<Listener>,
    /// Measured ones.
    pub(super) probes: Listener,
    /// Where everybody is.
    places: Vec<Venue>,
    /// Whose the measured ones are, in the order they joined.
    seats: Vec<(usize, Probe)>,
}

impl Crowd {
    /// Threads without participants.
    ///
    /// # Errors
    /// [`Error::System`] if a socket cannot be opened.
    pub(super) fn new(world: &World, window: Arc<Window>) -> Result<Self, Error> {
        let homes = world.homes();
        // As many as cores, unless there are more places than that.
        let each = (machine::cores() / homes.len().max(1)).max(1);
        let regions = |site| {
            let regions = 0..each.min(Home::listeners_max(site)) as u32;
            regions.map(move |region| Home::new(region, site))
        };
        let passive = homes.into_iter().flat_map(regions).map(Listener::passive);
        Ok(Self {
            passive: passive.collect::<Result<_, _>>()?,
            probes: Listener::measured(window)?,
            places: world.places.clone(),
            seats: Vec::new(),
        })
    }

    /// Lets everybody join in the plan's order.
    ///
    /// # Errors
    /// [`Error::Join`] if somebody is refused or does not get in.
    pub(super) fn join(&mut self, plan: &Plan, brokers: &[Broker]) -> Result<(), Error> {
        let mut behind = 0.0;
        for share in shares(plan) {
            self.join_passive(plan, brokers, (behind, share));
            self.wait_ready()?;
            self.join_probes(plan, brokers, share);
            self.wait_ready()?;
            behind = share;
        }
        self.join_passive(plan, brokers, (behind, 1.0));
        self.wait_ready()
    }

    /// Waits until everybody was told of the stream he is to receive.
    ///
    /// # Errors
    /// [`Error::Join`] if somebody is not.
    pub(super) fn wait_announced(&self, plan: &Plan) -> Result<(), Error> {
        let all = || self.passive.iter().chain([&self.probes]);
        // Each one is asked, so that all counts are brought up to date.
        let told = || all().filter(|listener| !listener.is_announced()).count() == 0;
        wait(
            "participants told of their stream",
            plan.participants(),
            told,
        )
    }

    /// From now on passive participants do what the plan says.
    ///
    /// # Errors
    /// [`Error::Join`] if a broker goes on repeating what somebody does not acknowledge.
    pub(super) fn settle(&self, plan: &Plan) -> Result<(), Error> {
        if plan.receivers == Receivers::Sink {
            // Who is deaf cannot acknowledge, and a broker lets go of who does not for 10 s.
            self.wait_acknowledged(plan)?;
            self.passive.iter().for_each(Listener::deafen);
        }
        Ok(())
    }

    fn wait_acknowledged(&self, plan: &Plan) -> Result<(), Error> {
        let controls = |listener: &Listener| count(&listener.tally.controls);
        let told = Cell::new((0, Instant::now()));
        wait("participants left in peace", plan.participants(), || {
            let now = self.passive.iter().map(controls).sum();
            let (before, since) = told.get();
            if now != before {
                told.set((now, Instant::now()));
            }
            now == before && since.elapsed() >= REPEATED_WITHIN
        })
    }

    /// Ends all threads and tells what was heard.
    ///
    /// # Errors
    /// What ended a thread earlier.
    pub(super) fn finish(self, published: &Published, plan: &Plan) -> Result<Heard, Error> {
        let mut heard = Heard::new(published.behind_max);
        for listener in self.passive {
            heard.overflow += count(&listener.tally.overflow);
            let tally = Arc::clone(&listener.tally);
            listener.finish()?;
            heard.deaths += count(&tally.deaths);
        }
        for (meeting, packets) in plan.meetings.iter().zip(&published.packets) {
            let passive: usize = (0..meeting.users.len())
                .map(|at| meeting.passive_at(at))
                .sum();
            heard.due += packets * meeting.users.iter().sum::<usize>() as u64;
            heard.due_to_passive += packets * passive as u64;
        }
        let receptions = self.probes.finish()?;
        for ((meeting, probe), reception) in self.seats.into_iter().zip(receptions) {
            let expected = published
                .in_window
                .get(meeting)
                .copied()
                .unwrap_or_default();
            heard.add(probe, (reception, expected));
        }
        Ok(heard)
    }

    fn join_passive(&mut self, plan: &Plan, brokers: &[Broker], (behind, share): (f64, f64)) {
        let mut batches: Vec<Vec<Spec>> = self.passive.iter().map(|_| Vec::new()).collect();
        let mut next = 0;
        for (number, meeting) in plan.meetings.iter().enumerate() {
            for (at, place) in self.places.iter().enumerate() {
                let here = self.listeners_at(place);
                let all = meeting.passive_at(at) as f64;
                let from = (all * behind) as usize;
                for _ in from..(all * share) as usize {
                    batches[here[next % here.len()]].push(listen(brokers, place, number));
                    next += 1;
                }
            }
        }
        for (listener, batch) in self.passive.iter_mut().zip(batches) {
            listener.add(batch);
        }
    }

    /// The threads of passive participants that live in a place.
    fn listeners_at(&self, place: &Venue) -> Vec<usize> {
        let all = self.passive.iter().enumerate();
        all.filter(|(_, listener)| listener.home.is_at(place.site.as_ref()))
            .map(|(number, _)| number)
            .collect()
    }

    fn join_probes(&mut self, plan: &Plan, brokers: &[Broker], share: f64) {
        let mut batch = Vec::new();
        for (number, meeting) in plan.meetings.iter().enumerate() {
            for probe in meeting
                .probes
                .iter()
                .filter(|probe| probe.place.share() == share)
            {
                batch.push(listen(brokers, &self.places[probe.broker], number));
                self.seats.push((number, *probe));
            }
        }
        self.probes.add(batch);
    }

    fn wait_ready(&self) -> Result<(), Error> {
        let all = || self.passive.iter().chain([&self.probes]);
        let expected: u64 = all().map(|listener| listener.expected).sum();
        wait("participants joined", expected as usize, || {
            all().all(Listener::is_ready)
        })
        .map_err(|error| {
            let refused: u64 = all().map(|listener| count(&listener.tally.refused)).sum();
            let ready: u64 = all().map(|listener| count(&listener.tally.ready)).sum();
            Error::Join(format!(
                "{error}; {ready} joined and {refused} were refused"
            ))
        })
    }
}

/// The publishers of all meetings.
pub(super) fn publishers(plan: &Plan, world: &World, brokers: &[Broker]) -> Vec<Spec> {
    let spec = |(number, meeting): (usize, &super::Meeting)| {
        let place = &world.places[meeting.publisher];
        Spec {
            broker: brokers[place.broker].udp,
            purpose: Purpose::Publish(topic(number), plan.media.info()),
            site: place.site.clone(),
        }
    };
    plan.meetings.iter().enumerate().map(spec).collect()
}

/// Waits until something holds, with patience for so many participants.
///
/// # Errors
/// [`Error::Join`] if it does not come to hold.
pub(crate) fn wait(who: &str, count: usize, done: impl Fn() -> bool) -> Result<(), Error> {
    let patience = PATIENCE + PATIENCE_EACH * count as u32;
    let begun = Instant::now();
    while !done() {
        if begun.elapsed() > patience {
            let seconds = patience.as_secs();
            return Err(Error::Join(format!(
                "not all {count} {who} within {seconds} s"
            )));
        }
        thread::sleep(POLL);
    }
    Ok(())
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// The places of measured receivers, in order, each once.
fn shares(plan: &Plan) -> Vec<f64> {
    let probes = plan.meetings.iter().flat_map(|meeting| &meeting.probes);
    let mut shares: Vec<f64> = probes.map(|probe| probe.place.share()).collect();
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    shares
}

fn listen(brokers: &[Broker], place: &Venue, meeting: usize) -> Spec {
    Spec {
        broker: brokers[place.broker].udp,
        purpose: Purpose::Listen(filter(meeting)),
        site: place.site.clone(),
    }
}

fn name(meeting: usize) -> String {
    format!("bench/meeting-{meeting}/media")
}

fn topic(meeting: usize) -> Topic {
    Topic::new(&name(meeting)).unwrap_or_else(|_| unreachable!("a plain name is a topic"))
}

fn filter(meeting: usize) -> Filter {
    Filter::new(&name(meeting)).unwrap_or_else(|_| unreachable!("a plain name is a filter"))
}
