//! More and more viewers, and what each number of them gets.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use sangam_film::{Counts, Options, Pace, THRESHOLDS};
use sangam_io::clock;

use super::{Audience, Load, Look, Server, Shelf, Stand, Wish};
use crate::error::Error;
use crate::process::own_cpu;
use crate::report::Row;

/// A viewer's buffer: 10.7 MB of a DVD. `film-smoothing` says why: with less a film's rich scenes
/// make more changes of rate than the paper's clients asked for.
pub(crate) const BUFFER: Duration = Duration::from_secs(16);
/// From when viewers come until they are counted.
pub(crate) const SETTLE: Duration = Duration::from_secs(4);
/// What has to come of what is wanted.
const HOLDS: f64 = 0.99;
/// Of all packets may be missing when they are to be played.
const LOST: f64 = 0.001;
/// So many steps that do not hold are enough.
const FAILS_MAX: usize = 3;
/// So often others take the places of those who came to the end of their films.
const ROUNDS: usize = 4;
/// Between viewers of one step.
const APART: Duration = Duration::from_millis(10);

/// Servers, and the viewers of the first.
pub(crate) struct Ramp<'a> {
    shelf: &'a Shelf,
    servers: Vec<Server>,
    audience: Audience,
    joined: usize,
    pace: Pace,
    /// The path before a film's name.
    path: &'static str,
    stay: f64,
}

/// What one number of viewers got.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    pub(crate) viewers: usize,
    pub(crate) seconds: f64,
    /// Megabits per second and viewer: what came, and what was to come.
    pub(crate) got_mbps: f64,
    pub(crate) wanted_mbps: f64,
    /// Of each server.
    pub(crate) loads: Vec<Load>,
    /// Bytes of film that came.
    pub(crate) bytes: u64,
    pub(crate) rate_changes: u64,
    /// Viewers that ran out of film.
    pub(crate) starved: usize,
    /// Packets that were not there when they were to be played.
    pub(crate) lost: u64,
    /// Packets that were played.
    pub(crate) whole: u64,
    pub(crate) repaired: u64,
    /// Gaps in the nodes' own numbers, and packets asked for again.
    pub(crate) missed: u64,
    pub(crate) asked: u64,
    /// Viewers that see nothing, and why.
    pub(crate) failed: Option<String>,
    /// Datagrams that the viewers' socket had no room for.
    pub(crate) overflow: u64,
    pub(crate) viewers_cpu: Duration,
}

impl<'a> Ramp<'a> {
    /// Nobody yet.
    pub(crate) fn new(
        stand: &Arc<Stand>,
        shelf: &'a Shelf,
        servers: Vec<Server>,
    ) -> Result<Self, Error> {
        Ok(Self {
            shelf,
            servers,
            audience: Audience::open(stand)?,
            joined: 0,
            pace: Pace::Average,
            path: "/archive/",
            stay: 60.0,
        })
    }

    /// Viewers have at least so many seconds of their film before them.
    pub(crate) fn staying(mut self, seconds: f64) -> Self {
        self.stay = seconds;
        self
    }

    /// Of a server that has its films elsewhere, and plays them from their begin only.
    pub(crate) fn played_from_begin(mut self, path: &'static str) -> Self {
        (self.path, self.stay) = (path, f64::INFINITY);
        self
    }

    /// Steps of `span` with so many viewers at first, so many more each time, and so many at most;
    /// `told` hears of each. The last number that held, as all before it did.
    ///
    /// # Errors
    /// If there are no viewers any more.
    pub(crate) fn climb(
        &mut self,
        (first, more, most): (usize, usize, usize),
        span: Duration,
        mut told: impl FnMut(&Step),
    ) -> Result<usize, Error> {
        let (mut best, mut fails) = (0, 0);
        let mut wanted = first;
        while wanted <= most && fails < FAILS_MAX {
            let step = self.step(wanted, span)?;
            told(&step);
            match step.holds() {
                true if fails == 0 => best = step.viewers,
                true => {}
                false => fails += 1,
            }
            wanted += more;
        }
        Ok(best)
    }

