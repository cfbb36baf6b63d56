//! What a segment holds: made while it is written, kept in its footer, made again by scanning.

use sangam_wire::Flags;

use crate::record::{Kind, Record, RecordingId, TrackInfo, read_recording, recording_body};

/// Tracks of one segment.
pub const TRACKS_MAX: usize = 4_096;
/// Places to start from that a track has in one segment.
pub const POINTS_MAX: usize = 16_384;
/// Places of all tracks of one segment: 4 MiB of its footer.
pub const POINTS_ALL_MAX: usize = 1 << 18;
/// Recordings of one segment.
pub const RECORDINGS_MAX: usize = 4_096;
/// Tracks without key frames have a point each second.
pub(crate) const POINT_EVERY: u64 = 1_000_000_000;

/// The index of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Recordings, in the order in which they appear.
    pub recordings: Vec<RecordingIndex>,
    /// Tracks, in the order of their numbers.
    pub tracks: Vec<TrackIndex>,
    /// Of all tracks.
    points: usize,
}

/// A recording in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingIndex {
    /// Which.
    pub id: RecordingId,
    /// Its name.
    pub name: String,
    /// When it began: nanoseconds since 1970.
    pub begin: u64,
    /// When it was ended in order; 0 if it was not, here.
    pub end: u64,
}

/// A track in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackIndex {
    /// Its number in the segment.
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
    /// Where to start from: time and offset of key frames, or of one packet each second.
    pub points: Vec<(u64, u64)>,
}

impl Index {
    /// Takes the next record, which stands at `offset`.
    pub fn take(&mut self, record: &Record<'_>, offset: u64) {
        match record.kind {
            Kind::Recording => {
                let Some((id, name)) = read_recording(record.body) else {
                    return;
                };
                if self.recordings.iter().all(|known| known.id != id) {
                    let begin = record.time;
                    self.recordings.push(RecordingIndex {
                        id,
                        name,
                        begin,
                        end: 0,
                    });
                }
            }
            Kind::Track => self.declare(record),
            Kind::Packet => self.packet(record, offset),
            Kind::End => {
                let ended = read_recording(record.body).map(|(id, _)| id);
                let known = self.recordings.iter_mut();
                for known in known.filter(|known| Some(known.id) == ended) {
                    known.end = record.time;
                }
            }
            Kind::Segment | Kind::Rtcp | Kind::Commit | Kind::Footer => {}
        }
    }

    /// Whether a track was declared.
    #[must_use]
    pub fn has(&self, track: u32) -> bool {
        self.place(track).is_ok()
    }

    fn place(&self, track: u32) -> Result<usize, usize> {
        let tracks = &self.tracks;
        tracks.binary_search_by_key(&track, |known| known.number)
    }

    fn declare(&mut self, record: &Record<'_>) {
        let Some(info) = TrackInfo::read(record.body) else {
            return;
        };
        let Err(place) = self.place(record.track) else {
            return;
        };
        if self.tracks.len() == TRACKS_MAX {
            return;
        }
        let track = TrackIndex {
            number: record.track,
            info,
            packets: 0,
            bytes: 0,
            first: 0,
            last: 0,
            points: Vec::new(),
        };
        self.tracks.insert(place, track);
    }

    fn packet(&mut self, record: &Record<'_>, offset: u64) {
        let Ok(place) = self.place(record.track) else {
            return;
        };
        let track = &mut self.tracks[place];
        if track.packets == 0 {
            track.first = record.time;
        }
        track.packets += 1;
        track.bytes += record.body.len() as u64;
        track.last = record.time;
        let is_video = track.info.media.class == sangam_model::Class::Video;
        let last = track.points.last().map(|(time, _)| *time);
        let is_point = if is_video {
            let key = Flags::KEY.with(Flags::FRAME_START);
            Flags::from_bits(record.flags).contains(key)
        } else {
            last.is_none_or(|last| record.time >= last.saturating_add(POINT_EVERY))
        };
        let has_room = track.points.len() < POINTS_MAX && self.points < POINTS_ALL_MAX;
        if is_point && has_room {
            self.points += 1;
            track.points.push((record.time, offset));
        }
    }

    /// The same without places to start from: what lists show.
    #[must_use]
    pub(crate) fn without_points(mut self) -> Self {
        for track in &mut self.tracks {
            track.points = Vec::new();
        }
        self.points = 0;
        self
    }

