//! A process that plans ways for a network of brokers.

use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use sangam_emulator::Site;

use super::broker::{free_port, sangam_binary, spawn};
use super::{Broker, CpuTimes, Metrics, http};
use crate::error::Error;

/// A running `sangam monitor --schedule`; ends with the value.
pub(crate) struct Scheduler {
    child: Child,
    site: Option<Site>,
    http: SocketAddr,
    log: PathBuf,
}

impl Scheduler {
    /// Starts it where this broker is, which it listens and speaks through.
    ///
    /// # Errors
    /// [`Error::System`] if it cannot be started.
    pub(crate) fn start(
        method: &'static str,
        (broker, site): (&Broker, Option<&Site>),
        folder: &Path,
    ) -> Result<Self, Error> {
        let http = free_port(site)?;
        let (address, listens) = (broker.udp.to_string(), http.to_string());
        let arguments = [
            "monitor",
            "--broker",
            &address,
            "--schedule",
            method,
            "--http",
            &listens,
        ];
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let log = folder.join("scheduler-log");
        Ok(Self {
            child: spawn(&sangam_binary()?, (&arguments, &log), site)?,
            site: site.cloned(),
            http,
            log,
        })
    }

    /// Its counters now; none while it has not made a plan.
    pub(crate) fn metrics(&self) -> Option<Metrics> {
        let answer = http::get(self.site.as_ref(), self.http, "/metrics").ok()?;
        let metrics = Metrics::parse(&answer.1);
        (metrics.sum("sangam_plan_changed_total", "") > 0.0).then_some(metrics)
    }

    /// CPU time the process has used until now.
    pub(crate) fn cpu(&self) -> CpuTimes {
        CpuTimes::of(self.child.id())
    }

    /// What it said, for whoever waited for it in vain.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // It may be gone already; its number is nobody else's until it is waited for.
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        let _ = self.child.wait();
    }
}