    /// Lets viewers in until there are so many, and measures.
    fn step(&mut self, viewers: usize, span: Duration) -> Result<Step, Error> {
        self.fill(viewers)?;
        self.measure(span)
    }

    /// Lets viewers in until films come to so many, and gives them time to begin.
    ///
    /// # Errors
    /// If there are no viewers any more.
    pub(crate) fn fill(&mut self, viewers: usize) -> Result<(), Error> {
        let begun = Instant::now();
        for round in 0..ROUNDS {
            let lack = viewers.saturating_sub(self.watching()?);
            for _ in 0..lack {
                self.audience.join(self.wish(self.joined));
                self.joined += 1;
                thread::sleep(APART);
            }
            match (round, lack) {
                (0, _) => thread::sleep(SETTLE.saturating_sub(begun.elapsed()).max(SETTLE / 2)),
                (_, 0) => break,
                _ => thread::sleep(SETTLE / 4),
            }
        }
        Ok(())
    }

    /// To how many films come, or are about to.
    fn watching(&self) -> Result<usize, Error> {
        let looks = self.audience.looks()?;
        Ok(self.joined - looks.iter().filter(|look| look.has_all).count())
    }

    /// Kills one of the servers, and looks from then on how long nothing comes to whom.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel refuses.
    pub(crate) fn kill(&mut self, server: usize) -> Result<(), Error> {
        self.audience.mark();
        self.servers.get_mut(server).map_or(Ok(()), Server::kill)
    }

    /// Whose front a server is, and what each of all viewers sees.
    ///
    /// # Errors
    /// If there are no viewers any more.
    pub(crate) fn looks(&self, server: usize) -> Result<Vec<(bool, Look)>, Error> {
        let looks = self.audience.looks()?.into_iter().enumerate();
        let is_front = |viewer| viewer % self.servers.len() == server;
        Ok(looks
            .map(|(viewer, look)| (is_front(viewer), look))
            .collect())
    }

    /// What everybody gets within so long.
    ///
    /// # Errors
    /// If there are no viewers any more.
    pub(crate) fn measure(&mut self, span: Duration) -> Result<Step, Error> {
        let loads =
            |servers: &[Server]| -> Vec<Load> { servers.iter().map(Server::load).collect() };
        let (before, used, cpu) = (self.audience.looks()?, loads(&self.servers), own_cpu());
        let (overflow, _) = self.audience.troubles();
        let (from, at) = (Instant::now(), clock::now());
        thread::sleep(span);
        let (after, now) = (self.audience.looks()?, loads(&self.servers));
        let seconds = from.elapsed().as_secs_f64();
        let playing = before.iter().zip(&after).enumerate();
        let playing = playing.filter(|(_, (look, _))| !look.has_all);
        let wanted = playing.map(|(number, (look, after))| {
            if look.is_direct {
                // At the film's mean rate, unless it asked for less.
                return self.shelf.mbps() * (after.wanted_s - look.wanted_s) / seconds;
            }
            let (film, _) = self.shelf.choice(number, self.stay);
            let place = look.place + at.since(look.joined).as_secs_f64();
            self.shelf.needs(film, place, seconds)
        });
        let wanted: Vec<f64> = wanted.collect();
        let viewers = wanted.len();
        let mean = |sum: f64| sum / viewers.max(1) as f64;
        let sum = |count: fn(&Counts) -> u64| count_all(&after, count) - count_all(&before, count);
        let starved = before.iter().zip(&after);
        let starved = starved.filter(|(before, after)| is_starved(before, after));
        let bytes = sum(|counts| counts.bytes);
        let spent = now.iter().zip(&used).map(|(now, then)| now.since(then));
        Ok(Step {
            viewers,
            seconds,
            got_mbps: mean(bytes as f64 * 8e-6 / seconds),
            wanted_mbps: mean(wanted.iter().sum()),
            loads: spent.collect(),
            bytes,
            rate_changes: sum(|counts| counts.rate_changes),
            starved: starved.count(),
            lost: sum(|counts| counts.played.lost),
            whole: sum(|counts| counts.played.played),
            repaired: sum(|counts| counts.repaired),
            missed: sum(|counts| counts.missed),
            asked: sum(|counts| counts.asked),
            failed: after.iter().find_map(|look| look.failed.clone()),
            overflow: self.audience.troubles().0 - overflow,
            viewers_cpu: own_cpu() - cpu,
        })
    }

