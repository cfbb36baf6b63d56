//! What the experiments share: brokers, meetings on them, a load, a window.

mod joining;
mod outcome;
mod plan;
mod traffic;
mod world;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use sangam_io::clock;

use crate::crowd::Publishers;
use crate::error::Error;
use crate::load::Load;
use crate::measure::{LATE, Window};
use crate::process::{Broker, Queuing, Setup, own_cpu, thread_cpu};
use joining::Crowd;
use traffic::Snapshot;

pub(crate) use joining::wait;
pub(crate) use outcome::{Outcome, Seen, Usage};
pub(crate) use plan::{Meeting, Place, Plan, Probe};
pub(crate) use world::{Stand, Venue, World};

/// Time from the first packets to the window: caches, routes and queues settle.
const SETTLE: Duration = Duration::from_secs(1);
/// After the window, until packets on their way are counted.
const RUN_OUT: Duration = Duration::from_secs(1);
/// How long the first packets may take to every measured receiver.
const FIRST_PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);
/// The name of the emulator's thread.
const EMULATOR: &str = "emulator";

/// Starts a chain of brokers on loopback, fills them, publishes, measures, and ends everything
/// again.
///
/// # Errors
/// If a broker does not start or dies, or if participants cannot join.
pub(crate) fn run(plan: &Plan) -> Result<Outcome, Error> {
    run_in(&World::chain(plan.brokers), plan)
}

/// The same with brokers and participants wherever the world has them.
///
/// # Errors
/// As [`run`], and if the emulator ends.
pub(crate) fn run_in(world: &World, plan: &Plan) -> Result<Outcome, Error> {
    let folder = Folder::new()?;
    let brokers = start(world, (plan.shards, plan.queuing), &folder)?;
    let window = Arc::new(Window::new());
    let mut crowd = Crowd::new(world, Arc::clone(&window))?;
    crowd.join(plan, &brokers)?;
    // All meetings are published in the place of the first.
    let stage = plan
        .meetings
        .first()
        .and_then(|meeting| world.places.get(meeting.publisher));
    let stage = stage.and_then(|place| place.site.as_ref());
    let mut publishers = Publishers::new(Arc::clone(&window), stage)?;
    publishers.add(joining::publishers(plan, world, &brokers));
    joining::wait("publishers joined", plan.meetings.len(), || {
        publishers.is_ready()
    })?;

    let load = Arc::new(Load::of(plan.media));
    publishers.begin(Arc::clone(&load));
    wait_for_first_packets(&crowd)?;
    publishers.pause();
    crowd.wait_announced(plan)?;
    thread::sleep(LATE);
    crowd.settle(plan)?;
    thread::sleep(LATE);

    // From here on every packet is accounted for.
    let before = Snapshot::take(&brokers, &crowd, &publishers)?;
    publishers.begin(load);
    thread::sleep(SETTLE);
    let spent = measure(plan, (world, &brokers), &window)?;
    thread::sleep(LATE + RUN_OUT);
    publishers.pause();
    thread::sleep(LATE);
    let after = Snapshot::take(&brokers, &crowd, &publishers)?;
    let published = publishers.finish()?;
    let heard = crowd.finish(&published, plan)?;
    Ok(Outcome::new(spent, after.since(&before), heard))
}

/// What brokers and generator had used at a moment.
struct Reading {
    at: Instant,
    brokers: Vec<Usage>,
    generator_cpu: Duration,
    /// Of the emulator's thread, which is part of this process.
    emulator_cpu: Duration,
    carried: Vec<u64>,
    missed: u64,
}

impl Reading {
    fn take(world: &World, brokers: &[Broker]) -> Result<Self, Error> {
        let usage = |broker: &Broker| {
            Ok(Usage {
                cpu: broker.cpu(),
                metrics: broker.metrics()?,
            })
        };
        Ok(Self {
            brokers: brokers.iter().map(usage).collect::<Result<_, Error>>()?,
            generator_cpu: own_cpu(),
            emulator_cpu: match world.paths {
                Some(_) => thread_cpu(EMULATOR),
                None => Duration::ZERO,
            },
            carried: world.carried()?,
            missed: world.missed()?,
            at: Instant::now(),
        })
    }

