//! A thread of participants that receive.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sangam_model::Time;

use super::home::Home;
use super::peer::Spec;
use super::station::{Sockets, Station, Tally, hurry};
use crate::error::Error;
use crate::load::Stamp;
use crate::loopback;
use crate::measure::{Reception, Window};

/// Room of a socket that stands for thousands, as their own sockets together would have.
const CROWD_BUFFER: usize = 64 << 20;
/// Room of a measured receiver's socket.
const PROBE_BUFFER: usize = 4 << 20;

/// For so long a participant that does not read takes its broker for alive: longer than the time
/// between two pings, so that it costs the processors nothing in between.
const DEAF_FOR: Duration = Duration::from_secs(10);

/// A running thread of receiving participants.
pub(crate) struct Listener {
    commands: Sender<Command>,
    thread: JoinHandle<Result<Vec<Reception>, Error>>,
    /// What it counts.
    pub(crate) tally: Arc<Tally>,
    /// Participants it was given.
    pub(crate) expected: u64,
    /// Where they live, unless they have sockets of their own.
    pub(crate) home: Home,
}

enum Command {
    Add(Vec<Spec>),
    Count,
    Deafen,
    Forget(SyncSender<()>),
    Finish,
}

/// What a receiver does with an event.
enum Ears {
    Count(Vec<u32>, Vec<u32>),
    Measure(Vec<Reception>, Vec<bool>, Measuring),
}

/// What measured participants write down, and which packets.
struct Measuring {
    window: Arc<Window>,
    blank: fn() -> Reception,
}

impl Listener {
    /// Passive participants: they count, or after [`Listener::deafen`] do not even that.
    ///
    /// # Errors
    /// [`Error::System`] if the socket cannot be opened.
    pub(crate) fn passive(home: Home) -> Result<Self, Error> {
        let tally = Arc::new(Tally::default());
        let own = Arc::clone(&tally);
        let station = Station::new(home.clone(), Sockets::Shared, CROWD_BUFFER, own)?;
        let ears = Ears::Count(Vec::new(), Vec::new());
        Ok(Self::spawn(station, (ears, home), tally))
    }

    /// Measured participants: a socket each, and nothing else in their thread.
    ///
    /// # Errors
    /// [`Error::System`] if the poller cannot be opened.
    pub(crate) fn measured(window: Arc<Window>) -> Result<Self, Error> {
        let blank = Reception::new;
        Self::measuring(Measuring { window, blank })
    }

    /// The same, and every arrival is written down.
    ///
    /// # Errors
    /// [`Error::System`] if the poller cannot be opened.
    pub(crate) fn recording(window: Arc<Window>) -> Result<Self, Error> {
        let blank = Reception::recording;
        Self::measuring(Measuring { window, blank })
    }

    fn measuring(measuring: Measuring) -> Result<Self, Error> {
        let tally = Arc::new(Tally::default());
        let own = Arc::clone(&tally);
        let home = Home::new(loopback::PROBES, None);
        let station = Station::new(home.clone(), Sockets::Own, PROBE_BUFFER, own)?;
        let ears = Ears::Measure(Vec::new(), Vec::new(), measuring);
        Ok(Self::spawn(station, (ears, home), tally))
    }

    fn spawn(station: Station, (ears, home): (Ears, Home), tally: Arc<Tally>) -> Self {
        let (commands, inbox) = mpsc::channel();
        let own = Arc::clone(&tally);
        let thread = thread::spawn(move || run(station, (ears, &own), &inbox));
        Self {
            commands,
            thread,
            tally,
            expected: 0,
            home,
        }
    }

    /// Lets participants join, in this order.
    pub(crate) fn add(&mut self, specs: Vec<Spec>) {
        self.expected += specs.len() as u64;
        self.tell(Command::Add(specs));
    }

    /// Stops reading: from now on what comes is undelivered by design.
    pub(crate) fn deafen(&self) {
        self.tell(Command::Deafen);
    }

    /// Whether everybody has what he came for.
    pub(crate) fn is_ready(&self) -> bool {
        self.tally.ready.load(Ordering::Relaxed) == self.expected
    }

