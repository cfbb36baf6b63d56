//! One broker process.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sangam_emulator::Site;
use serde::Deserialize;

use super::config::Setup;
use super::{CpuTimes, Metrics, http};
use crate::error::Error;

/// Names another `sangam` than the one beside this program.
const BINARY: &str = "SANGAM_BIN";
/// Names another `sangam-sim` than the one beside this program.
pub(crate) const SIMULATOR: &str = "SANGAM_SIM_BIN";
const START_PATIENCE: Duration = Duration::from_secs(15);
const STOP_PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);
/// Lines of its log that are shown when a broker dies.
const LOG_TAIL: usize = 8;

/// A running broker; ends with the value.
pub(crate) struct Broker {
    child: Child,
    site: Option<Site>,
    /// Where its API is.
    pub(crate) http: SocketAddr,
    log: PathBuf,
    setup: Setup,
    folder: PathBuf,
    /// Where clients and neighbours send.
    pub(crate) udp: SocketAddr,
    /// By which the network knows it.
    pub(crate) id: String,
}

/// What `GET /v1/broker` answers; other fields are of no interest here.
#[derive(Deserialize)]
struct Description {
    id: String,
    udp: Vec<SocketAddr>,
}

impl Broker {
    /// Starts `sangam serve` with its files in `folder` and waits until it is ready.
    ///
    /// # Errors
    /// [`Error::Broker`] with the end of its log if it is not ready in time.
    pub(crate) fn start(setup: &Setup, folder: &Path) -> Result<Self, Error> {
        let home = folder.join(format!("broker-{}", setup.number));
        fs::create_dir_all(&home).map_err(|error| Error::file(&home, error))?;
        let site = setup.site.clone();
        let http = free_port(site.as_ref())?;
        let config = home.join("sangam.toml");
        let text = setup.to_toml(http, &home.to_string_lossy());
        fs::write(&config, text).map_err(|error| Error::file(&config, error))?;
        let sangam = match &setup.program {
            Some(program) => program.clone(),
            None => sangam_binary()?,
        };
        if setup.is_certified() {
            certify(&sangam, &home, (folder, site.as_ref()))?;
        }
        let log = home.join("log");
        let serve: [&OsStr; 3] = ["serve".as_ref(), "--config".as_ref(), config.as_ref()];
        let child = spawn(&sangam, (&serve, &log), site.as_ref())?;
        let udp = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut broker = Self {
            child,
            site,
            http,
            log,
            setup: setup.clone(),
            folder: folder.to_owned(),
            udp,
            id: String::new(),
        };
        broker.wait_until_ready()?;
        (broker.id, broker.udp) = broker.describe()?;
        Ok(broker)
    }

