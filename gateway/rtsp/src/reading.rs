//! Threads that wait for disks, so that the server does not.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rtsp_types::StatusCode;
use sangam_archive::films::{Films, Play};
use sangam_archive::{Archive, Catalogue, Folder, Replay, Replayed, Timeline};
use sangam_io::wake::Waker;

use crate::film::{Blocks, Film};
use crate::limits::{CHUNK, CHUNK_MAX, JOBS_MAX};

/// Readers: while one waits for a slow disk, others find what is in memory.
const THREADS: usize = 4;
/// Who had to wait so long for what he reads is read by other threads the next time.
const SLOW: Duration = Duration::from_millis(500);

/// Read on, or from elsewhere if it says so.
pub(crate) type Job = (Box<Reader>, Option<Seek>);

/// Where to read from, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seek {
    /// Since the begin of the recording.
    pub(crate) to: Duration,
    /// Up to where, if that is known.
    pub(crate) until: Option<Duration>,
    /// How much faster it is shown; below 0 it is read back.
    pub(crate) scale: f64,
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
    /// And how fast it is, if not as it was to be.
    pub(crate) scale: Option<f64>,
    /// And what senders say of their clocks from there on.
    pub(crate) clocks: Option<Box<Timeline>>,
    /// The packets.
    pub(crate) packets: Vec<Replayed>,
    /// Whether nothing follows.
    pub(crate) is_last: bool,
}

/// Reads one film.
#[derive(Debug)]
pub(crate) struct Reader {
    source: Source,
    tracks: Vec<usize>,
    /// As it was sought.
    scale: f64,
    /// Whether it reads from a store, over a network.
    is_far: bool,
    /// Whether what it reads is slow to come, as a disk fails.
    is_slow: bool,
}

/// What it reads.
#[derive(Debug)]
enum Source {
    /// A recording in the log.
    Log(Box<Replay<Folder>>),
    /// A film in blocks.
    Blocks(Play),
}

/// The threads.
#[derive(Debug)]
pub(crate) struct Readers {
    /// For each connection, the name of a recording; for each session, what it plays. `None` once
    /// the threads are to end.
    opens: Option<Sender<(u64, String)>>,
    reads: Option<Sender<(u64, Job)>>,
    /// The same of those that are slow, so that they wait for each other alone.
    slow: Option<Sender<(u64, Job)>>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
    /// Asked for, and not done yet.
    waiting: usize,
}

/// What there is in an archive.
struct Shelf {
    films: Arc<Films>,
    recordings: Catalogue,
}

impl Readers {
    /// Threads that read the archive in `folder` and wake the server. One looks up what there is:
    /// that reads every segment's index, and films do not wait behind it.
    ///
    /// # Errors
    /// This machine has no threads for them.
    pub(crate) fn start(
        folder: PathBuf,
        films: Arc<Films>,
        waker: &dyn Fn() -> Waker,
    ) -> io::Result<Self> {
        let (opens, names) = channel::<(u64, String)>();
        let (outbox, done) = channel();
        let mut shelf = Shelf::new(&folder, films);
        let open = move || {
            let (connection, name) = names.recv().ok()?;
            Some(Done::Opened(connection, shelf.open(&name)))
        };
        let mut threads = vec![spawn(open, outbox.clone(), waker())?];
        let [reads, slow] = [(); 2].map(|()| {
            let (jobs, inbox) = channel();
            (jobs, Arc::new(Mutex::new(inbox)))
        });
        for (is_quick, (_, inbox)) in [(true, &reads), (false, &slow)] {
            for _ in 0..THREADS {
                let (inbox, slow) = (inbox.clone(), slow.0.clone());
                let slow = is_quick.then_some(slow);
                let read = move || read(&inbox, slow.as_ref());
                threads.push(spawn(read, outbox.clone(), waker())?);
            }
        }
        Ok(Self {
            opens: Some(opens),
            reads: Some(reads.0),
            slow: Some(slow.0),
            done,
            threads,
            waiting: 0,
        })
    }

    /// Whether no more should be asked for: clients that go away leave what they asked for.
    pub(crate) const fn is_full(&self) -> bool {
        self.waiting >= JOBS_MAX
    }

    /// Finds a recording for a connection.
    pub(crate) fn open(&mut self, connection: u64, name: String) {
        self.waiting += 1;
        let sent = self.opens.as_ref();
        check(sent.is_some_and(|opens| opens.send((connection, name)).is_ok()));
    }

