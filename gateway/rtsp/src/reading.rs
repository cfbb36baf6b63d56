//! Threads that wait for disks, so that the server does not.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sangam_archive::{Archive, Folder, Recording, Replay, Replayed};
use sangam_io::wake::Waker;

use crate::film::Film;
use crate::limits::{CHUNK, CHUNK_MAX, JOBS_MAX};

/// Readers: while one waits for a slow disk, others find what is in memory.
const THREADS: usize = 4;
/// What there is in the archive is looked up again after so long.
const CATALOGUE_AGE: Duration = Duration::from_secs(1);

/// What is to be read.
#[derive(Debug)]
pub(crate) enum Job {
    /// Find a recording for a connection.
    Open(u64, String),
    /// Read on for a session, from elsewhere if it says so.
    Read(u64, Box<Reader>, Option<Duration>),
}

/// What was read.
#[derive(Debug)]
pub(crate) enum Done {
    /// A recording, or `None` if there is none of this name.
    Opened(u64, io::Result<Option<Arc<Film>>>),
    /// The next packets of a session, with the reader.
    Read(u64, Box<Reader>, io::Result<Chunk>),
}

/// Packets in the order in which they came.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// If it was looked for another place: where that is, since the begin of the recording.
    pub(crate) start: Option<Duration>,
    /// The packets.
    pub(crate) packets: Vec<Replayed>,
    /// Whether nothing follows.
    pub(crate) is_last: bool,
}

/// Reads one film.
#[derive(Debug)]
pub(crate) struct Reader {
    replay: Replay<Folder>,
    tracks: Vec<usize>,
}

/// The threads.
#[derive(Debug)]
pub(crate) struct Readers {
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
    /// Asked for, and not done yet.
    waiting: usize,
}

/// All that one thread has.
struct Shared {
    folder: PathBuf,
    jobs: Mutex<Receiver<Job>>,
    /// When it was looked up, and what there was.
    catalogue: Mutex<Option<(Instant, Vec<Recording>)>>,
}

impl Readers {
    /// Threads that read the archive in `folder` and wake the server.
    ///
    /// # Errors
    /// This machine has no threads for them.
    pub(crate) fn start(folder: PathBuf, waker: &dyn Fn() -> Waker) -> io::Result<Self> {
        let (jobs, inbox) = channel();
        let (outbox, done) = channel();
        let shared = Arc::new(Shared {
            folder,
            jobs: Mutex::new(inbox),
            catalogue: Mutex::new(None),
        });
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            let (shared, outbox, waker) = (shared.clone(), outbox.clone(), waker());
            let thread = thread::Builder::new().name("sangam-film".to_owned());
            threads.push(thread.spawn(move || work(&shared, &outbox, &waker))?);
        }
        Ok(Self {
            jobs: Some(jobs),
            done,
            threads,
            waiting: 0,
        })
    }

    /// Whether no more should be asked for: clients that go away leave what they asked for.
    pub(crate) const fn is_full(&self) -> bool {
        self.waiting >= JOBS_MAX
    }

    /// Asks for something.
    pub(crate) fn ask(&mut self, job: Job) {
        self.waiting += 1;
        let sent = self.jobs.as_ref().map(|jobs| jobs.send(job));
        if !matches!(sent, Some(Ok(()))) {
            tracing::error!("nobody reads films any more");
        }
    }

    /// The next that is done.
    pub(crate) fn done(&mut self) -> Option<Done> {
        let done = self.done.try_recv().ok()?;
        self.waiting -= 1;
        Some(done)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a reader of films had panicked");
            }
        }
    }
}

fn work(shared: &Shared, outbox: &Sender<Done>, waker: &Waker) {
    loop {
        let jobs = shared.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let job = jobs.recv();
        drop(jobs);
        let done = match job {
            Ok(Job::Open(connection, name)) => Done::Opened(connection, shared.open(&name)),
            Ok(Job::Read(session, mut reader, seek)) => {
                let chunk = reader.read(seek);
                Done::Read(session, reader, chunk)
            }
            Err(_) => return,
        };
        if outbox.send(done).is_err() {
            return;
        }
        waker.wake();
    }
}

impl Shared {
    /// The recording with this name, the latest of several, or the one whose number begins so.
    fn open(&self, name: &str) -> io::Result<Option<Arc<Film>>> {
        let known = self.catalogue.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        let all = match known.take() {
            Some((since, all)) if since.elapsed() < CATALOGUE_AGE => (since, all),
            _ => (Instant::now(), Archive::new(&self.folder).recordings()?),
        };
        let all = &known.insert(all).1;
        let named = all.iter().rev().find(|one| one.name == name);
        let mut numbered = all.iter().filter(|one| {
            let number = one.id.to_string();
            !name.is_empty() && number.starts_with(name)
        });
        let found = named.or_else(|| match (numbered.next(), numbered.next()) {
            (Some(one), None) => Some(one),
            _ => None,
        });
        Ok(found.cloned().and_then(Film::new).map(Arc::new))
    }
}

impl Reader {
    /// Reads a film of the archive in `folder`.
    pub(crate) fn new(folder: &std::path::Path, film: &Film) -> Self {
        let medium = Archive::new(folder).reader();
        Self {
            replay: Replay::new(medium, film.recording.clone()),
            tracks: film.tracks.clone(),
        }
    }

    fn read(&mut self, seek: Option<Duration>) -> io::Result<Chunk> {
        let start = seek.map(|to| self.replay.seek(to, &self.tracks));
        let mut chunk = Chunk {
            start: start.transpose()?,
            packets: Vec::new(),
            is_last: false,
        };
        let mut bytes = 0;
        loop {
            let Some(next) = self.replay.pull()? else {
                chunk.is_last = true;
                return Ok(chunk);
            };
            if next.is_rtcp || !self.tracks.contains(&next.track) {
                continue;
            }
            bytes += next.payload.len();
            let first = chunk.packets.first().map_or(next.at, |first| first.at);
            let span = next.at.saturating_sub(first);
            chunk.packets.push(next);
            if span >= CHUNK || bytes >= CHUNK_MAX {
                return Ok(chunk);
            }
        }
    }
}
