//! One network of the simulator, for the emulator: who is in it and what its links do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use sangam_emulator::{Delay, Emulator, Quality, Trace};
use serde::Deserialize;

use super::simulated::Simulated;
use crate::error::Error;
use crate::process::SIMULATOR;

/// Of the trace, as the study's first.
const SEED: &str = "1";
const EMULATOR_SEED: u64 = 4;

/// What is taken of a family.
pub(super) struct Part {
    /// As `sangam sim trace list` names it.
    pub(super) family: &'static str,
    /// Its sessions, by numbers from 1; none for all.
    pub(super) sessions: &'static str,
}

/// A network with a broker in each place.
pub(super) struct Network {
    folder: PathBuf,
    description: Description,
    traces: BTreeMap<(usize, usize), Quality>,
}

/// `network.json`, as `sangam sim trace export` writes it.
#[derive(Deserialize)]
struct Description {
    trace: String,
    nodes: Vec<String>,
    links: Vec<Link>,
    sessions: Vec<Session>,
}

/// A link, one way.
#[derive(Deserialize)]
struct Link {
    from: usize,
    to: usize,
    mean_ms: f64,
    delays: String,
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Session {
    /// The place of the publisher.
    pub(super) from: usize,
    /// The place of the subscriber.
    pub(super) to: usize,
}

impl Network {
    /// Lets the simulator generate it, with so many moments of 10 ms.
    ///
    /// # Errors
    /// [`Error::Simulator`] if there is none or it fails, [`Error::Network`] if the emulator cannot
    /// follow what it wrote.
    pub(super) fn generate(part: &Part, rows: u64, folder: &Path) -> Result<Self, Error> {
        let (whole, own) = (folder.join(part.family), folder.join("part"));
        let (rows, whole) = (rows.to_string(), whole.display().to_string());
        let out = own.display().to_string();
        let write = ["trace", "write", part.family, "--seed", SEED];
        simulator(&[&write[..], &["--rows", &rows, "--out", &whole]].concat())?;
        let mut export = vec!["trace", "export", &whole, "--out", &out];
        if !part.sessions.is_empty() {
            export.extend(["--sessions", part.sessions]);
        }
        simulator(&export)?;
        Self::read(own)
    }

    fn read(folder: PathBuf) -> Result<Self, Error> {
        let path = folder.join("network.json");
        let text = fs::read_to_string(&path).map_err(|error| Error::file(&path, error))?;
        let description: Description = serde_json::from_str(&text)
            .map_err(|error| Error::Simulator(format!("{}: {error}", path.display())))?;
        let mut traces = BTreeMap::new();
        for link in &description.links {
            let trace = Trace::read(&folder.join(&link.delays)).map_err(Error::Network)?;
            let quality = Quality {
                delay: Delay::Trace(Arc::new(trace)),
                ..Quality::default()
            };
            traces.insert((link.from, link.to), quality);
        }
        // The trace has no way back from those who only listen: it is as the way there.
        for link in &description.links {
            let there = traces.get(&(link.from, link.to)).cloned();
            let back = traces.entry((link.to, link.from));
            back.or_insert(there.unwrap_or_default());
        }
        Ok(Self {
            folder,
            description,
            traces,
        })
    }

    /// The names of places.
    pub(super) fn places(&self) -> &[String] {
        &self.description.nodes
    }

    /// Who sends to whom.
    pub(super) fn sessions(&self) -> &[Session] {
        &self.description.sessions
    }

    /// Places that one place has a link to.
    pub(super) fn neighbours(&self, place: usize) -> Vec<usize> {
        let all = self.traces.keys();
        let from = all.filter(|(from, _)| *from == place);
        from.map(|(_, to)| *to).collect()
    }

    /// All of its links, each way counted.
    pub(super) fn ways(&self) -> impl Iterator<Item = (usize, usize)> {
        self.traces.keys().copied()
    }

    /// Sites for all places. Links have their long-term means until [`Self::begin`], as methods
    /// of the simulator know these beforehand.
    ///
    /// # Errors
    /// [`Error::Network`] if this machine or user lacks something for it.
    pub(super) fn emulate(&self) -> Result<Emulator, Error> {
        let names: Vec<&str> = self.places().iter().map(String::as_str).collect();
        let emulator = Emulator::new(&names, EMULATOR_SEED).map_err(Error::Network)?;
        let mean = |from, to| {
            let mut links = self.description.links.iter();
            links.find(|link| (link.from, link.to) == (from, to))
        };
        for (from, to) in self.ways() {
            let Some(link) = mean(from, to).or(mean(to, from)) else {
                continue;
            };
            let quality = Quality::delayed(Duration::from_secs_f64(link.mean_ms / 1e3));
            let set = emulator.control().set(from, to, quality);
            set.map_err(Error::Network)?;
        }
        Ok(emulator)
    }

    /// From now on links do what the trace says.
    ///
    /// # Errors
    /// [`Error::Network`] if the emulator has ended.
    pub(super) fn begin(&self, emulator: &Emulator) -> Result<(), Error> {
        self.traces.iter().try_for_each(|((from, to), quality)| {
            let set = emulator.control().set(*from, *to, quality.clone());
            set.map_err(Error::Network)
        })
    }

    /// What the simulator's methods make of the same trace.
    ///
    /// # Errors
    /// [`Error::Simulator`] if it fails or tells something else.
    pub(super) fn simulate(&self) -> Result<Simulated, Error> {
        let trace = self.folder.join(&self.description.trace);
        let (trace, out) = (trace.display().to_string(), self.folder.join("simulated"));
        let out = out.display().to_string();
        let told = simulator(&["run", "replay", "--trace", &trace, "--out", &out, "--json"])?;
        Simulated::of(&told)
    }
}

/// What the simulator prints.
fn simulator(arguments: &[&str]) -> Result<String, Error> {
    let program = match std::env::var_os(SIMULATOR) {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()
            .map_err(|error| Error::System("current_exe", error))?
            .with_file_name("sangam-sim"),
    };
    let failed = |why: String| {
        let (program, arguments) = (program.display(), arguments.join(" "));
        Error::Simulator(format!(
            "{program} {arguments}: {why}; build it with `cargo build --release -p sangam-sim` or \
             name it in {SIMULATOR}"
        ))
    };
    let mut command = Command::new(&program);
    command.args(arguments).stdin(Stdio::null());
    let output = command
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(failed(said));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
