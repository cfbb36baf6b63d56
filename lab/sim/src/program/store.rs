//! Results in a folder, a file for each session, so that a run goes on where it was stopped.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use sangam_sim::replay::Outcome;
use sangam_sim::study::{Experiment, Unit};
use serde_json::{Value, json};

use super::Failure;
use super::run::Task;

const RUN: &str = "run.json";

/// A folder of results.
#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    packets: u64,
    seeds: u64,
    /// Names, in the order of the report.
    experiments: Vec<String>,
}

impl Store {
    /// The folder for a run of so many packets and seeds, made if it is not there.
    ///
    /// # Errors
    /// If the folder holds a run of another size, or cannot be written.
    pub(crate) fn create(dir: &Path, packets: u64, seeds: u64) -> Result<Self, Failure> {
        let mut store = match Self::open(dir) {
            Ok(store) => store,
            Err(_) if !dir.join(RUN).exists() => Self {
                dir: dir.to_owned(),
                packets,
                seeds,
                experiments: Vec::new(),
            },
            Err(failure) => return Err(failure),
        };
        if store.packets != packets {
            return Err(Failure(format!(
                "{} holds results of {} packets a session, not of {packets}: \
                 choose another --out, or delete it",
                dir.display(),
                store.packets
            )));
        }
        store.seeds = store.seeds.max(seeds);
        Ok(store)
    }

    /// The folder that a run left.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn open(dir: &Path) -> Result<Self, Failure> {
        let path = dir.join(RUN);
        let wrong = |text: String| Failure(format!("{}: {text}", path.display()));
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Failure(format!(
                "{} holds no results: `sangam sim run EXPERIMENT --out {0}` makes them",
                dir.display()
            )),
            _ => wrong(error.to_string()),
        })?;
        let run: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let number = |name: &str| {
            let number = run[name].as_u64();
            number.ok_or_else(|| wrong(format!("`{name}` is missing: delete the folder")))
        };
        let names = run["experiments"].as_array().into_iter().flatten();
        Ok(Self {
            dir: dir.to_owned(),
            packets: number("packets")?,
            seeds: number("seeds")?,
            experiments: names
                .filter_map(|name| Some(name.as_str()?.to_owned()))
                .collect(),
        })
    }

    /// Notes that experiments were run.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub(crate) fn note(&mut self, experiments: &[Experiment]) -> Result<(), Failure> {
        let known = Experiment::ALL.iter().filter(|one| {
            self.experiments.iter().any(|name| name == one.name)
                || experiments.iter().any(|new| new.name == one.name)
        });
        self.experiments = known.map(|one| one.name.to_owned()).collect();
        let run = json!({
            "packets": self.packets,
            "seeds": self.seeds,
            "experiments": self.experiments,
        });
        self.write(RUN, format!("{run:#}\n").as_bytes())
    }

    /// What was run.
    pub(crate) fn experiments(&self) -> Vec<Experiment> {
        let names = self.experiments.iter();
        names
            .filter_map(|name| Experiment::from_name(name))
            .collect()
    }

    /// Packets of each session.
    pub(crate) const fn packets(&self) -> u64 {
        self.packets
    }

    /// Networks of each family.
    pub(crate) const fn seeds(&self) -> u64 {
        self.seeds
    }

    /// The folder.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether a result is there.
    pub(crate) fn has(&self, task: &Task) -> bool {
        self.get(task).is_some()
    }

    /// A result, if it is there and whole and of the same methods.
    pub(crate) fn get(&self, task: &Task) -> Option<Outcome> {
        let bytes = fs::read(self.dir.join(path(task))).ok()?;
        Outcome::from_bytes(bytes.strip_prefix(self.head(task).as_bytes())?)
    }

    /// Keeps a result.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn put(&self, task: &Task, outcome: &Outcome) -> Result<(), Failure> {
        let mut bytes = self.head(task).into_bytes();
        bytes.extend(outcome.to_bytes());
        self.write(&path(task), &bytes)
    }

    /// Writes a file of the folder, whole or not at all.
    ///
    /// # Errors
    /// If that fails.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let path = self.dir.join(name);
        let part = path.with_extension("part");
        let folder = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&part, bytes))
            .and_then(|()| fs::rename(&part, &path))
            .map_err(|error| Failure(format!("{}: {error}", path.display())))
    }

    fn head(&self, task: &Task) -> String {
        let fingerprint = task.roster.fingerprint();
        format!("sangam-unit 1 {fingerprint:016x} {}\n", self.packets)
    }
}

fn path(task: &Task) -> String {
    let Unit {
        family,
        session,
        seed,
    } = task.unit;
    format!(
        "units/{}/{}/{session}-{seed}.unit",
        task.roster.name,
        family.name()
    )
}
