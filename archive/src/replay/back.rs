//! A recording from its end to its begin: the key frames of its pictures, as the others cannot be
//! shown without what came before them.

use std::io;
use std::time::Duration;

use sangam_model::Class;
use sangam_wire::Flags;

use super::{Replay, Replayed};
use crate::medium::Medium;
use crate::record::{Kind, Record};
use crate::segment;

/// Bytes of one key frame; of a longer one the begin.
const PICTURE_MAX: usize = 8 << 20;
/// The packets of one key frame come within so long.
const PICTURE_LASTS: u64 = 1_000_000_000;

/// Where a replay that goes back is.
#[derive(Debug, Default)]
pub(super) struct Back {
    /// Numbers of the tracks with pictures.
    tracks: Vec<u32>,
    /// Segments that were not looked at yet: those before this one.
    segments: usize,
    /// Key frames of that segment which were not given out, in order.
    points: Vec<Point>,
    /// None behind this.
    until: u64,
}

/// When a key frame came, where it stands, and the number of its track.
type Point = (u64, u64, u32);

impl<M: Medium> Replay<M> {
    /// Goes to the last key frame at or before `to` (since the begin of the recording) of any of
    /// these tracks, given by their places; [`Replay::pull_back`] goes on from there. Where that
    /// is: the begin, if there is none before.
    ///
    /// # Errors
    /// Of the medium.
    pub fn seek_back(&mut self, to: Duration, tracks: &[usize]) -> io::Result<Duration> {
        let begin = self.recording.begin;
        let tracks = tracks.iter();
        let tracks = tracks.filter_map(|place| self.recording.tracks.get(*place));
        let pictures = tracks.filter(|track| track.info.media.class == Class::Video);
        self.back = Back {
            tracks: pictures.map(|track| track.number).collect(),
            segments: self.recording.segments.len(),
            points: Vec::new(),
            until: begin.saturating_add(u64::try_from(to.as_nanos()).unwrap_or(u64::MAX)),
        };
        self.ahead.clear();
        let first = self.last_point()?.map_or(begin, |(time, ..)| time);
        Ok(Duration::from_nanos(first.saturating_sub(begin)))
    }

    /// The next packet of the key frames from there to the begin. All packets of one have the
    /// moment at which its first came.
    ///
    /// # Errors
    /// Of the medium.
    pub fn pull_back(&mut self) -> io::Result<Option<Replayed>> {
        while self.ahead.is_empty() {
            let Some(point) = self.last_point()? else {
                return Ok(None);
            };
            self.picture(point)?;
            self.back.points.pop();
        }
        Ok(self.ahead.pop_front())
    }

    /// The last key frame that was not given out.
    fn last_point(&mut self) -> io::Result<Option<Point>> {
        while self.back.points.is_empty() {
            let Some(place) = self.back.segments.checked_sub(1) else {
                return Ok(None);
            };
            if let Some(name) = self.recording.segments.get(place)
                && let Some(len) = self.medium.len_of(name)?
            {
                let index = segment::find(&self.medium, name, len)?.index;
                let Back { tracks, until, .. } = &self.back;
                let known = index.tracks.iter();
                let known = known.filter(|track| tracks.contains(&track.number));
                let points = known.flat_map(|track| {
                    let points = track.points.iter();
                    points.map(|(time, offset)| (*time, *offset, track.number))
                });
                let mut points: Vec<_> = points.filter(|(time, ..)| time <= until).collect();
                points.sort_unstable();
                self.back.points = points;
            }
            self.back.segments = place;
        }
        Ok(self.back.points.last().copied())
    }

    /// Reads a key frame.
    fn picture(&mut self, (time, offset, number): Point) -> io::Result<()> {
        let mut places = self.recording.tracks.iter();
        let place = places.position(|track| track.number == number);
        let name = self.recording.segments.get(self.back.segments);
        let (Some(track), Some(name)) = (place, name) else {
            return Ok(());
        };
        let at = Duration::from_nanos(time.saturating_sub(self.recording.begin));
        let mut bytes = 0;
        let ahead = &mut self.ahead;
        let scanned = segment::scan(&self.medium, name, offset, |record, _| {
            if record.time > time.saturating_add(PICTURE_LASTS) || bytes > PICTURE_MAX {
                return false;
            }
            if record.track != number || record.kind != Kind::Packet {
                return true;
            }
            if is_behind(record, ahead.is_empty()) {
                return false;
            }
            bytes += record.body.len();
            ahead.push_back(Replayed {
                at,
                track,
                is_rtcp: false,
                flags: record.flags,
                layer: record.layer,
                payload: record.body.to_vec(),
            });
            true
        });
        match scanned {
            Ok(scanned) => self.gaps.add(scanned.gaps),
            Err(error) => {
                // It is read again from its begin.
                self.ahead.clear();
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Whether a packet of the same track is none of the key frame any more.
fn is_behind(record: &Record<'_>, is_first: bool) -> bool {
    let flags = Flags::from_bits(record.flags);
    let begins = flags.contains(Flags::FRAME_START) && !is_first;
    !flags.contains(Flags::KEY) || begins
}
