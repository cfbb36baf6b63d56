//! The log of one disk: records of all recordings, in parts that are safe together.
//!
//! [`Log`] builds parts in memory; it never waits. A [`Writer`] in a thread of its own makes each
//! of them safe, in order, however often the disk refuses.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::index::{Index, RECORDINGS_MAX};
use crate::medium::{Medium, segment_name};
use crate::record::{
    ANNOTATIONS, Kind, MAGIC, NAME_LEN_MAX, Record, RecordingId, TrackInfo, recording_body,
};
use crate::segment::trailer;

/// A segment of so many bytes is ended: small enough to be read whole, large enough for an object
/// store (8 to 64 MiB).
pub const SEGMENT_LEN: u64 = 32 << 20;
/// Bytes that may wait for the disk before packets are dropped: a minute of 8 Mb/s.
pub const WAITING_MAX: usize = 64 << 20;
/// How long a part is open: what a crash may cost.
pub const PART: Duration = Duration::from_secs(1);
/// Parts between log and writer; more wait in the log, joined into one.
const QUEUE: usize = 4;
/// The pause before what the disk refused is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Bytes that become safe together.
#[derive(Debug)]
struct Part {
    segment: String,
    offset: u64,
    bytes: Vec<u8>,
    /// Packets of the log up to its end.
    packets: u64,
}

/// What is recorded, on its way to a disk. Dropping it makes safe what is in hand.
#[derive(Debug)]
pub struct Log {
    life: (u64, u32),
    /// Of segments so far.
    number: u32,
    segment: String,
    /// Bytes of the segment that were handed to the writer.
    offset: u64,
    index: Index,
    part: Vec<u8>,
    /// When the part began.
    began: Option<u64>,
    recordings: BTreeMap<RecordingId, (String, u64)>,
    tracks: Vec<TrackInfo>,
    /// The track of [`ANNOTATIONS`], where they are what is written.
    annotations: Option<TrackInfo>,
    packets: u64,
    dropped: u64,
    writer: Writer,
}

impl Log {
    /// A log on a medium. `life` names its segments: milliseconds since 1970 and a number drawn at
    /// random.
    ///
    /// # Errors
    /// This machine has no thread for it.
    pub fn new(medium: impl Medium + 'static, life: (u64, u32)) -> io::Result<Self> {
        Ok(Self {
            life,
            number: 0,
            segment: String::new(),
            offset: 0,
            index: Index::default(),
            part: Vec::new(),
            began: None,
            recordings: BTreeMap::new(),
            tracks: Vec::new(),
            annotations: None,
            packets: 0,
            dropped: 0,
            writer: Writer::start(Box::new(medium))?,
        })
    }

    /// Begins a recording.
    ///
    /// # Errors
    /// Its name has more than [`NAME_LEN_MAX`] bytes, or there are [`RECORDINGS_MAX`].
    pub fn begin(&mut self, id: RecordingId, name: &str, now: u64) -> io::Result<()> {
        let wrong = |message| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        if name.len() > NAME_LEN_MAX {
            return wrong("the name of a recording has more than 255 bytes");
        }
        if self.recordings.len().max(self.index.recordings.len()) >= RECORDINGS_MAX {
            return wrong("there are too many recordings at once");
        }
        self.recordings.insert(id, (name.to_owned(), now));
        self.record(&Record::new(
            Kind::Recording,
            now,
            &recording_body(id, name),
        ));
        Ok(())
    }

    /// Ends a recording in order.
    pub fn end(&mut self, id: RecordingId, now: u64) {
        if let Some((name, _)) = self.recordings.remove(&id) {
            self.record(&Record::new(Kind::End, now, &recording_body(id, &name)));
        }
    }

    /// A new track of a recording.
    pub fn track(&mut self, info: TrackInfo) -> u32 {
        self.tracks.push(info);
        self.tracks.len() as u32
    }

    /// What [`ANNOTATIONS`] is the track of.
    pub(crate) fn annotate(&mut self, info: TrackInfo) {
        self.annotations = Some(info);
    }

    /// Takes a packet, data or RTCP of a track. What comes while [`WAITING_MAX`] bytes wait for
    /// the disk is dropped and counted.
    pub fn packet(&mut self, record: &Record<'_>) {
        let waiting = self.part.len() + self.writer.shared.waiting.load(Ordering::Acquire);
        if waiting + record.encoded_len() > WAITING_MAX {
            self.dropped += 1;
            return;
        }
        self.packets += u64::from(record.kind == Kind::Packet);
        self.record(record);
    }

    /// Hands the part to the writer if it is a second old. To be called often.
    pub fn tick(&mut self, now: u64) {
        let is_due = |began: u64| now.saturating_sub(began) >= PART.as_nanos() as u64;
        if self.began.is_some_and(is_due) {
            self.commit(now);
        }
    }

    /// Hands the part to the writer, if there is one and the writer has room.
    pub fn commit(&mut self, now: u64) {
        if self.part.is_empty() {
            return;
        }
        if !self.writer.has_room() {
            return;
        }
        self.record(&Record::new(Kind::Commit, now, &[]));
        if self.offset + self.part.len() as u64 >= SEGMENT_LEN {
            self.seal(now);
        } else {
            self.hand_over();
        }
    }

    /// Packets taken so far, without RTCP.
    #[must_use]
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Packets dropped, as the disk did not keep up.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The first packets so many are safe.
    #[must_use]
    pub fn safe(&self) -> u64 {
        self.writer.shared.safe.load(Ordering::Acquire)
    }

