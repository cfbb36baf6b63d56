//! What people say of a recording while they watch it, at the place in it of which they say it.
//!
//! Annotations are a track of the recording, [`ANNOTATIONS`], in segments that others write than
//! its recorder, long after that is done. So they are safe as everything else is, and go where the
//! recording goes: into the bucket, and away. The time of such a record is the place in the
//! recording, its body is JSON.

use core::fmt::Write as _;
use std::collections::BTreeSet;
use std::io;

use sangam_model::{MediaInfo, Topic};
use serde::{Deserialize, Serialize};

use crate::archive::{Archive, Recording};
use crate::log::Log;
use crate::medium::Medium;
use crate::record::{ANNOTATIONS, Kind, Record, TrackInfo};
use crate::segment;

/// Annotations of one recording.
pub const ANNOTATIONS_MAX: usize = 200;
/// Bytes of what one says, and of the name of who says it.
pub const ANNOTATION_LEN_MAX: usize = 500;
const NAME_LEN_MAX: usize = 400;
/// Records that are read: several writers may have written the same one.
const READ_MAX: u64 = 8 * ANNOTATIONS_MAX as u64;
/// For how long an exported annotation is shown, in milliseconds.
const SHOWN_MS: u64 = 5_000;

/// Something that was said of a place in a recording.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Annotation {
    /// The place: milliseconds since the begin of the recording.
    pub position_ms: u64,
    /// When it was said, in milliseconds since 1970.
    pub said_ms: u64,
    /// Its number where it was said; with `said_ms` it tells it from all others.
    pub number: u64,
    /// What the one is called who said it.
    pub name: String,
    /// What.
    pub text: String,
}

impl Annotation {
    /// What tells it from all others.
    const fn key(&self) -> (u64, u64) {
        (self.said_ms, self.number)
    }

    fn is_sound(&self) -> bool {
        self.text.len() <= ANNOTATION_LEN_MAX && self.name.len() <= NAME_LEN_MAX
    }
}

impl Archive {
    /// Writes down what was said of a recording, and returns when it is safe; what is there already
    /// is not written again, nor is what is beyond [`ANNOTATIONS_MAX`]. `life` names the segment,
    /// as in [`Log::new`].
    ///
    /// # Errors
    /// Of the disk; all of it may be written again.
    pub fn annotate(
        &self,
        recording: &Recording,
        said: &[Annotation],
        (life, topic, now): ((u64, u32), &Topic, u64),
    ) -> io::Result<()> {
        let there = annotations(&self.reader(), recording)?;
        let mut known: BTreeSet<_> = there.iter().map(Annotation::key).collect();
        let new = said.iter().filter(|one| one.is_sound());
        let new = new.filter(|one| known.insert(one.key()));
        let new: Vec<_> = new.take(ANNOTATIONS_MAX - there.len()).collect();
        if new.is_empty() {
            return Ok(());
        }
        let mut log = Log::new(self.medium()?, life)?;
        log.begin(recording.id, &recording.name, recording.begin)?;
        log.annotate(TrackInfo {
            recording: recording.id,
            topic: topic.clone(),
            media: MediaInfo::data(),
            reliable: true,
        });
        for one in &new {
            let body = serde_json::to_vec(one)?;
            let place = one.position_ms.saturating_mul(1_000_000);
            // Not behind its end, which it does not move.
            let time = recording.begin.saturating_add(place).min(recording.end);
            let record = Record::new(Kind::Packet, time, &body);
            log.packet(&Record {
                track: ANNOTATIONS,
                ..record
            });
        }
        if log.close(now) < new.len() as u64 {
            return Err(io::Error::other("the disk refuses what was said"));
        }
        Ok(())
    }
}

