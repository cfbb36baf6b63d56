//! `sangam archive disk`.

use sangam_archive::films::{DiskState, Entry};
use serde_json::{Value, json};

use super::{failure, films};
use crate::cli::{DiskCommand, Place};
use crate::commands::table;
use crate::exit::Failure;
use crate::output;

const HEAD: [&str; 7] = [
    "DISK", "PLACE", "STATE", "WEIGHT", "PIECES", "GiB", "GiB FREE",
];
const GIB: f64 = (1_u64 << 30) as f64;

/// Does what is asked of disks.
pub(super) fn run(place: &Place, command: &DiskCommand, as_json: bool) -> Result<(), Failure> {
    let films = films(place);
    let wrong = |error| failure(&error);
    match command {
        DiskCommand::List => {
            let roster = films.roster().map_err(wrong)?;
            let (states, _) = films.survey(&roster).map_err(wrong)?;
            match as_json {
                true => states
                    .iter()
                    .for_each(|state| output::json_line(&to_json(state))),
                false => output::text(&text(&states)),
            }
            Ok(())
        }
        DiskCommand::Add { place, weight } => {
            let disk = films.add_disk(place, *weight).map_err(wrong)?;
            changed(&disk, "is there", as_json);
            Ok(())
        }
        DiskCommand::Remove { disk } => {
            let disk = films.remove_disk(disk).map_err(wrong)?;
            changed(&disk, "leaves", as_json);
            Ok(())
        }
    }
}

fn changed(disk: &Entry, what: &str, as_json: bool) {
    if as_json {
        let Entry { id, place, .. } = disk;
        let (weight, leaving) = (disk.weight, disk.leaving);
        output::json_line(&json!({
            "disk": id, "place": place, "weight": weight, "leaving": leaving,
        }));
    } else {
        output::line(&format!(
            "disk {} {what}: {}, weight {}; `sangam archive serve` moves blocks within seconds, \
             `sangam archive settle` now",
            disk.id, disk.place, disk.weight
        ));
    }
}

/// A table of disks.
pub(super) fn text(states: &[DiskState]) -> String {
    let gib = |bytes: Option<u64>| match bytes {
        Some(bytes) => format!("{:.1}", bytes as f64 / GIB),
        None => "-".to_owned(),
    };
    let row = |state: &DiskState| {
        vec![
            state.entry.id.to_string(),
            state.entry.place.clone(),
            word(state),
            state.entry.weight.to_string(),
            state.pieces.to_string(),
            gib(state.room.map(|(all, _)| all)),
            gib(state.room.map(|(_, free)| free)),
        ]
    };
    let rows: Vec<_> = states.iter().map(row).collect();
    table::render(&HEAD, &rows)
}

fn word(state: &DiskState) -> String {
    match (&state.away, state.entry.leaving) {
        (Some(why), _) => format!("away: {why}"),
        (None, true) => "leaving".to_owned(),
        (None, false) => "in use".to_owned(),
    }
}

/// A disk, for scripts.
pub(super) fn to_json(state: &DiskState) -> Value {
    json!({
        "disk": state.entry.id,
        "place": state.entry.place,
        "node": state.entry.node,
        "weight": state.entry.weight,
        "leaving": state.entry.leaving,
        "away": state.away,
        "pieces": state.pieces,
        "bytes": state.room.map(|(all, _)| all),
        "bytes_free": state.room.map(|(_, free)| free),
    })
}