    /// Reads for a session.
    pub(crate) fn read(&mut self, session: u64, job: Job) {
        self.waiting += 1;
        let sent = match job.0.is_far || job.0.is_slow {
            true => self.slow.as_ref(),
            false => self.reads.as_ref(),
        };
        check(sent.is_some_and(|reads| reads.send((session, job)).is_ok()));
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
        (self.opens, self.reads, self.slow) = (None, None, None);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a reader of films had panicked");
            }
        }
    }
}

/// What a client is told of a film that cannot be read: it was removed, may be read later (a store
/// does not answer, a disk is slow), or neither.
pub(crate) fn status_of(error: &io::Error) -> StatusCode {
    match error.kind() {
        ErrorKind::NotFound => StatusCode::NotFound,
        ErrorKind::TimedOut | ErrorKind::HostUnreachable => StatusCode::ServiceUnavailable,
        _ => StatusCode::InternalServerError,
    }
}

fn check(is_sent: bool) {
    if !is_sent {
        tracing::error!("nobody reads films any more");
    }
}

/// A thread that works until there is nothing more to come.
fn spawn(
    mut work: impl FnMut() -> Option<Done> + Send + 'static,
    outbox: Sender<Done>,
    waker: Waker,
) -> io::Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name("sangam-film".to_owned());
    thread.spawn(move || {
        while let Some(done) = work() {
            if outbox.send(done).is_err() {
                return;
            }
            waker.wake();
        }
    })
}

/// The next read. What would have to be waited for is left to `slow`, if there is that.
fn read(jobs: &Mutex<Receiver<(u64, Job)>>, slow: Option<&Sender<(u64, Job)>>) -> Option<Done> {
    loop {
        let inbox = jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let job = inbox.recv();
        drop(inbox);
        let (session, (mut reader, seek)) = job.ok()?;
        let chunk = reader.read(seek, slow.is_none());
        let is_late = |error: &io::Error| error.kind() == ErrorKind::TimedOut;
        match (slow, &chunk) {
            (Some(slow), Err(error)) if is_late(error) => {
                reader.is_slow = true;
                if slow.send((session, (reader, seek))).is_err() {
                    // Nothing is to be done any more.
                    return None;
                }
            }
            _ => return Some(Done::Read(session, reader, chunk)),
        }
    }
}

impl Shelf {
    fn new(folder: &Path, films: Arc<Films>) -> Self {
        Self {
            films,
            recordings: Catalogue::new(Archive::new(folder)),
        }
    }

    /// The recording with this name, the latest of several, or the one whose number begins so; if
    /// there is none, the film.
    fn open(&mut self, name: &str) -> io::Result<Option<Arc<Film>>> {
        let found = self.recordings.find(name)?;
        // They come first, oldest first.
        let named = found.iter().rev().find(|one| one.name == name);
        let numbered = found.first().filter(|_| found.len() == 1);
        if let Some(found) = named.or(numbered) {
            return Ok(Film::new(found.clone()).map(Arc::new));
        }
        let found = self.films.find(name).map_err(io::Error::other)?;
        let film = found.and_then(|film| {
            let films = self.films.clone();
            Film::of_blocks(Blocks { films, film })
        });
        Ok(film.map(Arc::new))
    }
}

impl Reader {
    /// Reads a film of the archive in `folder`.
    pub(crate) fn new(folder: &Path, film: &Film) -> Self {
        let source = match &film.blocks {
            Some(Blocks { films, film }) => Source::Blocks(Play::new(films.clone(), film.clone())),
            None => {
                let medium = Archive::new(folder).reader();
                Source::Log(Box::new(Replay::new(medium, film.recording.clone())))
            }
        };
        Self {
            is_far: match &source {
                Source::Log(replay) => replay.medium().is_far(),
                Source::Blocks(play) => play.is_far(),
            },
            source,
            tracks: film.tracks.clone(),
            scale: 1.0,
            is_slow: false,
        }
    }

