//! `list`, `run` and `report`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use sangam_sim::replay::{Plan, Replay, Roster};
use sangam_sim::study::{Experiment, Part, Results, Unit};
use sangam_sim::trace::{Columns, Family, KNOWN_ROWS, Reader, TraceError, known_hash};
use serde_json::json;

use super::args::RunArgs;
use super::report::{self, Report};
use super::run::{Task, clock, run as run_tasks};
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
        return replay(trace, args);
    }
    let experiments = chosen(args)?;
    let mut store = Store::create(&args.out, args.packets, args.seeds)?;
    let tasks = tasks(&experiments, args);
    check_traces(&tasks, args.seeds)?;
    let processors = thread::available_parallelism().map_or(1, usize::from);
    run_tasks(&tasks, &store, args.jobs.unwrap_or(processors))?;
    store.note(&experiments)?;
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
    let tasks = units.into_iter();
    tasks
        .map(|((unit, _), roster)| Task { unit, roster })
        .collect()
}

/// The networks are those whose hashes were committed, where these are known.
fn check_traces(tasks: &[Task], seeds: u64) -> Result<(), Failure> {
    let families: BTreeSet<Family> = tasks.iter().map(|task| task.unit.family).collect();
    let all: Vec<(Family, u64)> = families
        .into_iter()
        .flat_map(|family| (1..=seeds).map(move |seed| (family, seed)))
        .filter(|(family, seed)| known_hash(*family, *seed, KNOWN_ROWS).is_some())
        .collect();
    if !all.is_empty() {
        note(&format!("checking the hashes of {} networks", all.len()));
    }
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    let work = || {
        while let Some((family, seed)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            let hash = family
                .generator(*seed, KNOWN_ROWS)
                .write(std::io::sink())
                .ok();
            if hash != known_hash(*family, *seed, KNOWN_ROWS) {
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

/// All sessions of a trace that somebody brought.
fn replay(path: &Path, args: &RunArgs) -> Result<(), Failure> {
    let wrong = |error: TraceError| Failure(format!("{}: {error}", path.display()));
    let open = || -> Result<_, TraceError> { Reader::new(BufReader::new(File::open(path)?)) };
    let overlay = open().map_err(wrong)?.overlay().clone();
    let store = Store::create(&args.out, overlay.rows, 1)?;
    let roster = Roster::replay();
    let names = (0..overlay.sessions.len()).map(|session| {
        let links = overlay
            .session_links(session)
            .map_or(0, |links| links.len());
        (overlay.session_name(session), links)
    });
    let names: Vec<(String, usize)> = names.collect();
    let mut results = Results::new(
        &overlay.name,
        "a trace that was brought",
        roster.clone(),
        &names,
    );
    results.links = overlay.links.len();
    for session in 0..overlay.sessions.len() {
        note(&format!(
            "{} of {}: {}",
            session + 1,
            names.len(),
            names[session].0
        ));
        let mut reader = open().map_err(wrong)?;
        let links = overlay.session_links(session).map_err(wrong)?;
        let (mut whole, mut own) = (Columns::new(overlay.links.len()), Columns::new(links.len()));
        let plan = Plan::study(overlay.rows, 1, clock);
        let mut replay = Replay::new(&overlay, session, &roster, plan).map_err(wrong)?;
        while reader.chunk(&mut whole).map_err(wrong)? {
            own.select(&whole, &links);
            replay.chunk(&own);
        }
        results.add(session, replay.finish());
    }
    results.finish();
    let ours = Experiment::ALL
        .into_iter()
        .filter(|one| one.name == "ours" && one.part == Part::Sessions);
    finish(&Report::of_one(&results, ours), &store, args.json)
}
