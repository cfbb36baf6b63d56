//! One archive node that serves films, and what it uses.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Quota, Stand};
use crate::error::Error;
use crate::process::{free_port, sangam_binary};

const START_PATIENCE: Duration = Duration::from_secs(20);
const STOP_PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);
/// A server may be far away.
const CALL: Duration = Duration::from_secs(1);
/// Where it listens on a host of its own.
const PORT: u16 = 8_554;
/// Of the times in /proc/PID/stat: the kernel's interface has the same everywhere (USER_HZ).
const TICKS_PER_S: f64 = 100.0;
/// The device of a host of the emulator's, and the bytes that it sent in /proc/PID/net/dev.
const DEVICE: &str = "eth0";
const SENT: usize = 8;
/// Lines of its log that are shown when it does not start.
const LOG_TAIL: usize = 8;

/// A running server of films; ends with the value.
pub(crate) struct Server {
    child: Child,
    /// Where players reach it.
    pub(crate) rtsp: SocketAddr,
    log: PathBuf,
}

/// What a process has used since it began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// CPU time of its own code.
    pub(crate) user: Duration,
    /// CPU time of the kernel for it.
    pub(crate) system: Duration,
    /// Bytes read from disks, past the page cache or into it.
    pub(crate) disk: u64,
    /// Bytes that its host sent, headers included; 0 if it has none of its own.
    pub(crate) net: u64,
}

impl Server {
    /// Serves the archive in `folder` to so many players by `sangam archive serve`.
    ///
    /// # Errors
    /// [`Error::Broker`] with the end of its log if it is not ready in time.
    pub(crate) fn start(
        (stand, number): (&Stand, usize),
        folder: &Path,
        players: usize,
        more: &[&str],
    ) -> Result<Self, Error> {
        let rtsp = address(stand, number)?;
        let (listen, players) = (rtsp.to_string(), players.to_string());
        let sangam = sangam_binary()?;
        let mut arguments: Vec<String> = ["archive", "--archive"].map(String::from).into();
        arguments.push(folder.display().to_string());
        let serve = ["serve", "--listen", &listen, "--players", &players];
        arguments.extend(serve.map(String::from));
        arguments.extend(["--players-per-address", &players].map(String::from));
        arguments.extend(more.iter().map(|word| (*word).to_owned()));
        let program = sangam.into_os_string();
        Self::run((stand, number), rtsp, folder, |command| {
            command.arg(program).args(arguments);
        })
    }

    /// Runs any program that serves films by RTSP at this address.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub(crate) fn run(
        (stand, number): (&Stand, usize),
        rtsp: SocketAddr,
        folder: &Path,
        what: impl FnOnce(&mut Command),
    ) -> Result<Self, Error> {
        let log = folder.join(format!("server-{number}.log"));
        let output = File::create(&log).map_err(|error| Error::file(&log, error))?;
        let errors = output
            .try_clone()
            .map_err(|error| Error::file(&log, error))?;
        let bench = std::env::current_exe().map_err(|error| Error::System("current_exe", error))?;
        let mut command = stand.command(number, bench);
        command.arg("exec");
        what(&mut command);
        forget_variables(&mut command);
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn();
        let child = child.map_err(|error| Error::System("starting a server of films", error))?;
        let mut server = Self { child, rtsp, log };
        server.wait_until_ready(stand)?;
        Ok(server)
    }

    /// Where a server that is to be run can listen.
    ///
    /// # Errors
    /// [`Error::System`] if no port is free.
    pub(crate) fn address(stand: &Stand, number: usize) -> Result<SocketAddr, Error> {
        address(stand, number)
    }

    /// Keeps it to a share of the processor.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel refuses.
    pub(crate) fn keep_to(&self, quota: &Quota) -> Result<(), Error> {
        quota.hold(self.child.id())
    }

    /// Kills it: it says goodbye to nobody.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel refuses.
    pub(crate) fn kill(&mut self) -> Result<(), Error> {
        let killed = self.child.kill();
        killed.map_err(|error| Error::System("killing a server of films", error))
    }

    /// What it has used until now.
    pub(crate) fn load(&self) -> Load {
        Load::of(self.child.id())
    }

    fn wait_until_ready(&mut self, stand: &Stand) -> Result<(), Error> {
        let begun = Instant::now();
        while begun.elapsed() < START_PATIENCE {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.failed(&format!("ended with {status}")));
            }
            let rtsp = self.rtsp;
            let call = || TcpStream::connect_timeout(&rtsp, CALL);
            if stand.among_viewers(call).is_ok() {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        Err(self.failed("was not ready in time"))
    }

    fn failed(&self, what: &str) -> Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n");
        Error::Broker(format!("the server of films {what}; its log ends:\n{tail}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // It may be gone already; its number is nobody else's until it is waited for.
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        let begun = Instant::now();
        while begun.elapsed() < STOP_PATIENCE {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Load {
    fn of(pid: u32) -> Self {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
        let stat = read("stat").unwrap_or_default();
        let io = read("io").unwrap_or_default();
        // The name in brackets may have spaces; user and system time are fields 14 and 15.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks = |place: usize| {
            let field = fields.split_ascii_whitespace().nth(place);
            let ticks: u64 = field.and_then(|field| field.parse().ok()).unwrap_or(0);
            Duration::from_secs_f64(ticks as f64 / TICKS_PER_S)
        };
        // A process sees the devices of its own network.
        let devices = read("net/dev").unwrap_or_default();
        let sent = devices.lines().find_map(|line| {
            let counters = line.trim_start().strip_prefix(DEVICE)?.strip_prefix(':')?;
            counters.split_ascii_whitespace().nth(SENT)?.parse().ok()
        });
        let disk = io
            .lines()
            .find_map(|line| line.strip_prefix("read_bytes: "));
        Self {
            user: ticks(11),
            system: ticks(12),
            disk: disk
                .and_then(|bytes| bytes.trim().parse().ok())
                .unwrap_or(0),
            net: sent.unwrap_or(0),
        }
    }

    /// What was used since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            disk: self.disk.saturating_sub(before.disk),
            net: self.net.saturating_sub(before.net),
        }
    }

    /// CPU time of both kinds.
    pub(crate) fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

/// Leaves out variables of this process that `sangam` would refuse: those of its prefix that it
/// does not know.
pub(super) fn forget_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SANGAM_") {
            command.env_remove(name);
        }
    }
}

fn address(stand: &Stand, number: usize) -> Result<SocketAddr, Error> {
    match stand.has_hosts() {
        true => Ok(SocketAddr::from((stand.address(number), PORT))),
        false => free_port(None),
    }
}