    fn read(&mut self, seek: Option<Seek>, is_patient: bool) -> io::Result<Chunk> {
        let begin = Instant::now();
        if let Source::Blocks(play) = &mut self.source {
            play.set_patient(is_patient);
        }
        let mut chunk = Chunk {
            start: None,
            scale: None,
            clocks: None,
            packets: Vec::new(),
            is_last: false,
        };
        if let Some(seek) = seek {
            chunk.start = Some(self.seek(seek)?);
            chunk.scale = Some(self.scale).filter(|scale| *scale != seek.scale);
            chunk.clocks = self.clocks()?.map(Box::new);
        }
        let done = self.fill(&mut chunk);
        self.is_slow = begin.elapsed() > SLOW;
        match done {
            Err(_) if !chunk.packets.is_empty() => {
                // What was read is not read again.
                self.is_slow = true;
                Ok(chunk)
            }
            done => done.map(|()| chunk),
        }
    }

    fn seek(&mut self, Seek { to, until, scale }: Seek) -> io::Result<Duration> {
        self.scale = scale;
        match &mut self.source {
            Source::Log(replay) if scale < 0.0 => replay.seek_back(to, &self.tracks),
            Source::Log(replay) => replay.seek(to, &self.tracks),
            Source::Blocks(play) => {
                let wound = match scale {
                    1.0 => None,
                    _ => play.wind(to, until, scale)?,
                };
                Ok(wound.unwrap_or_else(|| {
                    // Of a film without pictures nothing can be left out.
                    self.scale = 1.0;
                    play.seek(to)
                }))
            }
        }
    }

    /// Blocks have one clock. Backwards no sound is played that pictures could be in step with.
    fn clocks(&self) -> io::Result<Option<Timeline>> {
        match &self.source {
            Source::Log(replay) if self.scale > 0.0 => replay.clocks().map(Some),
            Source::Log(_) | Source::Blocks(_) => Ok(None),
        }
    }

    fn fill(&mut self, chunk: &mut Chunk) -> io::Result<()> {
        let lasts = CHUNK.mul_f64(self.scale.abs().max(1.0));
        let mut bytes = 0;
        loop {
            let next = match &mut self.source {
                Source::Log(replay) if self.scale < 0.0 => replay.pull_back()?,
                Source::Log(replay) => replay.pull()?,
                Source::Blocks(play) => play.pull()?,
            };
            let Some(next) = next else {
                chunk.is_last = true;
                return Ok(());
            };
            // What is passed over costs others as much time: then there may be no packet at all.
            bytes += next.payload.len();
            let at = next.at;
            if !next.is_rtcp && self.tracks.contains(&next.track) {
                chunk.packets.push(next);
            }
            let first = chunk.packets.first().map_or(at, |first| first.at);
            if at.abs_diff(first) >= lasts || bytes >= CHUNK_MAX {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sangam_archive::record::{Kind, Record, TrackInfo};
    use sangam_archive::{Log, RecordingId};
    use sangam_model::{Class, MediaInfo, Topic};
    use tempfile::TempDir;

    use super::*;

    fn info() -> TrackInfo {
        TrackInfo {
            reliable: false,
            recording: RecordingId(7),
            topic: Topic::new("test/audio").unwrap(),
            media: MediaInfo {
                class: Class::Audio,
                payload_type: 111,
                channels: 2,
                clock_rate: 48_000,
                encoding: "opus".to_owned(),
                fmtp: String::new(),
            },
        }
    }

    #[test]
    fn nobody_waits_for_what_is_passed_over() {
        let folder = TempDir::new().unwrap();
        let archive = Archive::new(folder.path());
        let mut log = Log::new(archive.medium().unwrap(), (1, 1)).unwrap();
        log.begin(RecordingId(7), "film", 1).unwrap();
        let track = log.track(info());
        let kinds = [&[Kind::Packet][..], &[Kind::Rtcp; 600], &[Kind::Packet]];
        for (time, kind) in (1..).zip(kinds.concat()) {
            log.packet(&Record {
                track,
                ..Record::new(kind, time, &[0; 1_000])
            });
        }
        log.close(1_000);
        let films = Arc::new(Films::new(folder.path(), 4));
        let mut shelf = Shelf::new(folder.path(), films);
        let film = shelf.open("film").unwrap().unwrap();
        let mut reader = Reader::new(folder.path(), &film);
        let mut found = Vec::new();
        loop {
            let chunk = reader.read(None, true).unwrap();
            found.push(chunk.packets.len());
            if chunk.is_last {
                break;
            }
        }
        assert_eq!(found, [1, 0, 1]);
    }
}
