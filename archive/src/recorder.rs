//! From a client into the log: whatever is published on the topics it subscribed to. It knows
//! events and not the client, so that one in the process, one behind a link and a test are alike.

use std::collections::{HashMap, VecDeque};
use std::io;

use sangam_model::{Class, MediaInfo, StreamId, Topic};
use sangam_wire::{Event, Flags};

use crate::log::Log;
use crate::record::{Kind, Record, RecordingId, TrackInfo};

/// Events that wait for the announcement of their stream, which may come behind them.
const EARLY_MAX: usize = 256;
/// Streams known at once; beyond, the one that was announced first is forgotten.
const STREAMS_MAX: usize = 65_536;
/// Tracks of one recording: those of one segment.
const TRACKS_MAX: usize = crate::index::TRACKS_MAX;

/// One recording that goes on.
#[derive(Debug)]
pub struct Recorder {
    log: Log,
    id: RecordingId,
    tracks: Vec<TrackInfo>,
    streams: HashMap<StreamId, u32>,
    /// The same, oldest first.
    announced: VecDeque<StreamId>,
    early: VecDeque<(Vec<u8>, u64)>,
    counts: RecorderCounts,
}

/// What a recorder counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderCounts {
    /// Packets and data recorded, without RTCP.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that are safe on the disk.
    pub safe: u64,
    /// Packets dropped, as the disk did not keep up.
    pub dropped: u64,
    /// Events without an announcement, or beyond the number of tracks.
    pub unknown: u64,
    /// Tracks.
    pub tracks: u64,
}

impl Recorder {
    /// Begins a recording in a log of its own.
    ///
    /// # Errors
    /// As [`Log::begin`].
    pub fn new(mut log: Log, id: RecordingId, (name, now): (&str, u64)) -> io::Result<Self> {
        log.begin(id, name, now)?;
        Ok(Self {
            log,
            id,
            tracks: Vec::new(),
            streams: HashMap::new(),
            announced: VecDeque::new(),
            early: VecDeque::new(),
            counts: RecorderCounts::default(),
        })
    }

    /// Names the recording.
    #[must_use]
    pub const fn id(&self) -> RecordingId {
        self.id
    }

    /// Takes note of a stream whose events may come: also of those that came before.
    pub fn announced(&mut self, stream: StreamId, topic: Topic, media: MediaInfo) {
        if let Some(track) = self.track((topic, false), media) {
            if self.streams.insert(stream, track).is_none() {
                self.announced.push_back(stream);
            }
            if self.announced.len() > STREAMS_MAX
                && let Some(oldest) = self.announced.pop_front()
            {
                self.streams.remove(&oldest);
            }
        }
        for (event, at) in std::mem::take(&mut self.early) {
            self.event(&event, at);
        }
    }

    /// Takes an event that came at `now`, in nanoseconds since 1970.
    pub fn event(&mut self, bytes: &[u8], now: u64) {
        let Ok(event) = Event::decode(bytes) else {
            self.counts.unknown += 1;
            return;
        };
        let header = event.header;
        let Some(track) = self.streams.get(&header.stream).copied() else {
            if self.early.len() == EARLY_MAX {
                self.early.pop_front();
                self.counts.unknown += 1;
            }
            self.early.push_back((bytes.to_vec(), now));
            return;
        };
        let kind = match header.class {
            Class::Rtcp => Kind::Rtcp,
            _ => Kind::Packet,
        };
        self.record(&Record {
            flags: header.flags.without(Flags::EXTENDED).bits(),
            layer: header.layer,
            track,
            ..Record::new(kind, now, event.payload)
        });
    }

    /// Takes an event of a reliable topic.
    pub fn data(&mut self, topic: &Topic, payload: &[u8], now: u64) {
        let Some(track) = self.track((topic.clone(), true), MediaInfo::data()) else {
            self.counts.unknown += 1;
            return;
        };
        let record = Record::new(Kind::Packet, now, payload);
        self.record(&Record { track, ..record });
    }

    /// Makes safe what is a second old. To be called several times a second.
    pub fn tick(&mut self, now: u64) {
        self.log.tick(now);
    }

    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> RecorderCounts {
        RecorderCounts {
            safe: self.log.safe(),
            dropped: self.log.dropped(),
            packets: self.log.packets(),
            tracks: self.tracks.len() as u64,
            ..self.counts
        }
    }

    /// Whether the disk refuses at present.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.log.is_refused()
    }

    /// Ends the recording and waits until all is safe.
    #[must_use]
    pub fn finish(mut self, now: u64) -> RecorderCounts {
        let mut counts = self.counts();
        self.log.end(self.id, now);
        counts.safe = self.log.close(now);
        counts
    }

    /// The track of a topic: the same one when its publisher comes back with the same media. One
    /// topic may carry events and be reliable as well, which have nothing to do with each other.
    fn track(&mut self, (topic, reliable): (Topic, bool), media: MediaInfo) -> Option<u32> {
        let info = TrackInfo {
            recording: self.id,
            topic,
            media,
            reliable,
        };
        let known = self.tracks.iter().position(|known| *known == info);
        if let Some(place) = known {
            return Some(place as u32 + 1);
        }
        if self.tracks.len() == TRACKS_MAX {
            return None;
        }
        self.tracks.push(info.clone());
        Some(self.log.track(info))
    }

    fn record(&mut self, record: &Record<'_>) {
        if record.kind == Kind::Packet {
            self.counts.bytes += record.body.len() as u64;
        }
        self.log.packet(record);
    }
}
