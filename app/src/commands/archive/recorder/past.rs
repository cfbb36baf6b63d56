//! What a recording of a session holds beside its packets: who was there, what they said, and what
//! they drew.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::Duration;

use sangam_archive::{Archive, Folder, Recording, Replay, annotations};
use sangam_session::limits::PLAYED_MAX;
use sangam_session::{MAIN, Medium, MemberId, Person};
use serde_json::{Value, json};

use super::Id;
use super::catalogue::session;
use super::take::LOG;

/// Frames of events that are read of one recording.
const FRAMES_MAX: usize = 20_000;
/// Lines of chat that are kept of them.
const LINES_MAX: usize = 10_000;
/// Bytes of those frames.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// Events of a board that are read of one recording, and their bytes; what is later is not shown.
const STROKES_MAX: usize = 100_000;
const STROKE_BYTES_MAX: usize = 32 << 20;

/// A recording that can be replayed.
pub(super) struct Past {
    pub(super) replay: Replay<Folder>,
    pub(super) people: Vec<Person>,
    /// In the order of time.
    pub(super) lines: Vec<Line>,
    /// For each track whose it is.
    pub(super) tracks: Vec<Option<Part>>,
    /// What was drawn on the board, in the order of time.
    pub(super) strokes: Vec<Stroke>,
    /// What was said of it since, as session servers are told.
    pub(super) annotations: Vec<Value>,
}

/// An event of the board.
pub(super) struct Stroke {
    /// Since the begin of the recording.
    pub(super) at: Duration,
    pub(super) event: Vec<u8>,
}

/// A line of chat.
pub(super) struct Line {
    /// Since the begin of the recording.
    pub(super) at: Duration,
    pub(super) source: MemberId,
    pub(super) text: String,
}

/// What a track is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) source: MemberId,
    pub(super) medium: Medium,
    /// What stands behind the member in its topic.
    pub(super) rest: String,
}

impl Past {
    /// The recording with this number, if it is one of the session.
    pub(super) fn open(archive: &Path, number: &str, id: &Id) -> io::Result<Option<Self>> {
        let archive = Archive::new(archive);
        let mut all = archive.recordings()?.into_iter();
        let found = all.find(|one| one.id.to_string() == number);
        let Some(recording) = found.filter(|one| session(one).as_ref() == Some(id)) else {
            return Ok(None);
        };
        let tracks = recording.tracks.iter();
        let tracks: Vec<_> = tracks
            .map(|one| part(one.info.topic.as_str(), id))
            .collect();
        let session = format!("{}/{}", id.0, id.1);
        let replay = Replay::new(archive.reader(), recording);
        let frames = data(
            &replay,
            &format!("{session}{LOG}"),
            (FRAMES_MAX, FRAME_BYTES_MAX),
        )?;
        let board = format!("{session}/{MAIN}/board");
        let strokes = data(&replay, &board, (STROKES_MAX, STROKE_BYTES_MAX))?;
        let strokes = strokes.into_iter();
        let strokes = strokes.map(|(at, event)| Stroke { at, event }).collect();
        let annotations = recalled(&replay)?;
        let (names, lines) = told(&frames);
        let people = people(replay.recording(), (&tracks, &lines), &names);
        Ok(Some(Self {
            replay,
            people,
            lines,
            tracks,
            strokes,
            annotations,
        }))
    }

    /// How long it is.
    pub(super) fn length(&self) -> Duration {
        let recording = self.replay.recording();
        Duration::from_nanos(recording.end.saturating_sub(recording.begin))
    }
}

fn recalled(replay: &Replay<Folder>) -> io::Result<Vec<Value>> {
    let recording = replay.recording();
    let said = annotations(replay.medium(), recording)?.into_iter();
    let said = said.map(|one| {
        json!({
            "recording": recording.id.to_string(), "position_ms": one.position_ms,
            "said_ms": one.said_ms, "number": one.number, "name": one.name, "text": one.text,
        })
    });
    Ok(said.collect())
}

/// The data of a topic: the first so many, of so many bytes.
fn data(
    replay: &Replay<Folder>,
    topic: &str,
    most: (usize, usize),
) -> io::Result<Vec<(Duration, Vec<u8>)>> {
    let mut tracks = replay.recording().tracks.iter();
    match tracks.position(|one| one.info.topic.as_str() == topic) {
        Some(track) => replay.data(track, most),
        None => Ok(Vec::new()),
    }
}

/// Of `tenant/name/main/medium/member/...` whose it is; what was said in private rooms stays there.
fn part(topic: &str, (tenant, name): &Id) -> Option<Part> {
    let mut levels = topic.splitn(6, '/');
    let at = [levels.next()?, levels.next()?, levels.next()?];
    if at != [tenant, name, MAIN] {
        return None;
    }
    let medium = levels.next()?;
    let media = [Medium::Audio, Medium::Video, Medium::Screen];
    let medium = media.into_iter().find(|one| one.name() == medium)?;
    let source = levels.next()?.parse().ok()?;
    let rest = levels.next().map(|rest| format!("/{rest}"));
    Some(Part {
        source,
        medium,
        rest: rest.unwrap_or_default(),
    })
}

