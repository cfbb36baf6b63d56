//! A broker watches itself: a report each second, published and kept for whoever asks.

mod act;
mod place;
mod sample;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sangam_client::{Buffers, Client, ClientError, ClientOptions, Target};
use sangam_control::monitor::threshold::Thresholds;
use sangam_control::monitor::{BrokerReport, Desk, Reporter};
use sangam_io::clock;
use sangam_node::Broker;

pub(crate) use act::{Follow, follow, json};
use place::Place;
pub(crate) use sample::{Sampler, unix_ms};

/// How often a broker reports.
const EVERY: Duration = Duration::from_secs(1);

/// A change of the load that is news, in percent: each floods the network.
const LOAD_STEP: u8 = 10;
/// How long such news must wait for the next: a load that swings may not flood a large network.
const LOAD_PAUSE: Duration = Duration::from_secs(10);

/// The newest report; none before the first.
pub(crate) type Latest = Arc<Mutex<Option<BrokerReport>>>;

/// The thread that watches. Ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Monitor {
    /// Dropping it ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    latest: Latest,
}

impl Monitor {
    /// Starts to watch a broker. It is not kept alive.
    ///
    /// # Errors
    /// The system gives no descriptor or thread.
    pub(crate) fn start(
        broker: &Arc<Broker>,
        sampler: Sampler,
        (thresholds, follow): (Thresholds, Follow),
    ) -> std::io::Result<Self> {
        let door = Target::Door(broker.system_door()?);
        let second = Target::Door(broker.system_door()?);
        let id = broker.id();
        let latest = Latest::default();
        let (stop, stopped) = channel();
        let mut watch = Watch {
            broker: Arc::downgrade(broker),
            sampler,
            thresholds,
            follow,
            latest: Arc::clone(&latest),
            stopped,
            told_load: (0, Instant::now()),
            place: Place::new(id),
        };
        let run = move || {
            let begin = || {
                let reporter = Reporter::of_broker(Client::connect(door, options())?, id)?;
                let desk = Desk::new(Client::connect(second, options())?, id);
                Ok((reporter, desk))
            };
            match begin() {
                Ok((reporter, desk)) => watch.run(reporter, desk),
                Err(ClientError::Closed) => {}
                Err(error) => tracing::error!(%error, "this broker cannot report on itself"),
            }
        };
        let thread = thread::Builder::new().name("sangam-monitor".to_owned());
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread.spawn(run)?),
            latest,
        })
    }

    /// Where the newest report is kept.
    pub(crate) fn latest(&self) -> Latest {
        Arc::clone(&self.latest)
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stop = None;
        if self
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
        {
            tracing::error!("the monitor had panicked");
        }
    }
}

/// Of a broker's own client that says and hears little: a report or a plan each second, and a
/// digest of each broker of a cell.
pub(crate) fn options() -> ClientOptions {
    ClientOptions {
        queue: 256,
        send_buffers: Buffers {
            small: 64,
            large: 64,
        },
        trace_every: 0,
        ..ClientOptions::default()
    }
}

/// What the thread holds.
struct Watch {
    broker: Weak<Broker>,
    sampler: Sampler,
    thresholds: Thresholds,
    follow: Follow,
    latest: Latest,
    stopped: Receiver<()>,
    /// In percent, and since when.
    told_load: (u8, Instant),
    place: Place,
}

impl Watch {
    /// Tells the network how busy this process is, if that differs from what was told.
    fn tell_load(&mut self, broker: &Broker, report: &BrokerReport) {
        let share = report.load.cpu_share.unwrap_or_default();
        let percent = (share * 100.0).clamp(0.0, 100.0) as u8;
        let (told, since) = self.told_load;
        if percent.abs_diff(told) >= LOAD_STEP && since.elapsed() >= LOAD_PAUSE {
            self.told_load = (percent, Instant::now());
            broker.set_load(percent);
        }
    }

    fn run(&mut self, mut reporter: Reporter, mut desk: Desk) {
        let mut due = Instant::now();
        while reporter.is_heard() {
            let Some(broker) = self.broker.upgrade() else {
                return;
            };
            let report = self.sampler.sample(&broker);
            self.tell_load(&broker, &report);
            self.place.look(&broker, &report);
            // Not the last to let it go, as that would stop the broker from this thread.
            drop(broker);
            let now = clock::now();
            reporter.report(now, &report);
            if let Err(error) = desk.tell(now, &report, self.place.plan()) {
                tracing::debug!(%error, "a digest cannot be told");
            }
            self.thresholds.handle(now, &report);
            while let Some(alert) = self.thresholds.poll() {
                reporter.alert(&json(&alert));
                self.follow.act(&self.thresholds, &alert);
            }
            if let Ok(mut latest) = self.latest.lock() {
                *latest = Some(report);
            }
            due = (due + EVERY).max(Instant::now());
            let wait = due.saturating_duration_since(Instant::now());
            if self.stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }
}
