//! A recording given back with the timing it came with.

mod back;

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use sangam_model::Class;

use crate::annotations::annotations;
use crate::archive::{Recording, Track};
use crate::index::POINT_EVERY;
use crate::medium::Medium;
use crate::record::{ANNOTATIONS, Kind};
use crate::segment::{self, Gaps};
use crate::timeline::Timeline;
use back::Back;

/// Records read ahead of their time: with packets of 1,400 bytes 700 KiB, for as many replays as
/// there are players.
const AHEAD: usize = 512;
/// Clocks are learnt from so much of a recording: senders report each 5 s (RFC 3550 section 6.2),
const CLOCKS: Duration = Duration::from_secs(6);
/// and of a log with much else in it from so many bytes of each segment.
const CLOCKS_LEN: u64 = 8 << 20;

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
    back: Back,
    gaps: Gaps,
    /// What was said of it later, in the order of places; none before it is looked for.
    said: Option<VecDeque<Replayed>>,
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
            back: Back::default(),
            gaps: Gaps::default(),
            said: None,
        }
    }

    /// Where it is.
    #[must_use]
    pub const fn medium(&self) -> &M {
        &self.medium
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

    /// Goes to the last place at or before `to` (since the begin of the recording) from which one
    /// of these tracks, given by their places, can be decoded: a key frame of the first video that
    /// is on then, or else any second of another track that is, or else of the one that ended last.
    /// Where that is: the begin, if there is none before.
    ///
    /// # Errors
    /// Of the medium.
    pub fn seek(&mut self, to: Duration, tracks: &[usize]) -> io::Result<Duration> {
        let found = self.find(to, tracks)?;
        let mut said = self.look_for_said()?;
        said.retain(|one| one.at >= found);
        self.said = Some(said);
        Ok(found)
    }

    fn find(&mut self, to: Duration, tracks: &[usize]) -> io::Result<Duration> {
        let begin = self.recording.begin;
        let target = begin.saturating_add(u64::try_from(to.as_nanos()).unwrap_or(u64::MAX));
        let wanted = tracks.iter();
        let wanted = wanted.filter_map(|at| self.recording.tracks.get(*at));
        let wanted: Vec<_> = wanted.filter(|track| track.packets > 0).collect();
        // Whoever plays from the begin waits for no index.
        if wanted.iter().all(|track| target <= track.first) {
            self.ahead.clear();
            (self.segment, self.offset) = (0, 0);
            return Ok(Duration::ZERO);
        }
        let leading = leading(&wanted, target).map(|track| track.number);
        let mut found = (0, 0, begin);
        for (place, name) in self.recording.segments.iter().enumerate().rev() {
            let Some(len) = self.medium.len_of(name)? else {
                continue;
            };
            let index = segment::find(&self.medium, name, len)?.index;
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

    /// What senders say of their clocks in the seconds that come next.
    ///
    /// # Errors
    /// Of the medium.
    pub fn clocks(&self) -> io::Result<Timeline> {
        let recording = &self.recording;
        let mut timeline = Timeline::new(recording);
        let mut until = None;
        for (place, name) in recording.segments.iter().enumerate().skip(self.segment) {
            let offset = if place == self.segment {
                self.offset
            } else {
                0
            };
            let mut is_over = false;
            segment::scan(&self.medium, name, offset, |record, at| {
                let of = |track: &Track| track.number == record.track;
                let is_media = matches!(record.kind, Kind::Packet | Kind::Rtcp);
                let track = recording.tracks.iter().position(of);
                let Some(track) = track.filter(|_| is_media) else {
                    return at - offset < CLOCKS_LEN;
                };
                let last =
                    *until.get_or_insert(record.time.saturating_add(CLOCKS.as_nanos() as u64));
                is_over = record.time > last;
                if !is_over {
                    timeline.learn(track, record);
                }
                !is_over && at - offset < CLOCKS_LEN
            })?;
            if is_over {
                break;
            }
        }
        timeline.settle();
        Ok(timeline)
    }

    /// Pieces of data of a track, given by its place, with when they came: the first so many, of so
    /// many bytes in all. Reads where its index says that there is something, and no more.
    ///
    /// # Errors
    /// Of the medium.
    pub fn data(
        &self,
        track: usize,
        (most, bytes): (usize, usize),
    ) -> io::Result<Vec<(Duration, Vec<u8>)>> {
        let mut found = Vec::new();
        let mut left = bytes;
        let Some(track) = self.recording.tracks.get(track) else {
            return Ok(found);
        };
        let lengths = self.medium.list()?;
        for name in &self.recording.segments {
            let Some((_, len)) = lengths.iter().find(|(known, _)| known == name) else {
                continue;
            };
            let index = segment::find(&self.medium, name, *len)?.index;
            let mut indices = index.tracks.iter();
            let known = indices.find(|one| one.number == track.number);
            let points = known.map_or(&[][..], |one| &one.points);
            for (place, (time, offset)) in points.iter().enumerate() {
                // What comes later than a second has a place of its own.
                let until = points.get(place + 1).map(|(_, offset)| *offset);
                segment::scan(&self.medium, name, *offset, |record, at| {
                    let is_next = until.is_some_and(|until| at >= until);
                    if is_next || record.time > time + POINT_EVERY || found.len() >= most {
                        return false;
                    }
                    if record.track == track.number && record.kind == Kind::Packet {
                        let Some(rest) = left.checked_sub(record.body.len()) else {
                            left = 0;
                            return false;
                        };
                        left = rest;
                        let at = record.time.saturating_sub(self.recording.begin);
                        found.push((Duration::from_nanos(at), record.body.to_vec()));
                    }
                    true
                })?;
            }
        }
        Ok(found)
    }

    /// What comes next; `None` at the end.
    ///
    /// # Errors
    /// Of the medium.
    pub fn pull(&mut self) -> io::Result<Option<Replayed>> {
        self.read_ahead()?;
        let next = self.ahead.front().map_or(Duration::MAX, |next| next.at);
        let said = self.said()?;
        if said.front().is_some_and(|one| one.at <= next) {
            return Ok(said.pop_front());
        }
        Ok(self.ahead.pop_front())
    }

    fn read_ahead(&mut self) -> io::Result<()> {
        while self.ahead.is_empty() {
            let Some(name) = self.recording.segments.get(self.segment) else {
                return Ok(());
            };
            let (recording, ahead) = (&self.recording, &mut self.ahead);
            let scanned = segment::scan(&self.medium, name, self.offset, |record, _| {
                if ahead.len() == AHEAD {
                    return false;
                }
                let mut tracks = recording.tracks.iter();
                let track = tracks.position(|track| track.number == record.track);
                // Annotations stand behind everything, in no order.
                let is_media =
                    matches!(record.kind, Kind::Packet | Kind::Rtcp) && record.track != ANNOTATIONS;
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
        Ok(())
    }

    /// What was said of it later and was not given back yet.
    fn said(&mut self) -> io::Result<&mut VecDeque<Replayed>> {
        let said = match self.said.take() {
            Some(said) => said,
            None => self.look_for_said()?,
        };
        Ok(self.said.insert(said))
    }

    fn look_for_said(&self) -> io::Result<VecDeque<Replayed>> {
        let mut tracks = self.recording.tracks.iter();
        let Some(track) = tracks.position(|track| track.number == ANNOTATIONS) else {
            return Ok(VecDeque::new());
        };
        let said = annotations(&self.medium, &self.recording)?.into_iter();
        let said = said.map(|one| {
            Ok(Replayed {
                at: Duration::from_millis(one.position_ms),
                track,
                is_rtcp: false,
                flags: 0,
                layer: 0,
                payload: serde_json::to_vec(&one)?,
            })
        });
        said.collect()
    }
}

/// By which of these tracks what is there at `target` is found.
fn leading<'a>(tracks: &[&'a Track], target: u64) -> Option<&'a Track> {
    let is_video = |track: &&Track| track.info.media.class == Class::Video;
    let is_on = |track: &&Track| (track.first..=track.last).contains(&target);
    let on = || tracks.iter().copied().filter(is_on);
    let before = tracks.iter().copied().filter(|track| track.last < target);
    let last = before.max_by_key(|track| (track.last, is_video(track)));
    on().find(is_video).or_else(|| on().next()).or(last)
}

#[cfg(test)]
mod tests {
    use sangam_model::{MediaInfo, Topic};
    use sangam_wire::Flags;
    use tempfile::TempDir;

    use super::*;
    use crate::archive::Archive;
    use crate::log::Log;
    use crate::medium::Folder;
    use crate::record::{Record, RecordingId, TrackInfo};

    const S: u64 = 1_000_000_000;
    const BEGIN: u64 = 1_000 * S;

    fn track(class: Class) -> TrackInfo {
        TrackInfo {
            reliable: false,
            recording: RecordingId(7),
            topic: Topic::new(&format!("test/{}", class.name())).unwrap(),
            media: MediaInfo {
                class,
                payload_type: 96,
                channels: 0,
                clock_rate: 1_000,
                encoding: "H264".to_owned(),
                fmtp: String::new(),
            },
        }
    }

    /// One person's picture from second 1 to 9, another's from 20 to 29, sound from 1 to 12.
    fn replay(folder: &TempDir) -> Replay<Folder> {
        let archive = Archive::new(folder.path());
        let mut log = Log::new(archive.medium().unwrap(), (1, 1)).unwrap();
        log.begin(RecordingId(7), "film", BEGIN).unwrap();
        let classes = [Class::Video, Class::Video, Class::Audio];
        let tracks = classes.map(|class| log.track(track(class)));
        for second in 1..30 {
            let key = Flags::KEY.with(Flags::FRAME_START).bits();
            for (place, on) in [1..=9, 20..=29, 1..=12].into_iter().enumerate() {
                let is_video = classes[place] == Class::Video;
                let record = Record::new(Kind::Packet, BEGIN + second * S, b"packet");
                if on.contains(&second) {
                    log.packet(&Record {
                        track: tracks[place],
                        flags: if is_video { key } else { 0 },
                        ..record
                    });
                }
            }
        }
        log.end(RecordingId(7), BEGIN + 30 * S);
        log.close(BEGIN + 30 * S);
        let recording = archive.recordings().unwrap().remove(0);
        Replay::new(archive.reader(), recording)
    }

    #[test]
    fn data_are_found_without_reading_the_rest() {
        let folder = TempDir::new().unwrap();
        let archive = Archive::new(folder.path());
        let mut log = Log::new(archive.medium().unwrap(), (1, 1)).unwrap();
        log.begin(RecordingId(7), "talk", BEGIN).unwrap();
        let (sound, chat) = (
            log.track(track(Class::Audio)),
            log.track(track(Class::Data)),
        );
        let mut said = Vec::new();
        for tick in 0..600 {
            let time = BEGIN + tick * S / 10;
            let packet = Record::new(Kind::Packet, time, b"packet");
            log.packet(&Record {
                track: sound,
                ..packet
            });
            // Three at once, and then nothing for long.
            if tick % 200 < 3 {
                let text = format!("line {tick}");
                let line = Record::new(Kind::Packet, time, text.as_bytes());
                log.packet(&Record {
                    track: chat,
                    ..line
                });
                said.push((Duration::from_nanos(time - BEGIN), text.into_bytes()));
            }
        }
        log.end(RecordingId(7), BEGIN + 60 * S);
        log.close(BEGIN + 60 * S);
        let recording = archive.recordings().unwrap().remove(0);
        let replay = Replay::new(archive.reader(), recording);
        assert_eq!(replay.data(1, (100, 1_000)).unwrap(), said);
        assert_eq!(replay.data(1, (4, 1_000)).unwrap(), said[..4]);
        assert_eq!(replay.data(1, (100, 17)).unwrap(), said[..2]);
        assert_eq!(replay.data(2, (100, 1_000)).unwrap(), []);
    }

    #[test]
    fn key_frames_are_given_back_from_the_last_to_the_first() {
        let folder = TempDir::new().unwrap();
        let mut replay = replay(&folder);
        for (to, tracks, found) in [
            (
                60_000,
                &[0, 1, 2][..],
                (20..=29).rev().chain((1..=9).rev()).collect(),
            ),
            (25_500, &[1, 2], (20..=25).rev().collect()),
            (9_000, &[0, 1], (1..=9).rev().collect()),
            (900, &[0, 1], Vec::new()),
            (60_000, &[2], Vec::new()),
        ] {
            let place = replay.seek_back(Duration::from_millis(to), tracks).unwrap();
            assert_eq!(place.as_secs(), found.first().copied().unwrap_or(0), "{to}");
            let mut given = Vec::new();
            while let Some(next) = replay.pull_back().unwrap() {
                given.push(next.at.as_secs());
            }
            assert_eq!(given, found, "{to} {tracks:?}");
        }
    }

    #[test]
    fn whoever_is_there_leads_to_a_place() {
        let folder = TempDir::new().unwrap();
        let mut replay = replay(&folder);
        for (to, tracks, found) in [
            // Nothing comes before the first second.
            (500, &[0, 1, 2][..], 0),
            (5_500, &[1, 0, 2], 5),
            (11_500, &[0, 1, 2], 11),
            (15_500, &[0, 1, 2], 12),
            (15_500, &[0, 1], 9),
            (25_500, &[0, 1, 2], 25),
            (25_500, &[0, 2], 12),
        ] {
            let place = replay.seek(Duration::from_millis(to), tracks).unwrap();
            assert_eq!(place, Duration::from_secs(found), "{to} {tracks:?}");
            let next = replay.pull().unwrap().unwrap();
            assert_eq!(next.at, place.max(Duration::from_secs(1)));
        }
    }
}
