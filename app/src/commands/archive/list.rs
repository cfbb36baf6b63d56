//! `sangam archive list`.

use sangam_archive::{Recording, Track};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::all;
use crate::cli::Place;
use crate::commands::table;
use crate::exit::Failure;
use crate::output;

const HEAD: [&str; 7] = [
    "RECORDING",
    "NAME",
    "BEGIN",
    "LENGTH",
    "TRACKS",
    "PACKETS",
    "MiB",
];

/// Shows every recording.
pub(super) fn run(place: &Place, as_json: bool) -> Result<(), Failure> {
    let all = all(place)?;
    if as_json {
        all.iter().for_each(|one| output::json_line(&to_json(one)));
    } else if all.is_empty() {
        output::line("nothing is recorded there; `sangam record TOPIC` records");
    } else {
        let rows: Vec<_> = all.iter().map(cells).collect();
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

fn track(track: &Track) -> Value {
    json!({
        "topic": track.info.topic.as_str(),
        "class": track.info.media.class.name(),
        "encoding": track.info.media.encoding,
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
