//! `sangam archive export`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use sangam_archive::export::{ExportError, Exported, Format, export};
use sangam_archive::{Archive, annotations, web_vtt};
use serde_json::{Value, json};

use super::progress::Progress;
use crate::cli::Place;
use crate::exit::{Exit, Failure, io};
use crate::output;

/// Writes a recording to a file.
pub(super) fn run(
    place: &Place,
    (wanted, out): (&str, &Path),
    as_json: bool,
) -> Result<(), Failure> {
    let ending = out.extension().and_then(|ending| ending.to_str());
    if ending.is_some_and(|ending| ending.eq_ignore_ascii_case("vtt")) {
        return said(place, (wanted, out), as_json);
    }
    let format = Format::of(out).ok_or_else(|| {
        let message = format!("{}: the ending says no format", out.display());
        Failure::new(Exit::Usage, message)
            .hint("name it .mkv, .webm or .mp4; .vtt is what was said of it")
    })?;
    let recording = super::find(place, wanted)?;
    let medium = Archive::new(&place.folder).reader();
    let begun = beside(out)?;
    let file = File::create(&begun).map_err(io(begun.display()))?;
    let mut progress = Progress::new("exporting", 2 * recording.packets());
    let done = export(&medium, &recording, (format, file), |read| {
        progress.at(read)
    });
    drop(progress);
    let kept = done.and_then(|done| Ok(keep(&begun, out).map(|()| done)?));
    let done = kept.map_err(|error| failure(&error, (&begun, out)))?;
    let topic = |place: usize| recording.tracks[place].info.topic.to_string();
    if as_json {
        output::json_line(&to_json(&done, &topic, out));
    } else {
        show(&done, &topic, out);
    }
    super::is_whole(done.gaps)
}

/// Writes what people said of a recording while they watched it, as subtitles.
fn said(place: &Place, (wanted, out): (&str, &Path), as_json: bool) -> Result<(), Failure> {
    let recording = super::find(place, wanted)?;
    let medium = Archive::new(&place.folder).reader();
    let wrong = || io(place.folder.display());
    let said = annotations(&medium, &recording).map_err(wrong())?;
    let begun = beside(out)?;
    let mut file = File::create(&begun).map_err(io(begun.display()))?;
    let written = file.write_all(web_vtt(&said).as_bytes());
    let kept = written.and_then(|()| keep(&begun, out));
    kept.map_err(|error| failure(&ExportError::Disk(error), (&begun, out)))?;
    let count = said.len();
    if as_json {
        output::json_line(&json!({ "file": out, "annotations": count }));
    } else {
        output::line(&format!(
            "{count} annotations: exported to {}",
            out.display()
        ));
    }
    Ok(())
}

/// The same folder, so that it can be put in the place of an earlier file when it is whole.
fn beside(out: &Path) -> Result<PathBuf, Failure> {
    let name = out.file_name().ok_or_else(|| {
        let message = format!("{}: no name of a file", out.display());
        Failure::new(Exit::Usage, message)
    })?;
    let mut begun = name.to_owned();
    begun.push(".part");
    Ok(out.with_file_name(begun))
}

/// Puts a film in its place, in one step.
fn keep(begun: &Path, out: &Path) -> std::io::Result<()> {
    File::open(begun)?.sync_all()?;
    fs::rename(begun, out)
}

fn show(done: &Exported, topic: &dyn Fn(usize) -> String, out: &Path) {
    for (track, frames) in &done.tracks {
        output::line(&format!("{}: {frames} frames", topic(*track)));
    }
    for (track, reason) in &done.left_out {
        output::line(&format!("{}: left out, {reason}", topic(*track)));
    }
    if done.broken > 0 {
        output::line(&format!(
            "{} frames were left out, as packets of them or a key frame before them had been lost",
            done.broken
        ));
    }
    output::line(&format!("exported to {}", out.display()));
}

fn to_json(done: &Exported, topic: &dyn Fn(usize) -> String, out: &Path) -> Value {
    let tracks = done.tracks.iter();
    let tracks: Vec<_> = tracks
        .map(|(track, frames)| json!({ "topic": topic(*track), "frames": frames }))
        .collect();
    let left_out = done.left_out.iter();
    let left_out: Vec<_> = left_out
        .map(|(track, reason)| json!({ "topic": topic(*track), "reason": reason }))
        .collect();
    json!({
        "file": out,
        "tracks": tracks,
        "left_out": left_out,
        "broken_frames": done.broken,
        "damaged": { "places": done.gaps.count, "bytes": done.gaps.bytes },
    })
}

fn failure(error: &ExportError, (begun, out): (&Path, &Path)) -> Failure {
    let hint = match error {
        ExportError::Nothing(_) => ".mkv takes the most codecs",
        _ => "",
    };
    // What was begun is no film.
    if let Err(error) = fs::remove_file(begun) {
        tracing::debug!(%error, "what was begun stays");
    }
    Failure::new(Exit::Failure, format!("{}: {error}", out.display())).hint(hint)
}
