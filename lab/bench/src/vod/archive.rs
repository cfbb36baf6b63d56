//! Commands of `sangam archive` beside a server.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::cluster::run;
use super::server::forget_variables;
use crate::error::Error;
use crate::process::sangam_binary;

/// An archive on disks that are folders.
pub(crate) struct Archive {
    /// Where it is.
    pub(crate) folder: PathBuf,
    disks: PathBuf,
}

/// Blocks on their way, moved by a process of its own; ends with the value.
pub(crate) struct Moving(Child);

/// What became of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    /// Pieces that were copied from where they were.
    pub(crate) moved: u64,
    /// Pieces that were made of others.
    pub(crate) rebuilt: u64,
    /// Bytes of both.
    pub(crate) bytes: u64,
    /// Nothing is left to be done.
    pub(crate) is_complete: bool,
}

impl Archive {
    /// An archive below `folder` with so many disks, numbered from 1.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Broker`] with what `sangam archive` said.
    pub(crate) fn new(folder: &Path, disks: u32) -> Result<Self, Error> {
        let archive = Self {
            folder: folder.join("archive"),
            disks: folder.to_owned(),
        };
        let made = fs::create_dir_all(&archive.folder);
        made.map_err(|error| Error::file(&archive.folder, error))?;
        for disk in 1..=disks {
            archive.add(disk)?;
        }
        Ok(archive)
    }

    /// Begins a command about it.
    ///
    /// # Errors
    /// [`Error::System`] if the program is not there.
    pub(crate) fn command(&self) -> Result<Command, Error> {
        let mut command = Command::new(sangam_binary()?);
        command.args(["archive", "--json", "--archive"]);
        command.arg(&self.folder);
        forget_variables(&mut command);
        Ok(command)
    }

    /// Adds a disk like all others.
    ///
    /// # Errors
    /// As [`Archive::new`].
    pub(crate) fn add(&self, disk: u32) -> Result<(), Error> {
        let mut command = self.command()?;
        command.args(["disk", "add"]).arg(self.disk(disk));
        run(command.args(["--weight", "100"]), "sangam archive disk add")
    }

    /// Lets a disk go.
    ///
    /// # Errors
    /// As [`Archive::new`].
    pub(crate) fn remove(&self, disk: u32) -> Result<(), Error> {
        let mut command = self.command()?;
        command.args(["disk", "remove", &disk.to_string()]);
        run(&mut command, "sangam archive disk remove")
    }

    /// Moves what has to move, so many MiB in a second.
    ///
    /// # Errors
    /// [`Error::System`] if it cannot be started.
    pub(crate) fn settle(&self, rate: u32) -> Result<Moving, Error> {
        let failed = |error| Error::System("starting sangam archive settle", error);
        let bench = std::env::current_exe().map_err(failed)?;
        let settle = self.command()?;
        // Through the bench, so that it ends with it.
        let mut command = Command::new(bench);
        command.arg("exec").arg(settle.get_program());
        command.args(settle.get_args());
        command.args(["settle", "--rate", &rate.to_string()]);
        forget_variables(&mut command);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        child.map(Moving).map_err(failed)
    }

    /// Pieces of films on a disk.
    ///
    /// # Errors
    /// [`Error::File`].
    pub(crate) fn pieces(&self, disk: u32) -> Result<u64, Error> {
        let mut count = 0;
        let path = self.disk(disk);
        let list = |path: &Path| fs::read_dir(path).map_err(|error| Error::file(path, error));
        for film in list(&path)?.flatten() {
            if film.path().is_dir() {
                count += list(&film.path())?.count() as u64;
            }
        }
        Ok(count)
    }

    fn disk(&self, disk: u32) -> PathBuf {
        self.disks.join(format!("disk{disk}"))
    }
}

impl Moving {
    /// What became of it, once it has ended.
    ///
    /// # Errors
    /// [`Error::Broker`] if it failed, or says nonsense.
    pub(crate) fn ended(&mut self) -> Result<Option<Moved>, Error> {
        let failed = |error| Error::System("waiting for sangam archive settle", error);
        if self.0.try_wait().map_err(failed)?.is_none() {
            return Ok(None);
        }
        let (mut said, mut complaint) = (String::new(), String::new());
        if let Some(mut out) = self.0.stdout.take() {
            out.read_to_string(&mut said).map_err(failed)?;
        }
        if let Some(mut out) = self.0.stderr.take() {
            out.read_to_string(&mut complaint).map_err(failed)?;
        }
        let line = said.lines().last().unwrap_or_default();
        let found: Value = serde_json::from_str(line)
            .map_err(|_| Error::Broker(format!("sangam archive settle: {said}{complaint}")))?;
        let count = |name: &str| found[name].as_u64().unwrap_or(0);
        Ok(Some(Moved {
            moved: count("moved"),
            rebuilt: count("rebuilt"),
            bytes: count("bytes_written"),
            is_complete: found["complete"] == true,
        }))
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        // It has ended, or is not waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