/// What was said of a recording, in the order of places; what is damaged of it is left out.
///
/// # Errors
/// Of the medium.
pub fn annotations(medium: &dyn Medium, recording: &Recording) -> io::Result<Vec<Annotation>> {
    let mut tracks = recording.tracks.iter();
    let track = tracks.find(|track| track.number == ANNOTATIONS);
    let mut left = track.map_or(0, |track| track.packets.min(READ_MAX));
    let mut found = Vec::new();
    // They are written last, so most segments are not even looked at.
    for name in recording.segments.iter().rev() {
        if left == 0 {
            break;
        }
        let Some(len) = medium.len_of(name)? else {
            continue;
        };
        let index = segment::find(medium, name, len)?.index;
        let mut tracks = index.tracks.iter();
        let here = tracks.find(|track| track.number == ANNOTATIONS);
        // Segments of others' recordings may hold some of theirs.
        if here.is_none_or(|track| track.info.recording != recording.id) {
            continue;
        }
        segment::scan(medium, name, 0, |record, _| {
            if record.track == ANNOTATIONS && record.kind == Kind::Packet {
                let said: Option<Annotation> = serde_json::from_slice(record.body).ok();
                found.extend(said.filter(Annotation::is_sound));
                left = left.saturating_sub(1);
            }
            left > 0
        })?;
    }
    let length = recording.end.saturating_sub(recording.begin) / 1_000_000;
    for one in &mut found {
        // What somebody else wrote may say anything.
        one.position_ms = one.position_ms.min(length);
    }
    let mut known = BTreeSet::new();
    found.retain(|one| known.insert(one.key()));
    found.sort();
    found.truncate(ANNOTATIONS_MAX);
    Ok(found)
}

/// The same as WebVTT, which players show beside the exported film.
#[must_use]
pub fn web_vtt(annotations: &[Annotation]) -> String {
    let mut out = "WEBVTT\n".to_owned();
    for one in annotations {
        let (from, to) = (
            clock(one.position_ms),
            clock(one.position_ms.saturating_add(SHOWN_MS)),
        );
        let name = plain(&one.name, " ");
        // A line without anything in it would end it.
        let lines = one.text.lines().filter(|line| !line.trim().is_empty());
        let lines: Vec<_> = lines.map(|line| plain(line, "")).collect();
        let text = lines.join("\n");
        // Writing into a text does not fail.
        let _ = write!(out, "\n{from} --> {to}\n<v {name}>{text}</v>\n");
    }
    out
}

/// WebVTT sections 4.2.2 and 4.4: what would be markup is escaped.
fn plain(text: &str, line_end: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c if c.is_control() => out.push_str(line_end),
            c => out.push(c),
        }
    }
    out
}

