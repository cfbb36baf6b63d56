//! `sangam archive list`.

use sangam_archive::blocks::Layout;
use sangam_archive::films::{DATAGRAM, Summary};
use sangam_archive::{Annotation, Archive, Recording, Track, annotations};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::{all, failure, films};
use crate::cli::Place;
use crate::commands::table;
use crate::exit::{Failure, io};
use crate::output;

const HEAD: [&str; 7] = [
    "NUMBER", "NAME", "BEGIN", "LENGTH", "TRACKS", "PACKETS", "MiB",
];

/// Shows every recording, and every film.
pub(super) fn run(place: &Place, as_json: bool) -> Result<(), Failure> {
    let all = all(place)?;
    let films = films(place).list().map_err(|error| failure(&error))?;
    if as_json {
        let medium = Archive::new(&place.folder).reader();
        for one in &all {
            let said = annotations(&medium, one).map_err(io(place.folder.display()))?;
            let mut shown = to_json(one);
            shown["annotations"] = said.iter().map(annotation).collect();
            output::json_line(&shown);
        }
        films
            .iter()
            .for_each(|one| output::json_line(&film_to_json(one)));
    } else if all.is_empty() && films.is_empty() {
        output::line(
            "nothing is there; `sangam record TOPIC` records, `sangam archive add FILE` adds films",
        );
    } else {
        let rows = all.iter().map(cells).chain(films.iter().map(film_cells));
        let rows: Vec<_> = rows.collect();
        output::text(&table::render(&HEAD, &rows));
    }
    Ok(())
}

fn cells(recording: &Recording) -> Vec<String> {
    let cut = if recording.whole { "" } else { " (cut off)" };
    vec![
        recording.id.to_string(),
        recording.name.clone(),
        moment(recording.begin),
        format!("{:.1} s{cut}", recording.seconds()),
        recording.tracks.len().to_string(),
        recording.packets().to_string(),
        format!("{:.1}", recording.bytes() as f64 / f64::from(1 << 20)),
    ]
}

fn film_cells(film: &Summary) -> Vec<String> {
    let object = &film.object;
    vec![
        format!("{:016x}", object.id),
        object.name.clone(),
        "film".to_owned(),
        format!("{:.1} s", film.length.as_secs_f64()),
        "1".to_owned(),
        object.bytes.div_ceil(DATAGRAM as u64).to_string(),
        format!("{:.1}", object.bytes as f64 / f64::from(1 << 20)),
    ]
}

/// A film, for scripts.
pub(super) fn film_to_json(film: &Summary) -> Value {
    let object = &film.object;
    json!({
        "film": format!("{:016x}", object.id),
        "name": object.name,
        "seconds": film.length.as_secs_f64(),
        "bytes": object.bytes,
        "blocks": object.blocks(),
        "block_bytes": object.block_len,
        "layout": layout(object.layout),
        "starts": film.starts,
    })
}

/// How a film outlives a disk, in words.
pub(super) fn layout(layout: Layout) -> String {
    match layout {
        Layout::Copies(0 | 1) => "1 copy".to_owned(),
        Layout::Copies(copies) => format!("{copies} copies"),
        Layout::Parity(blocks) => format!("{blocks} blocks and a parity"),
    }
}

pub(super) fn to_json(recording: &Recording) -> Value {
    let tracks: Vec<_> = recording.tracks.iter().map(track).collect();
    json!({
        "recording": recording.id.to_string(),
        "name": recording.name,
        "begin_ns": recording.begin,
        "end_ns": recording.end,
        "ended_in_order": recording.whole,
        "packets": recording.packets(),
        "bytes": recording.bytes(),
        "tracks": tracks,
    })
}

fn annotation(said: &Annotation) -> Value {
    json!({
        "position_ms": said.position_ms,
        "said_ms": said.said_ms,
        "name": said.name,
        "text": said.text,
    })
}

fn track(track: &Track) -> Value {
    json!({
        "topic": track.info.topic.as_str(),
        "class": track.info.media.class.name(),
        "encoding": track.info.media.encoding,
        "reliable": track.info.reliable,
        "packets": track.packets,
        "bytes": track.bytes,
        "first_ns": track.first,
        "last_ns": track.last,
    })
}

/// RFC 3339, to the second.
fn moment(nanoseconds: u64) -> String {
    let seconds = i64::try_from(nanoseconds / 1_000_000_000).unwrap_or(i64::MAX);
    let Ok(time) = OffsetDateTime::from_unix_timestamp(seconds) else {
        return "-".to_owned();
    };
    let (date, clock) = (time.date(), time.time());
    format!(
        "{date}T{:02}:{:02}:{:02}Z",
        clock.hour(),
        clock.minute(),
        clock.second()
    )
}