    /// The body of a footer.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let number = |out: &mut Vec<u8>, value: u64| out.extend(value.to_be_bytes());
        number(&mut out, self.recordings.len() as u64);
        for recording in &self.recordings {
            number(&mut out, recording.begin);
            number(&mut out, recording.end);
            block(&mut out, &recording_body(recording.id, &recording.name));
        }
        number(&mut out, self.tracks.len() as u64);
        for track in &self.tracks {
            let numbers = [
                u64::from(track.number),
                track.packets,
                track.bytes,
                track.first,
                track.last,
                track.points.len() as u64,
            ];
            numbers
                .into_iter()
                .for_each(|value| number(&mut out, value));
            for (time, offset) in &track.points {
                number(&mut out, *time);
                number(&mut out, *offset);
            }
            block(&mut out, &track.info.body());
        }
        out
    }

    /// What a footer says; `None` if it is none.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        let mut rest = body;
        let mut index = Self::default();
        for _ in 0..take(&mut rest)? {
            let (begin, end) = (take(&mut rest)?, take(&mut rest)?);
            let (id, name) = read_recording(take_block(&mut rest)?)?;
            index.recordings.push(RecordingIndex {
                id,
                name,
                begin,
                end,
            });
        }
        for _ in 0..take(&mut rest)? {
            let mut next = || take(&mut rest);
            let (number, packets, bytes) = (next()? as u32, next()?, next()?);
            let (first, last, count) = (next()?, next()?, next()?);
            let points = (0..count).map(|_| Some((next()?, next()?)));
            let points = points.collect::<Option<Vec<_>>>()?;
            index.points += points.len();
            let info = TrackInfo::read(take_block(&mut rest)?)?;
            index.tracks.push(TrackIndex {
                number,
                info,
                packets,
                bytes,
                first,
                last,
                points,
            });
        }
        rest.is_empty().then_some(index)
    }
}

fn block(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_be_bytes());
    out.extend(bytes);
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let (value, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(u64::from_be_bytes(*value))
}

fn take_block<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(take(rest)?).ok()?;
    let (block, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    Some(block)
}

#[cfg(test)]
mod tests {
    use sangam_model::limits::{ENCODING_LEN_MAX, FMTP_LEN_MAX, TOPIC_LEN_MAX};
    use sangam_model::{Class, MediaInfo, Topic};

    use super::*;
    use crate::record::{BODY_LEN_MAX, NAME_LEN_MAX};

    #[test]
    fn the_longest_index_fits_a_footer() {
        let mut index = Index::default();
        let name = "n".repeat(NAME_LEN_MAX);
        for id in 0..RECORDINGS_MAX as u64 {
            let body = recording_body(RecordingId(id), &name);
            index.take(&Record::new(Kind::Recording, 0, &body), 0);
        }
        let info = TrackInfo {
            reliable: false,
            recording: RecordingId(0),
            topic: Topic::new(&"t".repeat(TOPIC_LEN_MAX)).unwrap(),
            media: MediaInfo {
                class: Class::Video,
                payload_type: 96,
                channels: 0,
                clock_rate: 90_000,
                encoding: "E".repeat(ENCODING_LEN_MAX),
                fmtp: "f".repeat(FMTP_LEN_MAX),
            },
        };
        let body = info.body();
        for track in 1..=TRACKS_MAX as u32 {
            let declaration = Record::new(Kind::Track, 0, &body);
            index.take(
                &Record {
                    track,
                    ..declaration
                },
                0,
            );
        }
        let flags = Flags::KEY.with(Flags::FRAME_START).bits();
        for track in (1..=TRACKS_MAX as u32).flat_map(|track| [track; 300]) {
            let packet = Record::new(Kind::Packet, 0, &[]);
            index.take(
                &Record {
                    track,
                    flags,
                    ..packet
                },
                0,
            );
        }
        assert_eq!((index.recordings.len(), index.tracks.len()), (4_096, 4_096));
        assert_eq!(index.points, POINTS_ALL_MAX);
        let body = index.body();
        assert!(body.len() <= BODY_LEN_MAX, "{}", body.len());
        assert_eq!(Index::read(&body), Some(index));
    }
}
