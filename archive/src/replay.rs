//! A recording given back with the timing it came with.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use sangam_model::Class;

use crate::archive::Recording;
use crate::medium::Medium;
use crate::record::Kind;
use crate::segment::{self, Gaps};

/// Records read ahead of their time: with packets of 1,400 bytes 700 KiB, for as many replays as
/// there are players.
const AHEAD: usize = 512;

/// Gives packets out in the order in which they came. It owns no clock: whoever plays waits until
/// [`Replayed::at`].
#[derive(Debug)]
pub struct Replay<M> {
    medium: M,
    recording: Recording,
    ahead: VecDeque<Replayed>,
    /// The segment that is read, and how far.
    segment: usize,
    offset: u64,
    gaps: Gaps,
}

/// A packet, RTCP compound or piece of data of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Since the begin of the recording.
    pub at: Duration,
    /// The place of its track in [`Recording::tracks`].
    pub track: usize,
    /// Whether it is RTCP.
    pub is_rtcp: bool,
    /// The event's flags.
    pub flags: u8,
    /// The event's layer.
    pub layer: u8,
    /// What was published.
    pub payload: Vec<u8>,
}

impl<M: Medium> Replay<M> {
    /// From the begin.
    #[must_use]
    pub fn new(medium: M, recording: Recording) -> Self {
        Self {
            medium,
            recording,
            ahead: VecDeque::new(),
            segment: 0,
            offset: 0,
            gaps: Gaps::default(),
        }
    }

    /// What is replayed.
    #[must_use]
    pub const fn recording(&self) -> &Recording {
        &self.recording
    }

    /// What was damaged so far and passed over.
    #[must_use]
    pub const fn gaps(&self) -> Gaps {
        self.gaps
    }

    /// Goes to the last place at or before `to` (since the begin of the recording) from which
    /// these tracks, by their places, can be decoded: a key frame of the first video among them,
    /// or else any second of the first. Where that is: the begin, if there is none before.
    ///
    /// # Errors
    /// Of the medium.
    pub fn seek(&mut self, to: Duration, tracks: &[usize]) -> io::Result<Duration> {
        let begin = self.recording.begin;
        let target = begin.saturating_add(u64::try_from(to.as_nanos()).unwrap_or(u64::MAX));
        let wanted = || {
            tracks
                .iter()
                .filter_map(|at| self.recording.tracks.get(*at))
        };
        let mut videos = wanted().filter(|track| track.info.media.class == Class::Video);
        let leading = videos.next().or_else(|| wanted().next());
        let leading = leading.map(|track| track.number);
        let lengths = self.medium.list()?;
        let mut found = (0, 0, begin);
        for (place, name) in self.recording.segments.iter().enumerate().rev() {
            let Some((_, len)) = lengths.iter().find(|(known, _)| known == name) else {
                continue;
            };
            let index = segment::find(&self.medium, name, *len)?.index;
            let mut indices = index.tracks.iter();
            let track = indices.find(|track| Some(track.number) == leading);
            let points = track.map_or(&[][..], |track| &track.points);
            let before = points.iter().filter(|(time, _)| *time <= target);
            if let Some((time, offset)) = before.max_by_key(|(time, _)| *time) {
                found = (place, *offset, *time);
                break;
            }
        }
        self.ahead.clear();
        (self.segment, self.offset) = (found.0, found.1);
        Ok(Duration::from_nanos(found.2.saturating_sub(begin)))
    }

    /// What comes next; `None` at the end.
    ///
    /// # Errors
    /// Of the medium.
    pub fn pull(&mut self) -> io::Result<Option<Replayed>> {
        while self.ahead.is_empty() {
            let Some(name) = self.recording.segments.get(self.segment) else {
                return Ok(None);
            };
            let (recording, ahead) = (&self.recording, &mut self.ahead);
            let scanned = segment::scan(&self.medium, name, self.offset, |record, _| {
                if ahead.len() == AHEAD {
                    return false;
                }
                let mut tracks = recording.tracks.iter();
                let track = tracks.position(|track| track.number == record.track);
                let is_media = matches!(record.kind, Kind::Packet | Kind::Rtcp);
                if let Some(track) = track.filter(|_| is_media) {
                    ahead.push_back(Replayed {
                        at: Duration::from_nanos(record.time.saturating_sub(recording.begin)),
                        track,
                        is_rtcp: record.kind == Kind::Rtcp,
                        flags: record.flags,
                        layer: record.layer,
                        payload: record.body.to_vec(),
                    });
                }
                true
            })?;
            self.offset = scanned.end;
            self.gaps.add(scanned.gaps);
            if self.ahead.len() < AHEAD {
                self.segment += 1;
                self.offset = 0;
            }
        }
        Ok(self.ahead.pop_front())
    }
}
