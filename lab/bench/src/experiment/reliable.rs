//! `reliable`: a million events of a reliable topic over three brokers, while links are cut and
//! the broker between is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sangam_client::{Client, ClientOptions, Received, ReliableError, ReliableEvent, Target};
use sangam_emulator::{Emulator, Quality, Site, State};
use sangam_model::Topic;

use super::Reports;
use crate::args::Options;
use crate::error::Error;
use crate::process::{Broker, Carrier, Queuing};
use crate::progress::Progress;
use crate::report::{Bound, Report, Row};
use crate::scenario::{self, Folder, Stand, World};

const EVENTS: f64 = 1_000_000.0;
/// Between two brokers, one way.
const DELAY: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(10);
/// How long nothing may come before the run is given up.
const STALL: Duration = Duration::from_secs(60);
const TURN: Duration = Duration::from_millis(5);
const SEED: u64 = 1_000_000;
/// Failures last so long, and come so long after the last one, at random.
const OUTAGE_MS: (u64, u64) = (200, 1_500);
const PAUSE_MS: (u64, u64) = (500, 3_000);

/// What the subscriber has seen.
#[derive(Debug, Default)]
struct Seen {
    last: AtomicU64,
    received: AtomicU64,
    /// Events that came again or behind a later one.
    disordered: AtomicU64,
    /// Events that were left out.
    missing: AtomicU64,
    gaps: AtomicU64,
    /// How often the publisher had to wait.
    full: AtomicU64,
    over: AtomicBool,
}

/// What was done to the network.
#[derive(Debug, Default)]
struct Done {
    cuts: u64,
    kills: u64,
    longest: Duration,
}

/// What links go by, a run each.
const CARRIERS: [Carrier; 2] = [Carrier::Udp, Carrier::Quic];

/// Publishes at one end of a chain and listens at the other.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let events = (EVENTS * options.scale).max(1.0) as u64;
    let title = "Reliable events over three brokers, links cut and the broker between killed";
    let mut report = Report::new("reliable", title);
    let mut progress = Progress::new(CARRIERS.len());
    for carrier in CARRIERS {
        progress.at(&format!("{events} events by {}", carrier.name()));
        measure(&mut report, carrier, events)?;
        progress.step();
    }
    report.notes.push(
        "One publisher at the first broker, one subscriber at the last, events of 32 bytes as fast \
         as the network takes them. `disordered`: came twice, or behind a later one. Pauses \
         include the outages, of 0.2 to 1.5 s each. Brokers keep of a topic what they keep unless \
         told (8 MiB): a publisher waits for a broker that is cut off, and `held_back` counts how \
         often it was told to."
            .to_owned(),
    );
    Ok(vec![("reliable".to_owned(), report)])
}

fn measure(report: &mut Report, carrier: Carrier, events: u64) -> Result<(), Error> {
    let network = Emulator::new(&["first", "between", "last"], SEED).map_err(Error::Network)?;
    for (a, b) in [(0, 1), (1, 2)] {
        let set = network.control().set_both(a, b, &Quality::delayed(DELAY));
        set.map_err(Error::Network)?;
    }
    let folder = Folder::new()?;
    let world = world(&network, carrier);
    let mut brokers = scenario::start(&world, (1, Queuing::Double), &folder)?;
    let seen = Arc::new(Seen::default());
    let begun = Instant::now();
    let listener = listen((&network.sites()[2], &brokers[2]), events, &seen)?;
    let publisher = publish((&network.sites()[0], &brokers[0]), events, &seen)?;
    let done = disturb(&network, &mut brokers[1], (events, &seen))?;
    let took = begun.elapsed();
    seen.over.store(true, Ordering::Relaxed);
    let unheld = publisher.join().unwrap_or(u64::MAX);
    if listener.join().is_err() {
        return Err(Error::Join("the subscriber's thread panicked".to_owned()));
    }
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let lost = events.saturating_sub(of(&seen.last)) + of(&seen.missing);
    let row = Row::default()
        .with("transport", carrier.name())
        .with("events", events)
        .with("received", of(&seen.received))
        .with("lost", lost)
        .with("disordered", of(&seen.disordered))
        .with("gaps_told", of(&seen.gaps))
        .with("held_back", of(&seen.full))
        .with("cuts", done.cuts)
        .with("kills", done.kills)
        .with("seconds", took.as_secs_f64())
        .with("events_per_s", events as f64 / took.as_secs_f64())
        .with("longest_pause_ms", done.longest.as_secs_f64() * 1e3);
    report.ours.push(row);
    let checks = [
        ("lost", lost),
        ("disordered", of(&seen.disordered)),
        ("not held in the end", unheld),
    ];
    for (name, value) in checks {
        let name = format!("{name}, links by {}", carrier.name());
        report.verdict.check(name, value as f64, Bound::AtMost(0.0));
    }
    Ok(())
}

fn world(network: &Emulator, carrier: Carrier) -> World {
    let stand = |number: usize| Stand {
        site: network.sites().get(number).cloned(),
        dials: number.checked_sub(1).into_iter().collect(),
    };
    World {
        brokers: [0, 1, 2].map(stand).into(),
        places: Vec::new(),
        paths: Some(network.control().clone()),
        carrier,
    }
}