    fn since(&self, before: &Self) -> Spent {
        let pairs = self.brokers.iter().zip(&before.brokers);
        let carried = self.carried.iter().zip(&before.carried);
        Spent {
            usage: pairs.map(|(now, before)| now.since(before)).collect(),
            generator_cpu: self.generator_cpu - before.generator_cpu,
            emulator_cpu: self.emulator_cpu.saturating_sub(before.emulator_cpu),
            carried: carried.map(|(now, before)| now - before).collect(),
            missed: self.missed.saturating_sub(before.missed),
            took: self.at - before.at,
        }
    }
}

/// What they used within the window.
struct Spent {
    usage: Vec<Usage>,
    generator_cpu: Duration,
    emulator_cpu: Duration,
    carried: Vec<u64>,
    missed: u64,
    took: Duration,
}

fn measure(
    plan: &Plan,
    (world, brokers): (&World, &[Broker]),
    window: &Window,
) -> Result<Spent, Error> {
    let before = Reading::take(world, brokers)?;
    let from = clock::now();
    window.set(from, from + plan.span);
    thread::sleep(plan.span);
    Ok(Reading::take(world, brokers)?.since(&before))
}

/// Starts the brokers in order.
///
/// # Errors
/// If one is not ready in time.
pub(crate) fn start(
    world: &World,
    (shards, queuing): (usize, Queuing),
    folder: &Folder,
) -> Result<Vec<Broker>, Error> {
    start_all(world, (shards, queuing), (folder, &None))
}

/// The same with another program than this one's, and a shard for each.
///
/// # Errors
/// If one is not ready in time.
pub(crate) fn start_with(
    world: &World,
    queuing: Queuing,
    of: (&Folder, &Option<PathBuf>),
) -> Result<Vec<Broker>, Error> {
    start_all(world, (1, queuing), of)
}

fn start_all(
    world: &World,
    (shards, queuing): (usize, Queuing),
    (folder, program): (&Folder, &Option<PathBuf>),
) -> Result<Vec<Broker>, Error> {
    let mut brokers: Vec<Broker> = Vec::new();
    for (number, stand) in world.brokers.iter().enumerate() {
        let dialled = stand
            .dials
            .iter()
            .filter_map(|dialled| brokers.get(*dialled));
        let setup = Setup {
            number: number + 1,
            shards,
            queuing,
            neighbours: dialled
                .map(|broker| world.carrier.port(broker.udp))
                .collect(),
            carrier: world.carrier,
            program: program.clone(),
            port: 0,
            site: stand.site.clone(),
            webrtc: false,
            clients: false,
            sessions: false,
            routing: None,
        };
        brokers.push(Broker::start(&setup, &folder.0)?);
    }
    Ok(brokers)
}

fn wait_for_first_packets(crowd: &Crowd) -> Result<(), Error> {
    let begun = Instant::now();
    while crowd.probes.tally.silent.load(Ordering::Relaxed) > 0 {
        if begun.elapsed() > FIRST_PATIENCE {
            let silent = crowd.probes.tally.silent.load(Ordering::Relaxed);
            return Err(Error::Join(format!(
                "{silent} of {} measured receivers got nothing within {} s; \
                 are the brokers linked?",
                crowd.probes.expected,
                FIRST_PATIENCE.as_secs()
            )));
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// A folder for configurations and logs that goes with the run.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// An empty one.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be made.
    pub(crate) fn new() -> Result<Self, Error> {
        let name = format!(
            "sangam-bench-{}-{}",
            std::process::id(),
            clock::now().as_micros()
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).map_err(|error| Error::file(&path, error))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays behind in the temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
