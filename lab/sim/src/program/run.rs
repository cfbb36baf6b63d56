//! Runs what is missing, on all processors.

use std::io::{IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use sangam_sim::replay::{Outcome, Plan, Roster};
use sangam_sim::study::Unit;

use super::replay::Brought;
use super::store::{Place, Store};
use super::{Failure, note};

const WIDTH: usize = 30;

/// A session and who takes part in it.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) piece: Piece,
    pub(crate) roster: Roster,
}

/// Where a session comes from.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// From a generated network.
    Made(Unit),
    /// From a trace that somebody brought: which, and the session's number in it.
    Brought(Arc<Brought>, usize),
}

impl Task {
    fn place(&self) -> Place {
        match &self.piece {
            Piece::Made(unit) => Place::made(unit, &self.roster),
            Piece::Brought(brought, session) => {
                Place::brought(brought.hash, *session, &self.roster)
            }
        }
    }

    /// What it is called while it runs.
    fn name(&self) -> &str {
        match &self.piece {
            Piece::Made(unit) => unit.family.name(),
            Piece::Brought(brought, _) => &brought.name,
        }
    }

    fn run(&self, packets: u64) -> Result<Outcome, Failure> {
        let (seed, session) = match &self.piece {
            Piece::Made(unit) => (unit.seed, unit.session),
            Piece::Brought(_, session) => (1, *session),
        };
        let plan = Plan::study(packets, seed, clock);
        let outcome = match &self.piece {
            Piece::Made(unit) => unit.run(&self.roster, plan),
            Piece::Brought(brought, session) => brought.run(*session, &self.roster, plan),
        };
        outcome.map_err(|error| Failure(format!("{} {session}: {error}", self.name())))
    }
}

/// Nanoseconds that this thread has run: what else the machine does is not counted.
pub(crate) fn clock() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Runs all tasks whose results are not there yet.
///
/// # Errors
/// The first that failed; the others' results are kept.
pub(crate) fn run(tasks: &[Task], store: &Store, jobs: usize) -> Result<(), Failure> {
    let missing = tasks.iter().filter(|task| !store.has(&task.place()));
    let missing: Vec<&Task> = missing.collect();
    if missing.len() < tasks.len() {
        let done = tasks.len() - missing.len();
        note(&format!(
            "{done} of {} sessions are there already",
            tasks.len()
        ));
    }
    let next = AtomicUsize::new(0);
    let progress = Mutex::new(Progress::new(missing.len()));
    let failure = Mutex::new(None);
    let work = || {
        while let Some(task) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = task
                .run(store.packets())
                .and_then(|outcome| store.put(&task.place(), &outcome));
            if let Err(error) = result {
                // The others end their sessions and find nothing more to do.
                next.store(missing.len(), Ordering::Relaxed);
                hold(&failure).get_or_insert(error);
            }
            hold(&progress).step(task.name());
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, missing.len().max(1)) {
            scope.spawn(work);
        }
    });
    hold(&failure).take().map_or(Ok(()), Err)
}

fn hold<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Whoever panicked held a bar or an error: both are still whole.
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A bar on a terminal, a line for every tenth elsewhere.
struct Progress {
    all: usize,
    done: usize,
    begin: Instant,
    shown: bool,
}

impl Progress {
    fn new(all: usize) -> Self {
        Self {
            all,
            done: 0,
            begin: Instant::now(),
            shown: stderr().is_terminal(),
        }
    }

    fn step(&mut self, name: &str) {
        self.done += 1;
        let share = self.done as f64 / self.all.max(1) as f64;
        let spent = self.begin.elapsed().as_secs_f64();
        let left = spent / share - spent;
        let tenth = |done: usize| done * 10 / self.all.max(1);
        if self.shown {
            let full = (self.done * WIDTH / self.all.max(1)).min(WIDTH);
            let bar = "#".repeat(full) + &".".repeat(WIDTH - full);
            // Nobody is harmed if the terminal is gone.
            let _ = write!(
                stderr(),
                "\r\x1b[2K[{bar}] {}/{} {name}, {left:.0} s left",
                self.done,
                self.all
            );
            let _ = stderr().flush();
        } else if tenth(self.done) > tenth(self.done - 1) {
            note(&format!(
                "{}/{} sessions, {spent:.0} s, {left:.0} s left",
                self.done, self.all
            ));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(stderr(), "\r\x1b[2K");
        }
    }
}