/// Hours, minutes, seconds and milliseconds.
fn clock(ms: u64) -> String {
    let (seconds, ms) = (ms / 1_000, ms % 1_000);
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    format!(
        "{:02}:{:02}:{seconds:02}.{ms:03}",
        minutes / 60,
        minutes % 60
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use sangam_model::Class;
    use tempfile::TempDir;

    use super::*;
    use crate::record::RecordingId;
    use crate::replay::Replay;

    const S: u64 = 1_000_000_000;
    const BEGIN: u64 = 1_000 * S;

    fn topic() -> Topic {
        Topic::new("a/b/service/annotations").unwrap()
    }

    fn said(position_ms: u64, number: u64) -> Annotation {
        Annotation {
            position_ms,
            said_ms: 9_000_000,
            number,
            name: "Anna".to_owned(),
            text: format!("number {number}"),
        }
    }

    /// Ten seconds of sound.
    fn recorded(folder: &TempDir) -> Archive {
        let archive = Archive::new(folder.path());
        let mut log = Log::new(archive.medium().unwrap(), (1, 1)).unwrap();
        log.begin(RecordingId(7), "talk", BEGIN).unwrap();
        let sound = log.track(TrackInfo {
            recording: RecordingId(7),
            topic: Topic::new("a/b/main/audio/m1").unwrap(),
            media: MediaInfo {
                class: Class::Audio,
                payload_type: 111,
                channels: 2,
                clock_rate: 48_000,
                encoding: "opus".to_owned(),
                fmtp: String::new(),
            },
            reliable: false,
        });
        for second in 0..10 {
            let packet = Record::new(Kind::Packet, BEGIN + second * S, b"packet");
            log.packet(&Record {
                track: sound,
                ..packet
            });
        }
        log.end(RecordingId(7), BEGIN + 10 * S);
        log.close(BEGIN + 10 * S);
        archive
    }

    fn only(archive: &Archive) -> Recording {
        let mut all = archive.recordings().unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    fn annotate(archive: &Archive, life: u64, said: &[Annotation]) -> io::Result<()> {
        archive.annotate(&only(archive), said, ((life, 1), &topic(), 99_000 * S))
    }

    #[test]
    fn what_is_said_later_is_part_of_the_recording_and_does_not_make_it_longer() {
        let folder = TempDir::new().unwrap();
        let archive = recorded(&folder);
        let before = only(&archive);
        annotate(&archive, 2, &[said(7_000, 1), said(2_500, 2)]).unwrap();
        // Once, whoever says it again.
        annotate(&archive, 3, &[said(2_500, 2), said(90_000, 3)]).unwrap();
        let after = only(&archive);
        assert_eq!((before.begin, before.end), (after.begin, after.end));
        assert_eq!(
            (before.whole, &before.tracks[0]),
            (after.whole, &after.tracks[0])
        );
        assert!(after.tracks[1].info.reliable);
        let found = annotations(&archive.reader(), &after).unwrap();
        assert_eq!(found, [said(2_500, 2), said(7_000, 1), said(10_000, 3)]);
    }

    #[test]
    fn a_replay_tells_each_at_its_moment() {
        let folder = TempDir::new().unwrap();
        let archive = recorded(&folder);
        annotate(&archive, 2, &[said(7_500, 1), said(2_500, 2)]).unwrap();
        let mut replay = Replay::new(archive.reader(), only(&archive));
        let told = |replay: &mut Replay<_>| {
            let mut order = Vec::new();
            while let Some(next) = replay.pull().unwrap() {
                let tenths = next.at.as_millis() / 100;
                order.push((tenths, next.track));
            }
            order
        };
        let mut wanted: Vec<_> = (0..10).map(|second| (second * 10, 0)).collect();
        wanted.insert(3, (25, 1));
        wanted.insert(9, (75, 1));
        assert_eq!(told(&mut replay), wanted);
        replay.seek(Duration::from_secs(6), &[0]).unwrap();
        assert_eq!(told(&mut replay), wanted[7..]);
    }

    #[test]
    fn a_crash_at_any_byte_costs_what_was_being_said_and_nothing_else() {
        let folder = TempDir::new().unwrap();
        let archive = recorded(&folder);
        annotate(&archive, 2, &[said(1_000, 1)]).unwrap();
        annotate(&archive, 3, &[said(2_000, 2)]).unwrap();
        let last = only(&archive).segments.pop().unwrap();
        let path = folder.path().join("log").join(last);
        let whole = fs::read(&path).unwrap();
        for len in (0..whole.len()).rev() {
            fs::write(&path, &whole[..len]).unwrap();
            let recording = only(&archive);
            assert_eq!(recording.end, BEGIN + 10 * S);
            let found = annotations(&archive.reader(), &recording).unwrap();
            assert_eq!(found[0], said(1_000, 1), "{len}");
            assert!(found[1..].is_empty() || found[1..] == [said(2_000, 2)]);
        }
        // Said again it is there.
        annotate(&archive, 4, &[said(2_000, 2)]).unwrap();
        let found = annotations(&archive.reader(), &only(&archive)).unwrap();
        assert_eq!(found, [said(1_000, 1), said(2_000, 2)]);
    }

    #[test]
    fn they_go_with_the_recording() {
        let folder = TempDir::new().unwrap();
        let archive = recorded(&folder);
        annotate(&archive, 2, &[said(1_000, 1)]).unwrap();
        assert_eq!(archive.remove(&only(&archive)).unwrap().kept, 0);
        let left = fs::read_dir(folder.path().join("log")).unwrap();
        assert_eq!((archive.recordings().unwrap(), left.count()), (vec![], 0));
    }

    #[test]
    fn a_recording_has_only_so_many() {
        let folder = TempDir::new().unwrap();
        let archive = recorded(&folder);
        let most = ANNOTATIONS_MAX as u64;
        let many: Vec<_> = (0..most - 1).map(|number| said(number, number)).collect();
        annotate(&archive, 2, &many).unwrap();
        annotate(&archive, 3, &[said(1, most), said(2, most + 1)]).unwrap();
        annotate(&archive, 4, &[said(3, most + 2)]).unwrap();
        let found = annotations(&archive.reader(), &only(&archive)).unwrap();
        assert_eq!(found.len(), ANNOTATIONS_MAX);
        let long = Annotation {
            text: "x".repeat(ANNOTATION_LEN_MAX + 1),
            ..said(0, 0)
        };
        assert!(!long.is_sound());
    }

    #[test]
    fn players_read_them_as_text_and_not_as_markup() {
        let odd = Annotation {
            name: "A<b>\n".to_owned(),
            text: "1 --> 2 & so\n\non".to_owned(),
            ..said(3_723_004, 1)
        };
        assert_eq!(
            web_vtt(&[odd]),
            "WEBVTT\n\n01:02:03.004 --> 01:02:08.004\n<v A&lt;b&gt; >1 --&gt; 2 &amp; so\non</v>\n"
        );
    }
}