/// Cuts links and kills the broker between, at random, until everything has come.
fn disturb(
    network: &Emulator,
    between: &mut Broker,
    (events, seen): (u64, &Seen),
) -> Result<Done, Error> {
    let mut done = Done::default();
    let mut random = SEED;
    let mut within = |(least, most): (u64, u64)| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        least + random % (most - least)
    };
    let mut watch = Watch::default();
    while watch.until(within(PAUSE_MS), (events, seen), &mut done)? {
        let outage = within(OUTAGE_MS);
        match within((0, 3)) {
            0 => {
                between.kill()?;
                done.kills += 1;
                watch.until(outage, (events, seen), &mut done)?;
                between.restart()?;
            }
            link => {
                let link = link as usize;
                let set = |state| {
                    let set = network.control().set_state(link - 1, link, state);
                    set.map_err(Error::Network)
                };
                set(State::Cut)?;
                done.cuts += 1;
                watch.until(outage, (events, seen), &mut done)?;
                set(State::Open)?;
            }
        }
    }
    Ok(done)
}

/// Since when the subscriber has had what it has.
#[derive(Default)]
struct Watch {
    last: u64,
    since: Option<Instant>,
}

impl Watch {
    /// Waits; whether there is more to come.
    ///
    /// # Errors
    /// Nothing has come for a minute.
    fn until(
        &mut self,
        millis: u64,
        (events, seen): (u64, &Seen),
        done: &mut Done,
    ) -> Result<bool, Error> {
        let end = Instant::now() + Duration::from_millis(millis);
        loop {
            let now = Instant::now();
            let last = seen.last.load(Ordering::Relaxed);
            let since = *self.since.get_or_insert(now);
            done.longest = done.longest.max(now - since);
            if last != self.last {
                (self.last, self.since) = (last, Some(now));
            } else if now - since > STALL {
                return Err(Error::Join(format!("{last} of {events} events came")));
            }
            if last >= events {
                return Ok(false);
            }
            if now >= end {
                return Ok(true);
            }
            thread::sleep(TURN);
        }
    }
}

fn connect((site, broker): (&Site, &Broker)) -> Result<Client, Error> {
    let target = broker.udp;
    let begin = || {
        let client = Client::connect(Target::Udp(target), ClientOptions::default());
        client.map_err(std::io::Error::other)
    };
    let joined = |error: String| Error::Join(error);
    let mut client = site
        .enter(begin)
        .map_err(|error| joined(error.to_string()))?;
    let up = client.wait_up(PATIENCE);
    up.map_err(|error| joined(error.to_string()))?;
    Ok(client)
}

fn topic() -> Result<Topic, Error> {
    Topic::new("bench/reliable/events").map_err(|error| Error::Join(error.to_string()))
}

/// Publishes numbered events; how many records are not held in the end.
fn publish(at: (&Site, &Broker), events: u64, seen: &Arc<Seen>) -> Result<JoinHandle<u64>, Error> {
    let mut client = connect(at)?;
    let publisher = client.publish_reliable(&topic()?);
    let publisher = publisher.map_err(|error| Error::Join(error.to_string()))?;
    let seen = Arc::clone(seen);
    Ok(thread::spawn(move || {
        let mut next = 1_u64;
        let over = || seen.over.load(Ordering::Relaxed);
        while (next <= events || publisher.unheld() > 0) && !over() {
            let mut event = [0; 32];
            event[..8].copy_from_slice(&next.to_be_bytes());
            if next <= events {
                match publisher.send(&event) {
                    Ok(_) => {
                        next += 1;
                        continue;
                    }
                    Err(ReliableError::Full) => {
                        seen.full.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(_) => break,
                }
            }
            client.recv(TURN);
            while client.try_recv().is_some() {}
        }
        let end = Instant::now() + PATIENCE;
        while publisher.unheld() > 0 && Instant::now() < end {
            client.recv(TURN);
        }
        publisher.unheld() as u64
    }))
}

/// Receives until the end, and counts what is wrong.
fn listen(at: (&Site, &Broker), events: u64, seen: &Arc<Seen>) -> Result<JoinHandle<()>, Error> {
    let mut client = connect(at)?;
    let subscribed = client.subscribe_reliable(&topic()?, 0);
    subscribed.map_err(|error| Error::Join(error.to_string()))?;
    let begun = Instant::now();
    // What is published before may not come.
    while !matches!(
        client.recv(TURN),
        Some(Received::Reliable(ReliableEvent::Live(_)))
    ) {
        if begun.elapsed() > PATIENCE {
            return Err(Error::Join("the subscription does not begin".to_owned()));
        }
    }
    let seen = Arc::clone(seen);
    Ok(thread::spawn(move || {
        while !seen.over.load(Ordering::Relaxed) && seen.last.load(Ordering::Relaxed) < events {
            match client.recv(TURN) {
                Some(Received::Reliable(ReliableEvent::Received { payload, .. })) => {
                    let number = payload.first_chunk().copied().map(u64::from_be_bytes);
                    note(&seen, number.unwrap_or(0));
                }
                Some(Received::Reliable(ReliableEvent::Gap { .. })) => {
                    seen.gaps.fetch_add(1, Ordering::Relaxed);
                }
                _ => {}
            }
        }
    }))
}

fn note(seen: &Seen, number: u64) {
    let last = seen.last.load(Ordering::Relaxed);
    seen.received.fetch_add(1, Ordering::Relaxed);
    if number <= last {
        seen.disordered.fetch_add(1, Ordering::Relaxed);
    } else {
        seen.missing.fetch_add(number - last - 1, Ordering::Relaxed);
        seen.last.store(number, Ordering::Relaxed);
    }
}
