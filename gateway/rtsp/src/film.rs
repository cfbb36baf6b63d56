//! A recording, or a film in blocks, as players see it: its RTP tracks, from the first packet to
//! the last.

use std::sync::Arc;
use std::time::Duration;

use sangam_archive::films::{self, Films};
use sangam_archive::{Recording, Track};
use sangam_model::Class;

use crate::limits::TRACKS_MAX;

/// A recording that can be played.
#[derive(Clone, Debug)]
pub(crate) struct Film {
    /// What is played.
    pub(crate) recording: Recording,
    /// Where its blocks are, if it is a transport stream and no recording.
    pub(crate) blocks: Option<Blocks>,
    /// The places of its tracks with RTP; of more than [`TRACKS_MAX`] the first.
    pub(crate) tracks: Vec<usize>,
    /// Its first packet, since the begin of the recording.
    pub(crate) zero: Duration,
    /// From its first packet to its last.
    pub(crate) length: Duration,
}

/// A film in blocks, and where they are.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    pub(crate) films: Arc<Films>,
    pub(crate) film: Arc<films::Film>,
}

impl Film {
    /// A film in blocks.
    pub(crate) fn of_blocks(blocks: Blocks) -> Option<Self> {
        let recording = blocks.film.as_recording()?;
        let blocks = Some(blocks);
        Self::new(recording).map(|film| Self { blocks, ..film })
    }

    /// `None` if there is nothing in it that RTP carries.
    pub(crate) fn new(recording: Recording) -> Option<Self> {
        let is_played = |track: &Track| {
            let media = &track.info.media;
            let is_media = matches!(media.class, Class::Audio | Class::Video);
            is_media && track.packets > 0 && media.clock_rate > 0
        };
        let tracks = recording.tracks.iter().enumerate();
        let tracks = tracks.filter(|(_, track)| is_played(track));
        let tracks: Vec<_> = tracks.map(|(place, _)| place).take(TRACKS_MAX).collect();
        let played = || tracks.iter().map(|place| &recording.tracks[*place]);
        let first = played().map(|track| track.first).min()?;
        let last = played().map(|track| track.last).max()?;
        Some(Self {
            zero: Duration::from_nanos(first.saturating_sub(recording.begin)),
            length: Duration::from_nanos(last.saturating_sub(first)),
            tracks,
            recording,
            blocks: None,
        })
    }

    /// What a track carries, by its place.
    pub(crate) fn class(&self, place: usize) -> Option<Class> {
        let track = self.recording.tracks.get(place);
        track.map(|track| track.info.media.class)
    }

    /// A track by its number in control URLs.
    pub(crate) fn track(&self, number: usize) -> Option<&Track> {
        self.recording.tracks.get(*self.tracks.get(number)?)
    }
}
