//! All recordings of a folder.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::catalogue::Catalogue;
use crate::index::Index;
use crate::medium::{Folder, Medium};
use crate::record::{ANNOTATIONS, Kind, Record, RecordingId, TrackInfo};
use crate::segment::{self, Gaps};
use crate::store::StorePlace;

/// The folder with the log.
const LOG: &str = "log";

/// An archive on one disk.
#[derive(Clone, Debug)]
pub struct Archive {
    folder: PathBuf,
    path: PathBuf,
}

/// A recording, put together from the segments that hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Which.
    pub id: RecordingId,
    /// Its name.
    pub name: String,
    /// When it began: nanoseconds since 1970.
    pub begin: u64,
    /// When it ended; without an orderly end, when its last packet came.
    pub end: u64,
    /// Whether it was ended in order.
    pub whole: bool,
    /// What it holds.
    pub tracks: Vec<Track>,
    /// Names of its segments, in the order of time.
    pub segments: Vec<String>,
}

/// A track of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Its number in the segments.
    pub number: u32,
    /// What it carries.
    pub info: TrackInfo,
    /// Packets without RTCP.
    pub packets: u64,
    /// Bytes of those packets.
    pub bytes: u64,
    /// When the first packet came.
    pub first: u64,
    /// When the last packet came.
    pub last: u64,
}

impl Archive {
    /// The archive in a folder, which is made with the first recording.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self {
            folder: path.to_owned(),
            path: path.join(LOG),
        }
    }

    /// Its folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where segments are written.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The medium of its log.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn medium(&self) -> io::Result<Folder> {
        Folder::open(&self.path)
    }

    /// The same to read from: nothing is made. With what is in its bucket, if it has one.
    #[must_use]
    pub fn reader(&self) -> Folder {
        let folder = Folder::existing(&self.path);
        let store = StorePlace::read(&self.folder);
        let far = store.and_then(|store| store.map(|store| store.far()).transpose());
        match far {
            Ok(Some(far)) => folder.with(far),
            Ok(None) => folder,
            Err(error) => {
                tracing::error!(%error, "recordings in a bucket are not found");
                folder
            }
        }
    }

    /// Ends what crashes interrupted; how many segments that were.
    ///
    /// # Errors
    /// Of the disk.
    pub fn repair(&self, now: u64) -> io::Result<usize> {
        repair(&mut Folder::existing(&self.path), now)
    }

    /// Every recording, oldest first.
    ///
    /// # Errors
    /// Of the disk.
    pub fn recordings(&self) -> io::Result<Vec<Recording>> {
        Catalogue::new(self.clone()).all()
    }
}

/// Ends all segments of a log that crashes interrupted; how many those were.
///
/// # Errors
/// Of the medium.
pub fn repair(medium: &mut dyn Medium, now: u64) -> io::Result<usize> {
    let mut repaired = 0;
    for (name, _) in medium.list()? {
        repaired += usize::from(segment::repair(medium, &name, now)?);
    }
    Ok(repaired)
}

/// Every recording of a log, oldest first: every segment is looked at.
///
/// # Errors
/// Of the medium.
pub fn recordings(medium: &dyn Medium) -> io::Result<Vec<Recording>> {
    let mut found = Vec::new();
    for (name, len) in medium.list()? {
        let index = segment::find(medium, &name, len)?.index;
        found.push((name, index));
    }
    Ok(assemble(found.iter().map(|(name, index)| (name, index))))
}

/// Recordings out of segments, which come in the order of time; oldest first.
pub(crate) fn assemble<'a>(
    segments: impl IntoIterator<Item = (&'a String, &'a Index)>,
) -> Vec<Recording> {
    let mut all: Vec<Recording> = Vec::new();
    let mut places: HashMap<RecordingId, usize> = HashMap::new();
    for (name, index) in segments {
        for found in &index.recordings {
            let place = *places.entry(found.id).or_insert_with(|| {
                all.push(Recording {
                    id: found.id,
                    name: found.name.clone(),
                    begin: found.begin,
                    end: found.begin,
                    whole: false,
                    tracks: Vec::new(),
                    segments: Vec::new(),
                });
                all.len() - 1
            });
            let recording = &mut all[place];
            recording.segments.push(name.clone());
            recording.whole |= found.end > 0;
            recording.end = recording.end.max(found.end);
        }
        for track in &index.tracks {
            let Some(place) = places.get(&track.info.recording) else {
                continue;
            };
            let recording = &mut all[*place];
            recording.end = recording.end.max(track.last);
            recording.add(Track {
                number: track.number,
                info: track.info.clone(),
                packets: track.packets,
                bytes: track.bytes,
                first: track.first,
                last: track.last,
            });
        }
    }
    all.sort_by_key(|recording| recording.begin);
    all
}

impl Recording {
    /// Seconds from its begin to its end.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.end.saturating_sub(self.begin) as f64 / 1e9
    }

    /// Packets of all tracks.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.tracks.iter().map(|track| track.packets).sum()
    }

    /// How much was said of it by those who watched it, at most.
    #[must_use]
    pub fn annotated(&self) -> u64 {
        let mut tracks = self.tracks.iter();
        let track = tracks.find(|track| track.number == ANNOTATIONS);
        track.map_or(0, |track| track.packets)
    }

    /// Bytes of all tracks.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tracks.iter().map(|track| track.bytes).sum()
    }

    /// Hands every packet and RTCP compound to `take`, with the place of its track, in the order
    /// in which they came; until `take` says no. What was damaged is passed over and counted.
    ///
    /// # Errors
    /// Of the medium.
    pub fn read(
        &self,
        medium: &dyn Medium,
        mut take: impl FnMut(usize, &Record<'_>) -> bool,
    ) -> io::Result<Gaps> {
        let mut goes_on = true;
        let mut gaps = Gaps::default();
        for segment in &self.segments {
            let scanned = segment::scan(medium, segment, 0, |record, _| {
                if matches!(record.kind, Kind::Packet | Kind::Rtcp) {
                    let mut tracks = self.tracks.iter();
                    let track = tracks.position(|track| track.number == record.track);
                    goes_on = track.is_none_or(|track| take(track, record));
                }
                goes_on
            })?;
            gaps.add(scanned.gaps);
            if !goes_on {
                break;
            }
        }
        Ok(gaps)
    }

    fn add(&mut self, more: Track) {
        let mut tracks = self.tracks.iter_mut();
        match tracks.find(|known| known.number == more.number) {
            None => self.tracks.push(more),
            Some(known) => {
                if known.packets == 0 {
                    known.first = more.first;
                }
                known.packets += more.packets;
                known.bytes += more.bytes;
                known.last = known.last.max(more.last);
            }
        }
    }
}
