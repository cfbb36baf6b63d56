//! One `sangam record`.

use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use super::CpuTimes;
use super::broker::{sangam_binary, spawn};
use crate::error::Error;

const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// A running recorder; ends with the value.
pub(crate) struct Recorder {
    child: Child,
    log: PathBuf,
}

/// What it says each second, and in the end; other fields are of no interest here.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Recorded {
    pub(crate) tracks: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) safe_packets: u64,
    pub(crate) dropped: u64,
    pub(crate) unknown: u64,
}

impl Recorder {
    /// Records what a filter selects at a broker into a folder, and waits until it does.
    ///
    /// # Errors
    /// [`Error::Broker`] if it does not begin.
    pub(crate) fn start(broker: SocketAddr, filter: &str, folder: &Path) -> Result<Self, Error> {
        let log = folder.join("record.log");
        let (from, archive) = (broker.to_string(), folder.join("archive"));
        let arguments: [&OsStr; 7] = [
            "record".as_ref(),
            filter.as_ref(),
            "--json".as_ref(),
            "--from".as_ref(),
            from.as_ref(),
            "--archive".as_ref(),
            archive.as_ref(),
        ];
        let child = spawn(&sangam_binary()?, (&arguments, &log), None)?;
        let mut recorder = Self { child, log };
        recorder.wait(|recorder| recorder.said().is_some())?;
        Ok(recorder)
    }

    /// What it said last.
    pub(crate) fn said(&self) -> Option<Recorded> {
        let text = fs::read_to_string(&self.log).ok()?;
        let lines = text.lines().rev();
        let mut told = lines.filter_map(|line| serde_json::from_str(line).ok());
        told.next()
    }

    /// CPU time the process has used until now.
    pub(crate) fn cpu(&self) -> CpuTimes {
        CpuTimes::of(self.child.id())
    }

    /// Waits until it has recorded so many packets and made them safe.
    ///
    /// # Errors
    /// [`Error::Broker`] if it does not come so far.
    pub(crate) fn wait_for(&mut self, packets: u64) -> Result<(), Error> {
        self.wait(|recorder| {
            let said = recorder.said().unwrap_or_default();
            said.safe_packets.min(said.packets) >= packets
        })
    }

    /// Ends it in order; what it says in the end.
    ///
    /// # Errors
    /// [`Error::Broker`] if it says nothing.
    pub(crate) fn finish(mut self) -> Result<Recorded, Error> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let told = pid.map_or(Ok(()), |pid| kill_process(pid, Signal::TERM));
        told.map_err(|error| Error::System("a signal to a recorder", error.into()))?;
        self.wait(|recorder| !matches!(recorder.child.try_wait(), Ok(None)))?;
        let said = self.said();
        said.ok_or_else(|| Error::Broker("the recorder said nothing".to_owned()))
    }

    fn wait(&mut self, mut is_so: impl FnMut(&mut Self) -> bool) -> Result<(), Error> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if is_so(self) {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let said = fs::read_to_string(&self.log).unwrap_or_default();
                return Err(Error::Broker(format!(
                    "the recorder ended with {status}: {said}"
                )));
            }
            thread::sleep(POLL);
        }
        let said = self.said();
        Err(Error::Broker(format!(
            "the recorder did not come on: {said:?}"
        )))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