type Names = BTreeMap<MemberId, String>;

/// What the frames of a session's events say.
fn told(frames: &[(Duration, Vec<u8>)]) -> (Names, Vec<Line>) {
    let (mut names, mut lines) = (Names::new(), Vec::new());
    for (at, frame) in frames {
        // What a crash left of one is none.
        let Ok(frame) = serde_json::from_slice::<Value>(frame) else {
            continue;
        };
        for member in items(&frame["session"]["members"]) {
            name(&mut names, (&member["id"], &member["name"]));
        }
        for event in items(&frame["events"]) {
            match event["event"].as_str() {
                Some("joined") => {
                    name(
                        &mut names,
                        (&event["person"]["id"], &event["person"]["name"]),
                    );
                }
                Some("named") => name(&mut names, (&event["member"], &event["name"])),
                Some("chat") if lines.len() < LINES_MAX => lines.extend(line(*at, event)),
                _ => {}
            }
        }
    }
    (names, lines)
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn name(names: &mut Names, (member, name): (&Value, &Value)) {
    let member = member.as_str().and_then(|member| member.parse().ok());
    if let (Some(member), Some(name)) = (member, name.as_str()) {
        names.insert(member, name.to_owned());
    }
}

fn line(at: Duration, event: &Value) -> Option<Line> {
    let is_main = event["room"].as_str().is_none_or(|room| room == MAIN);
    let source = event["from"].as_str()?.parse().ok()?;
    let text = event["text"].as_str()?.to_owned();
    is_main.then_some(Line { at, source, text })
}

/// Those who were seen or heard, the first first; then those who wrote.
fn people(
    recording: &Recording,
    (tracks, lines): (&[Option<Part>], &[Line]),
    names: &Names,
) -> Vec<Person> {
    let mut media: BTreeMap<MemberId, BTreeSet<Medium>> = BTreeMap::new();
    let mut order: Vec<MemberId> = Vec::new();
    for (track, part) in recording.tracks.iter().zip(tracks) {
        if let Some(part) = part
            && track.packets > 0
        {
            media.entry(part.source).or_default().insert(part.medium);
            order.push(part.source);
        }
    }
    order.extend(lines.iter().map(|line| line.source));
    let mut seen = BTreeSet::new();
    order.retain(|one| seen.insert(*one));
    order.truncate(PLAYED_MAX);
    let person = |source: MemberId| Person {
        source,
        name: names
            .get(&source)
            .cloned()
            .unwrap_or_else(|| source.to_string()),
        media: media.get(&source).into_iter().flatten().copied().collect(),
    };
    order.into_iter().map(person).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_say_whose_a_track_is_and_private_rooms_stay_private() {
        let id = ("acme".to_owned(), "weekly".to_owned());
        let of = |topic: &str| part(topic, &id);
        let camera = of("acme/weekly/main/video/m7").unwrap();
        assert_eq!((camera.source, camera.medium), (MemberId(7), Medium::Video));
        assert_eq!(of("acme/weekly/main/audio/m7/a/b").unwrap().rest, "/a/b");
        for other in [
            "acme/weekly/b1/video/m7",
            "acme/daily/main/video/m7",
            "acme/weekly/main/board",
            "acme/weekly/main/data/m7",
            "acme/weekly/main/video/anna",
            "acme/weekly/service/log",
            "acme",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn names_and_lines_come_from_what_was_told() {
        let at = Duration::from_secs;
        let frame = |at: Duration, frame: Value| (at, frame.to_string().into_bytes());
        let frames = [
            frame(
                at(0),
                json!({ "session": { "members": [{ "id": "m1", "name": "Anna" }] } }),
            ),
            (at(1), b"{\"events\": [".to_vec()),
            frame(
                at(2),
                json!({ "events": [
                { "event": "joined", "person": { "id": "m2", "name": "Bert" } },
                { "event": "named", "member": "m1", "name": "Ann" },
                { "event": "chat", "from": "m2", "room": "main", "text": "hello" },
                { "event": "chat", "from": "m1", "room": "b1", "text": "secret" },
                { "event": "chat", "from": "nobody", "text": "?" },
            ] }),
            ),
        ];
        let (names, lines) = told(&frames);
        assert_eq!(names[&MemberId(1)], "Ann");
        assert_eq!(names[&MemberId(2)], "Bert");
        let lines: Vec<_> = lines
            .iter()
            .map(|line| (line.at, line.text.as_str()))
            .collect();
        assert_eq!(lines, [(at(2), "hello")]);
    }
}