    /// Starts it once more where it was, in a new life, and waits until it is ready. It has to be
    /// dead.
    ///
    /// # Errors
    /// As [`Broker::start`].
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        let setup = Setup {
            port: self.udp.port(),
            ..self.setup.clone()
        };
        let folder = self.folder.clone();
        *self = Self::start(&setup, &folder)?;
        Ok(())
    }

    /// Starts it once more as [`Broker::restart`], with another program.
    ///
    /// # Errors
    /// As [`Broker::start`].
    pub(crate) fn upgrade(&mut self, program: Option<PathBuf>) -> Result<(), Error> {
        self.setup.program = program;
        self.restart()
    }

    /// Where it has its files.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.join(format!("broker-{}", self.setup.number))
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the process, without a word to anybody.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel refuses.
    pub(crate) fn kill(&mut self) -> Result<(), Error> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map_err(|error| Error::System("killing a broker", error))?;
        Ok(())
    }

    /// Sends the process a signal.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel refuses.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Error> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        pid.map_or(Ok(()), |pid| kill_process(pid, signal))
            .map_err(|error| Error::System("a signal to a broker", error.into()))
    }

    /// The broker's counters now.
    ///
    /// # Errors
    /// [`Error::Broker`] if it does not answer.
    pub(crate) fn metrics(&self) -> Result<Metrics, Error> {
        self.get("/metrics").map(|text| Metrics::parse(&text))
    }

    /// CPU time the process has used until now.
    pub(crate) fn cpu(&self) -> CpuTimes {
        CpuTimes::of(self.child.id())
    }

    /// Posts a body; what comes back.
    ///
    /// # Errors
    /// [`Error::Broker`] if the answer is no success.
    pub(crate) fn post(&self, path: &str, kind: &str, body: &str) -> Result<String, Error> {
        self.answered(
            path,
            http::send("POST", self.site.as_ref(), (self.http, path), (kind, body)),
        )
    }

    /// Fixes what crossing the link to another broker costs, whatever is measured.
    ///
    /// # Errors
    /// [`Error::Broker`] if the answer is no success.
    pub(crate) fn weigh(&self, peer: &Self, weight: u16) -> Result<(), Error> {
        let path = format!("/v1/links/{}/weight", peer.id);
        let body = format!("{{\"weight\": {weight}}}");
        let put = http::send(
            "PUT",
            self.site.as_ref(),
            (self.http, &path),
            ("application/json", &body),
        );
        self.answered(&path, put).map(drop)
    }

    fn answered(&self, path: &str, answer: io::Result<(u16, String)>) -> Result<String, Error> {
        match answer {
            Ok((200..=299, answer)) => Ok(answer),
            Ok((status, answer)) => {
                Err(self.failed(&format!("answered {status} to {path}: {answer}")))
            }
            Err(error) => Err(self.failed(&format!("did not answer {path}: {error}"))),
        }
    }

    fn wait_until_ready(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        while begun.elapsed() < START_PATIENCE {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.failed(&format!("ended with {status}")));
            }
            if self
                .request("/readyz")
                .is_ok_and(|(status, _)| status == 200)
            {
                return Ok(());
            }
            thread::sleep(POLL);
        }
        Err(self.failed("was not ready in time"))
    }

    fn describe(&self) -> Result<(String, SocketAddr), Error> {
        let text = self.get("/v1/broker")?;
        let parsed: Result<Description, _> = serde_json::from_str(&text);
        let description = parsed.map_err(|error| self.failed(&format!("said {text}: {error}")))?;
        let first = description.udp.first().copied();
        let first = first.ok_or_else(|| self.failed("has no UDP address"))?;
        Ok((description.id, first))
    }

    fn get(&self, path: &str) -> Result<String, Error> {
        match self.request(path) {
            Ok((200, body)) => Ok(body),
            Ok((status, _)) => Err(self.failed(&format!("answered {status} to {path}"))),
            Err(error) => Err(self.failed(&format!("did not answer {path}: {error}"))),
        }
    }

    fn request(&self, path: &str) -> io::Result<(u16, String)> {
        http::get(self.site.as_ref(), self.http, path)
    }

    fn failed(&self, what: &str) -> Error {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n");
        Error::Broker(format!("the broker {what}; its log ends:\n{tail}"))
    }

    fn stop(&mut self) {
        // It may be gone already, or frozen.
        let _ = self.signal(Signal::TERM);
        let _ = self.signal(Signal::CONT);
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

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Gives a broker a certificate of the run's authority, unless it has one.
fn certify(
    sangam: &Path,
    home: &Path,
    (folder, site): (&Path, Option<&Site>),
) -> Result<(), Error> {
    let authority = folder.join("ca");
    let path = |path: &Path| path.display().to_string();
    let (ca, out) = (path(&authority), path(home));
    if !authority.exists() {
        run(sangam, &["ca", "init", "--dir", &ca, "--name", "bench"])?;
    }
    if home.join("broker.crt").exists() {
        return Ok(());
    }
    let name = site.map_or("127.0.0.1".to_owned(), |site| site.v4().to_string());
    run(
        sangam,
        &["ca", "issue", "--dir", &ca, "--out", &out, "--name", &name],
    )
}

fn run(sangam: &Path, args: &[&str]) -> Result<(), Error> {
    let output = Command::new(sangam).args(args).output();
    let output = output.map_err(|error| Error::System("starting sangam ca", error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Broker(format!("sangam {}: {said}", args.join(" "))))
}

/// Starts `sangam` with these arguments, so that it ends with the bench.
pub(super) fn spawn(
    sangam: &Path,
    (arguments, log): (&[&OsStr], &Path),
    site: Option<&Site>,
) -> Result<Child, Error> {
    let output = File::create(log).map_err(|error| Error::file(log, error))?;
    let errors = output
        .try_clone()
        .map_err(|error| Error::file(log, error))?;
    let bench = std::env::current_exe().map_err(|error| Error::System("current_exe", error))?;
    let mut command = Command::new(bench);
    if let Some(site) = site {
        site.place(&mut command);
    }
    command
        .arg("exec")
        .arg(sangam)
        .args(arguments)
        // A broker refuses variables of its prefix that it does not know.
        .env_remove(BINARY)
        .env_remove(SIMULATOR)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .map_err(|error| Error::System("starting a broker", error))
}

/// `$SANGAM_BIN`, or the `sangam` beside this program.
pub(crate) fn sangam_binary() -> Result<PathBuf, Error> {
    let path = match std::env::var_os(BINARY) {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()
            .map_err(|error| Error::System("current_exe", error))?
            .with_file_name("sangam"),
    };
    if path.is_file() {
        return Ok(path);
    }
    Err(Error::Broker(format!(
        "there is no broker at {}; build it with `cargo build --release -p sangam-app` or name it \
         in SANGAM_BIN",
        path.display()
    )))
}

pub(crate) fn free_port(site: Option<&Site>) -> Result<SocketAddr, Error> {
    let find = || TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    site.map_or_else(find, |site| site.enter(find))
        .map_err(|error| Error::System("finding a free port", error))
}