    fn wish(&self, viewer: usize) -> Wish {
        let (film, second) = self.shelf.choice(viewer, self.stay);
        // Requests come to all servers in turn.
        let server = self.servers[viewer % self.servers.len()].rtsp;
        let url = format!("rtsp://{server}{}{}", self.path, self.shelf.names[film]);
        let options = Options {
            url,
            ports: self.audience.ports,
            from: Duration::from_secs_f64(second),
            pace: self.pace,
            buffer: BUFFER,
            begin: 0.5,
            thresholds: Some(THRESHOLDS),
            repair: true,
            direct: true,
            login: None,
            fronts: Vec::new(),
        };
        Wish { server, options }
    }
}

fn count_all(looks: &[Look], count: fn(&Counts) -> u64) -> u64 {
    looks.iter().map(|look| count(&look.counts)).sum()
}

/// It ran out of film, or has none, and has not come to the end.
fn is_starved(before: &Look, after: &Look) -> bool {
    let has_none = !after.is_playing && !after.has_ended;
    after.counts.played.starved > before.counts.played.starved || has_none
}

impl Step {
    /// Whether everybody got what the film needs, in the mean and at every moment, and whole.
    pub(crate) fn holds(&self) -> bool {
        let is_enough = self.got_mbps >= HOLDS * self.wanted_mbps;
        let is_whole = self.lost as f64 <= LOST * (self.lost + self.whole) as f64;
        self.failed.is_none() && is_enough && is_whole && self.starved == 0
    }

    /// Processors that all servers together used.
    pub(crate) fn cores(&self) -> f64 {
        let cpu: Duration = self.loads.iter().map(Load::cpu).sum();
        cpu.as_secs_f64() / self.seconds
    }

    /// Streams that one processor could serve.
    pub(crate) fn streams_per_core(&self) -> f64 {
        self.viewers as f64 / self.cores()
    }

    /// As reports have it.
    pub(crate) fn to_row(&self, network: &str) -> Row {
        let per_s = |amount: f64| amount / self.seconds;
        let percent = |time: Duration| 100.0 * per_s(time.as_secs_f64());
        let system: Duration = self.loads.iter().map(|load| load.system).sum();
        let disk: u64 = self.loads.iter().map(|load| load.disk).sum();
        let (disk, read) = (per_s(disk as f64 / 1e6), per_s(self.bytes as f64 / 1e6));
        let mut row = Row::default()
            .with("network", network)
            .with("viewers", self.viewers)
            .with("viewer_mbps", self.got_mbps)
            .with("wanted_mbps", self.wanted_mbps)
            .with("net_mbps", per_s(self.bytes as f64 * 8e-6))
            .with("cpu_percent", 100.0 * self.cores())
            .with("system_percent", percent(system))
            .with("disk_mbyte_per_s", disk)
            // What is read ahead is from disk before it is sent.
            .with("cache_mbyte_per_s", (read - disk).max(0.0))
            .with("read_mbyte_per_s", read.max(disk))
            .with("rate_changes_per_s", per_s(self.rate_changes as f64))
            .with("starved", self.starved)
            .with("lost", self.lost)
            .with("repaired", self.repaired)
            .with("streams_per_core", self.streams_per_core())
            .with("viewers_cpu_percent", percent(self.viewers_cpu));
        if self.overflow > 0 {
            row.set("passive_overflow", self.overflow);
        }
        if let Some(why) = &self.failed {
            row.set("failed", why.as_str());
        }
        row
    }
}
