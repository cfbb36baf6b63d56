//! `list`, `run` and `report`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use sangam_sim::replay::Roster;
use sangam_sim::study::{Experiment, Unit};
use sangam_sim::trace::{Family, KNOWN_ROWS, KNOWN_ROWS_WHOLE, known_hash};
use serde_json::json;

use super::args::RunArgs;
use super::report::{self, Report};
use super::run::{Piece, Task, run as run_tasks};
use super::store::Store;
use super::{Failure, note, print};

/// Prints the experiments.
///
/// # Errors
/// If nobody takes them.
pub(crate) fn list(as_json: bool) -> Result<(), Failure> {
    let all = Experiment::ALL;
    if as_json {
        let all = all.map(|one| {
            let families: Vec<&str> = one.families.iter().map(|family| family.name()).collect();
            json!({"name": one.name, "about": one.about, "families": families})
        });
        return print(&json!(all).to_string());
    }
    for one in all {
        print(&format!("{:10} {}", one.name, one.about))?;
    }
    Ok(())
}

/// Runs experiments and reports them.
///
/// # Errors
/// What went wrong.
pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    if let Some(trace) = &args.trace {
        let store = super::replay::run(trace, args)?;
        return report(store.dir(), args.json);
    }
    let experiments = chosen(args)?;
    let mut store = Store::create(&args.out, args.packets, args.seeds)?;
    let tasks = tasks(&experiments, args);
    check_traces(&tasks, args)?;
    // First, so that a run that is stopped can be reported.
    store.note(&experiments)?;
    run_tasks(&tasks, &store, args.jobs())?;
    report(store.dir(), args.json)
}

/// Writes the report of a folder of results.
///
/// # Errors
/// If there are none, or the report cannot be written.
pub(crate) fn report(dir: &Path, as_json: bool) -> Result<(), Failure> {
    let store = Store::open(dir)?;
    let report = report::of(&store)?;
    finish(&report, &store, as_json)
}

fn finish(report: &Report, store: &Store, as_json: bool) -> Result<(), Failure> {
    report.write(store)?;
    if as_json {
        return print(&format!("{:#}", report.to_json()));
    }
    for claim in &report.claims {
        print(&format!(
            "{:14} {}\n               {}",
            claim.verdict, claim.claim, claim.found
        ))?;
    }
    print(&store.dir().join("index.html").display().to_string())
}

fn chosen(args: &RunArgs) -> Result<Vec<Experiment>, Failure> {
    let mut chosen = Vec::new();
    for name in &args.experiments {
        match Experiment::from_name(name) {
            Some(one) => chosen.push(one),
            None if name == "all" => chosen.extend(Experiment::ALL),
            None if name == "replay" => {
                return Err(Failure("`replay` needs --trace FILE".to_owned()));
            }
            None => {
                return Err(Failure(format!(
                    "there is no experiment `{name}`: `sangam sim list` names them"
                )));
            }
        }
    }
    Ok(chosen)
}

/// What the experiments need to be run, each session once.
fn tasks(experiments: &[Experiment], args: &RunArgs) -> Vec<Task> {
    let mut units: BTreeMap<(Unit, &str), Roster> = BTreeMap::new();
    let wanted = |family: &&Family| args.families.is_empty() || args.families.contains(family);
    for one in experiments {
        let Some(roster) = one.roster() else {
            continue;
        };
        let families = one.families.iter().filter(wanted);
        for unit in families.flat_map(|family| Unit::all(*family, args.seeds)) {
            units.insert((unit, roster.name), roster.clone());
        }
    }
    let mut units: Vec<((Unit, &str), Roster)> = units.into_iter().collect();
    // In the order in which families were named.
    let place = |family| args.families.iter().position(|named| *named == family);
    units.sort_by_key(|((unit, _), _)| place(unit.family));
    let tasks = units.into_iter();
    tasks
        .map(|((unit, _), roster)| Task {
            piece: Piece::Made(unit),
            roster,
        })
        .collect()
}

/// The networks are those whose hashes were committed, where these are known.
fn check_traces(tasks: &[Task], args: &RunArgs) -> Result<(), Failure> {
    // Short runs need not wait for what they do not use.
    let rows = |family: Family, seed: u64| {
        let whole = known_hash(family, seed, KNOWN_ROWS_WHOLE);
        if args.packets < KNOWN_ROWS_WHOLE || whole.is_none() {
            KNOWN_ROWS
        } else {
            KNOWN_ROWS_WHOLE
        }
    };
    let families: BTreeSet<Family> = tasks
        .iter()
        .filter_map(|task| match &task.piece {
            Piece::Made(unit) => Some(unit.family),
            Piece::Brought(..) => None,
        })
        .collect();
    let all: Vec<(Family, u64, u64)> = families
        .into_iter()
        .flat_map(|family| (1..=args.seeds).map(move |seed| (family, seed)))
        .map(|(family, seed)| (family, seed, rows(family, seed)))
        .filter(|(family, seed, rows)| known_hash(*family, *seed, *rows).is_some())
        .collect();
    if !all.is_empty() {
        note(&format!("checking the hashes of {} networks", all.len()));
    }
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let work = || {
        while let Some((family, seed, rows)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            let hash = family.generator(*seed, *rows).write(std::io::sink()).ok();
            if hash != known_hash(*family, *seed, *rows) {
                let name = format!("{} seed {seed}", family.name());
                wrong
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(name);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure(format!(
        "not the study's networks: {}; the generators have changed",
        wrong.join(", ")
    )))
}
