//! Films on disk, made of a trace in seconds.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cluster::run;
use crate::error::Error;
use crate::film::{self, FRAME, Trace};
use crate::process::sangam_binary;

/// Of the golden section: so many parts of a circle lie apart as evenly as they can.
const GOLDEN: f64 = 0.618_033_988_749_895;
const BUFFER: usize = 1 << 20;

/// An archive with films of one trace, each of them begun at another place of it.
pub(crate) struct Shelf {
    /// The archive's folder, or what holds those of its nodes.
    pub(crate) folder: PathBuf,
    /// The films' names.
    pub(crate) names: Vec<String>,
    /// Bytes of all films.
    pub(crate) bytes: u64,
    trace: Trace,
    frames: u64,
}

impl Shelf {
    /// Makes `count` films of so many seconds and adds them by `sangam archive add`.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Broker`] with what `sangam archive` said.
    pub(crate) fn make(
        folder: &Path,
        trace: Trace,
        (count, seconds): (usize, u64),
    ) -> Result<Self, Error> {
        let archive = folder.join("archive");
        fs::create_dir_all(&archive).map_err(|error| Error::file(&archive, error))?;
        let sangam = sangam_binary()?;
        let to = || {
            let mut command = Command::new(&sangam);
            command.args(["archive", "--archive"]).arg(&archive);
            Ok(command)
        };
        Self::put(folder, trace, (count, seconds), &to).map(|shelf| Self {
            folder: archive.clone(),
            ..shelf
        })
    }

    /// The same by way of `to`, which begins a command of `sangam archive` for some archive; films
    /// are written in `folder` before.
    ///
    /// # Errors
    /// As [`Self::make`].
    pub(crate) fn put(
        folder: &Path,
        trace: Trace,
        (count, seconds): (usize, u64),
        to: &dyn Fn() -> Result<Command, Error>,
    ) -> Result<Self, Error> {
        let frames = (seconds as f64 / FRAME.as_secs_f64()) as u64;
        let mut shelf = Self {
            folder: folder.to_owned(),
            names: Vec::new(),
            bytes: 0,
            trace,
            frames,
        };
        for number in 0..count {
            shelf.add(number, &folder.join("film.ts"), to()?)?;
        }
        Ok(shelf)
    }

    fn add(&mut self, number: usize, path: &Path, mut command: Command) -> Result<(), Error> {
        let failed = |error| Error::file(path, error);
        let file = File::create(path).map_err(failed)?;
        let mut out = BufWriter::with_capacity(BUFFER, file);
        let first = self.first(number);
        let written = film::write(&self.trace, (first, self.frames), number as u64, &mut out);
        self.bytes += written
            .and_then(|len| out.flush().map(|()| len))
            .map_err(failed)?;
        let name = format!("film-{number}");
        command.arg("add").arg(path).args(["--name", &name]);
        run(&mut command, "sangam archive add")?;
        fs::remove_file(path).map_err(failed)?;
        self.names.push(name);
        Ok(())
    }

    /// The frame of the trace at which a film begins.
    fn first(&self, number: usize) -> u64 {
        let place = number as f64 * GOLDEN;
        (place.fract() * self.trace.frames.len() as f64) as u64
    }

    /// What a viewer watches, by its number: the film, and the second from which; viewers are
    /// spread over all of them as evenly as it goes, and have at least `stay` seconds before them.
    pub(crate) fn choice(&self, viewer: usize, stay: f64) -> (usize, f64) {
        let length = self.frames as f64 * FRAME.as_secs_f64();
        let place = (viewer as f64 * GOLDEN).fract();
        (viewer % self.names.len(), place * (length - stay).max(0.0))
    }

    /// Megabits per second that a viewer needs who is at this second of a film, in the mean of the
    /// next `span` seconds.
    pub(crate) fn needs(&self, film: usize, second: f64, span: f64) -> f64 {
        let frame = |seconds: f64| (seconds / FRAME.as_secs_f64()).max(0.0) as u64;
        let first = self.first(film) + frame(second);
        self.trace.mbps(first, frame(span).max(1))
    }

    /// Megabits per second of the films, the mean of all.
    pub(crate) fn mbps(&self) -> f64 {
        self.trace.mbps(0, self.trace.frames.len() as u64)
    }

    /// The trace of the films.
    pub(crate) const fn trace(&self) -> &Trace {
        &self.trace
    }
}
