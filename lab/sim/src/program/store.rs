//! Results in a folder, a file for each session, so that a run goes on where it was stopped.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use sangam_sim::replay::{Outcome, Roster};
use sangam_sim::study::{Experiment, Unit};
use serde_json::{Value, json};

use super::Failure;
use super::replay::Brought;

const RUN: &str = "run.json";

/// A folder of results.
#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    packets: u64,
    seeds: u64,
    /// Names, in the order of the report.
    experiments: Vec<String>,
    /// A trace whose sessions are here.
    brought: Option<Brought>,
}

/// Where a result is kept, and who took part in it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    path: String,
    fingerprint: u64,
}

impl Place {
    /// That of a session of a generated network.
    pub(crate) fn made(unit: &Unit, roster: &Roster) -> Self {
        let Unit {
            family,
            session,
            seed,
        } = unit;
        let (roster_name, name) = (roster.name, family.name());
        Self {
            path: format!("units/{roster_name}/{name}/{session}-{seed}.unit"),
            fingerprint: roster.fingerprint(),
        }
    }

    /// That of a session of a trace of this hash.
    pub(crate) fn brought(hash: u64, session: usize, roster: &Roster) -> Self {
        Self {
            path: format!("units/replay/{hash:016x}/{session}.unit"),
            fingerprint: roster.fingerprint(),
        }
    }
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
                brought: None,
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
        let brought = Brought::from_json(&run["trace"]);
        if brought.is_none() && !run["trace"].is_null() {
            return Err(wrong(
                "`trace` is not understood: delete the folder".to_owned(),
            ));
        }
        Ok(Self {
            brought,
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
        self.write_run()
    }

    /// Notes that the sessions of a trace were run.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub(crate) fn note_trace(&mut self, brought: &Brought) -> Result<(), Failure> {
        self.brought = Some(brought.clone());
        self.write_run()
    }

    fn write_run(&self) -> Result<(), Failure> {
        let run = json!({
            "packets": self.packets,
            "seeds": self.seeds,
            "experiments": self.experiments,
            "trace": self.brought.as_ref().map(Brought::to_json),
        });
        self.write(RUN, format!("{run:#}\n").as_bytes())
    }

    /// The trace whose sessions were run.
    pub(crate) const fn brought(&self) -> Option<&Brought> {
        self.brought.as_ref()
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
    pub(crate) fn has(&self, place: &Place) -> bool {
        self.get(place).is_some()
    }

    /// A result, if it is there and whole and of the same methods.
    pub(crate) fn get(&self, place: &Place) -> Option<Outcome> {
        let bytes = fs::read(self.dir.join(&place.path)).ok()?;
        Outcome::from_bytes(bytes.strip_prefix(self.head(place).as_bytes())?)
    }

    /// Keeps a result.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn put(&self, place: &Place, outcome: &Outcome) -> Result<(), Failure> {
        let mut bytes = self.head(place).into_bytes();
        bytes.extend(outcome.to_bytes());
        self.write(&place.path, &bytes)
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

    fn head(&self, place: &Place) -> String {
        let fingerprint = place.fingerprint;
        format!("sangam-unit 2 {fingerprint:016x} {}\n", self.packets)
    }
}
