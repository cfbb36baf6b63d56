//! A recording given back with the timing it came with.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use crate::archive::Recording;
use crate::medium::Medium;
use crate::record::Kind;
use crate::segment::{self, Gaps};

/// Records read ahead of their time.
const AHEAD: usize = 4_096;

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
