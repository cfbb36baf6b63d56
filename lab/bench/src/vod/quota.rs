//! A share of the processor for one process, by the kernel's control groups, version 2 or 1.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::error::Error;

/// Short, so that a process that used up its share waits for milliseconds and not for a tenth of a
/// second.
const PERIOD_US: u64 = 10_000;
/// A group goes once its last process was reaped.
const TRIES: usize = 50;
const NAP: Duration = Duration::from_millis(20);

static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// A group; ends with the value, after its processes.
pub(crate) struct Quota(PathBuf);

impl Quota {
    /// A group that gets at most so many percent of one processor.
    ///
    /// # Errors
    /// [`Error::System`] with what is lacking.
    pub(crate) fn new(percent: f64) -> Result<Self, Error> {
        let failed = |error| Error::System("a control group for the processor's time", error);
        let (root, is_second) = root().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let group = root.join(format!("sangam-bench-{}-{number}", std::process::id()));
        fs::create_dir(&group).map_err(failed)?;
        let quota = Self(group);
        let us = (PERIOD_US as f64 * percent / 100.0) as u64;
        let set = |name: &str, text: String| fs::write(quota.0.join(name), text);
        let done = match is_second {
            true => set("cpu.max", format!("{us} {PERIOD_US}")),
            false => set("cpu.cfs_period_us", PERIOD_US.to_string())
                .and_then(|()| set("cpu.cfs_quota_us", us.to_string())),
        };
        done.map_err(failed)?;
        Ok(quota)
    }

    /// Puts a process with all its threads into the group.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel refuses.
    pub(crate) fn hold(&self, pid: u32) -> Result<(), Error> {
        let put = fs::write(self.0.join("cgroup.procs"), pid.to_string());
        put.map_err(|error| Error::System("putting a process into a control group", error))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(NAP);
        }
    }
}

/// Where groups are made, and whether those are of version 2.
fn root() -> Option<(PathBuf, bool)> {
    for place in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
        let place = Path::new(place);
        let controllers = fs::read_to_string(place.join("cgroup.controllers"));
        if controllers.is_ok_and(|all| all.split_whitespace().any(|one| one == "cpu")) {
            // The root's children have the controllers that it passes on.
            let passed = fs::write(place.join("cgroup.subtree_control"), "+cpu");
            return passed.is_ok().then(|| (place.to_owned(), true));
        }
    }
    let first = Path::new("/sys/fs/cgroup/cpu");
    let is_first = first.join("cpu.cfs_quota_us").exists() || first.join("cpu.shares").exists();
    is_first.then(|| (first.to_owned(), false))
}