    /// Whether the disk refuses at present.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.writer.shared.refused.load(Ordering::Acquire)
    }

    /// Ends the segment and waits until everything is safe; packets that are.
    pub fn close(mut self, now: u64) -> u64 {
        if !self.segment.is_empty() {
            self.seal(now);
        }
        self.writer.close();
        self.safe()
    }

    /// Appends a record, behind what its segment must hold first.
    fn record(&mut self, record: &Record<'_>) {
        self.began.get_or_insert(record.time);
        if self.segment.is_empty() {
            self.open(record.time);
        }
        if record.track != 0 && !self.index.has(record.track) {
            let info = match record.track {
                ANNOTATIONS => self.annotations.as_ref(),
                track => self.tracks.get(track as usize - 1),
            };
            if let Some(body) = info.map(TrackInfo::body) {
                let declaration = Record {
                    track: record.track,
                    ..Record::new(Kind::Track, record.time, &body)
                };
                self.append(&declaration);
            }
        }
        self.append(record);
    }

    fn append(&mut self, record: &Record<'_>) {
        let offset = self.offset + self.part.len() as u64;
        self.index.take(record, offset);
        record.write(&mut self.part);
    }

    fn open(&mut self, now: u64) {
        self.segment = segment_name(self.life, self.number);
        self.number += 1;
        self.append(&Record::new(Kind::Segment, now, &MAGIC));
        let running = self.recordings.clone();
        for (id, (name, begin)) in running {
            let body = recording_body(id, &name);
            self.append(&Record::new(Kind::Recording, begin, &body));
        }
    }

    fn seal(&mut self, now: u64) {
        let offset = self.offset + self.part.len() as u64;
        let body = std::mem::take(&mut self.index).body();
        Record::new(Kind::Footer, now, &body).write(&mut self.part);
        self.part.extend(trailer(offset));
        self.hand_over();
        self.segment.clear();
        self.offset = 0;
    }

    fn hand_over(&mut self) {
        let bytes = std::mem::take(&mut self.part);
        let offset = self.offset;
        self.offset += bytes.len() as u64;
        self.began = None;
        self.writer.write(Part {
            segment: self.segment.clone(),
            offset,
            bytes,
            packets: self.packets,
        });
    }
}

/// The thread that makes parts safe.
#[derive(Debug)]
struct Writer {
    parts: Option<SyncSender<Part>>,
    shared: Arc<Shared>,
    /// Handed over.
    asked: u64,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Packets that are safe.
    safe: AtomicU64,
    /// Parts that are.
    done: AtomicU64,
    /// Bytes handed over that are not.
    waiting: AtomicUsize,
    refused: AtomicBool,
    /// Nobody waits for what the disk refuses.
    stopping: AtomicBool,
}

impl Writer {
    fn start(medium: Box<dyn Medium>) -> io::Result<Self> {
        let (parts, inbox) = sync_channel(QUEUE + 1);
        let shared = Arc::new(Shared::default());
        let thread = thread::Builder::new().name("sangam-log".to_owned());
        let own = shared.clone();
        let thread = thread.spawn(move || write_parts(medium, &inbox, &own))?;
        Ok(Self {
            parts: Some(parts),
            shared,
            asked: 0,
            thread: Some(thread),
        })
    }

    fn has_room(&self) -> bool {
        self.asked - self.shared.done.load(Ordering::Acquire) < QUEUE as u64
    }

    fn write(&mut self, part: Part) {
        self.asked += 1;
        let len = part.bytes.len();
        self.shared.waiting.fetch_add(len, Ordering::AcqRel);
        let Some(parts) = &self.parts else {
            return;
        };
        match parts.try_send(part) {
            Ok(()) => {}
            // The last part of a log comes even if there is no room.
            Err(TrySendError::Full(part)) => {
                let _ = parts.send(part);
            }
            Err(TrySendError::Disconnected(_)) => tracing::error!("the log's writer has ended"),
        }
    }

    /// Waits until all is written, or given up.
    fn close(&mut self) {
        self.parts = None;
        self.shared.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the log's writer had panicked");
            }
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if !self.part.is_empty() {
            self.hand_over();
        }
        self.writer.close();
    }
}

fn write_parts(mut medium: Box<dyn Medium>, parts: &Receiver<Part>, shared: &Shared) {
    while let Ok(part) = parts.recv() {
        while let Err(error) = write(&mut *medium, &part) {
            shared.refused.store(true, Ordering::Release);
            tracing::error!(
                %error,
                segment = part.segment,
                waiting = shared.waiting.load(Ordering::Acquire),
                "the disk refuses what is recorded, which waits in memory and is tried again each \
                 second: make room there"
            );
            if shared.stopping.load(Ordering::Acquire) {
                return;
            }
            thread::park_timeout(AGAIN);
        }
        if shared.refused.swap(false, Ordering::AcqRel) {
            tracing::info!(
                segment = part.segment,
                "the disk takes what is recorded again"
            );
        }
        shared.safe.store(part.packets, Ordering::Release);
        let len = part.bytes.len();
        shared.waiting.fetch_sub(len, Ordering::AcqRel);
        shared.done.fetch_add(1, Ordering::Release);
    }
}

fn write(medium: &mut dyn Medium, part: &Part) -> io::Result<()> {
    medium.write(&part.segment, part.offset, &part.bytes)?;
    medium.sync(&part.segment)
}
