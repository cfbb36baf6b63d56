//! `sangam archive scrub`: is everything still there?

use sangam_archive::{Archive, Catalogue, Medium, segment};
use serde_json::json;

use super::progress::Progress;
use super::settle;
use crate::cli::Place;
use crate::exit::{Exit, Failure, io};
use crate::output;

/// Reads every segment to its end.
pub(super) fn run(place: &Place, as_json: bool) -> Result<(), Failure> {
    let wrong = || io(place.folder.display());
    let archive = Archive::new(&place.folder);
    let repaired = archive.repair(super::now()).map_err(wrong())?;
    let removed = archive.finish_removals().map_err(wrong())?;
    let medium = archive.reader();
    let segments = medium.list().map_err(wrong())?;
    let total = segments.iter().map(|(_, len)| len).sum();
    let mut progress = Progress::new("reading", total);
    let (mut read, mut damaged) = (0, Vec::new());
    for (name, len) in &segments {
        let mut records = 0_u64;
        let scanned = segment::scan(&medium, name, 0, |_, offset| {
            progress.at(read + offset);
            records += 1;
            true
        });
        let gaps = scanned.map_err(wrong())?.gaps;
        read += len;
        if gaps.count > 0 {
            damaged.push(json!({
                "segment": name, "records": records, "offset": gaps.first,
                "places": gaps.count, "bytes": gaps.bytes,
            }));
        }
    }
    drop(progress);
    Catalogue::new(archive).rebuild().map_err(wrong())?;
    let films = settle::scrub(place)?;
    if as_json {
        output::json_line(&json!({
            "segments": segments.len(), "bytes": total, "repaired": repaired, "damaged": damaged,
            "removed": removed.segments, "films": settle::to_json(&films),
        }));
    } else {
        output::line(&format!(
            "{} segments with {total} bytes read, {repaired} ended after a crash, {} damaged",
            segments.len(),
            damaged.len()
        ));
        settle::show(&films);
    }
    settle::judge(&films)?;
    if damaged.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = damaged.iter().map(ToString::to_string).collect();
    Err(Failure::new(
        Exit::Failure,
        format!("checksums are wrong: {}", names.join(", ")),
    ))
}