    /// Whether everybody knows of a stream, as far as was known when this was last asked.
    pub(crate) fn is_announced(&self) -> bool {
        self.tell(Command::Count);
        self.tally.announced.load(Ordering::Relaxed) == self.expected
    }

    /// From now on every measured participant counts as silent until it gets an event.
    pub(crate) fn forget(&self) {
        let (done, told) = mpsc::sync_channel(1);
        self.tell(Command::Forget(done));
        // Where the thread has ended there is nobody to wait for.
        let _ = told.recv();
    }

    /// Ends it and returns what measured participants recorded, in their order.
    ///
    /// # Errors
    /// What ended it earlier.
    pub(crate) fn finish(self) -> Result<Vec<Reception>, Error> {
        self.tell(Command::Finish);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(Error::Join("a receiving thread died".into())))
    }

    fn tell(&self, command: Command) {
        // A thread that has ended tells why when it is finished.
        let _ = self.commands.send(command);
    }
}

fn run(
    mut station: Station,
    (mut ears, tally): (Ears, &Tally),
    inbox: &Receiver<Command>,
) -> Result<Vec<Reception>, Error> {
    if matches!(ears, Ears::Measure(..)) {
        hurry();
    }
    let mut deaf = false;
    loop {
        match inbox.try_recv() {
            Ok(Command::Add(specs)) => {
                for spec in specs {
                    station.add(spec)?;
                    ears.grow();
                }
            }
            Ok(Command::Count) => station.count_announced(),
            Ok(Command::Deafen) => {
                deaf = true;
                station.stop_reading();
            }
            Ok(Command::Forget(done)) => {
                ears.forget();
                tally.silent.store(ears.silent(), Ordering::Relaxed);
                let _ = done.send(());
            }
            Ok(Command::Finish) | Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {}
        }
        station.wait(Time::NEVER)?;
        station.receive(|number, event, now| ears.take(number, event, now))?;
        station.tend(|number, now| match deaf {
            // Who does not read cannot hear; it takes its broker for alive.
            true => Some(now + DEAF_FOR),
            false => ears.heard(number).then_some(now),
        });
        tally.silent.store(ears.silent(), Ordering::Relaxed);
    }
    station.close();
    Ok(match ears {
        Ears::Count(..) => Vec::new(),
        Ears::Measure(receptions, ..) => receptions,
    })
}

impl Ears {
    fn grow(&mut self) {
        match self {
            Self::Count(counts, before) => {
                counts.push(0);
                before.push(0);
            }
            Self::Measure(receptions, awake, measuring) => {
                receptions.push((measuring.blank)());
                awake.push(false);
            }
        }
    }

    fn take(&mut self, number: usize, event: &[u8], now: Time) {
        match self {
            Self::Count(counts, _) => {
                if let Some(count) = counts.get_mut(number) {
                    *count = count.wrapping_add(1);
                }
            }
            Self::Measure(receptions, awake, measuring) => {
                if let Some(awake) = awake.get_mut(number) {
                    *awake = true;
                }
                if let (Some(reception), Some(stamp)) =
                    (receptions.get_mut(number), Stamp::of_event(event))
                    && measuring.window.holds(stamp.sent)
                {
                    reception.take(stamp, now);
                }
            }
        }
    }

    fn forget(&mut self) {
        if let Self::Measure(_, awake, _) = self {
            awake.fill(false);
        }
    }

    /// Measured receivers that have not got anything yet.
    fn silent(&self) -> u64 {
        match self {
            Self::Count(..) => 0,
            Self::Measure(_, awake, _) => awake.iter().filter(|awake| !**awake).count() as u64,
        }
    }

    /// Whether events came since the last question: proof of life without a store per event.
    fn heard(&mut self, number: usize) -> bool {
        match self {
            Self::Count(counts, before) => match (counts.get(number), before.get_mut(number)) {
                (Some(count), Some(before)) => std::mem::replace(before, *count) != *count,
                _ => false,
            },
            Self::Measure(..) => false,
        }
    }
}
