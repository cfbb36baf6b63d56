//! `sangam archive status`.

use sangam_archive::films::Summary;
use serde_json::{Value, json};

use super::disk;
use super::{failure, films};
use crate::cli::Place;
use crate::exit::{Exit, Failure};
use crate::output;

/// Shows disks, and what is missing of films.
pub(super) fn run(place: &Place, as_json: bool) -> Result<(), Failure> {
    let films = films(place);
    let wrong = |error| failure(&error);
    let roster = films.roster().map_err(wrong)?;
    let (states, store) = films.survey(&roster).map_err(wrong)?;
    let health = films.health(&store).map_err(wrong)?;
    let astray: u64 = health.iter().map(|(_, astray, _)| astray).sum();
    let lost = health.iter().filter(|(_, _, is_whole)| !is_whole);
    let lost: Vec<_> = lost.map(|(film, _, _)| film.object.name.as_str()).collect();
    if as_json {
        let disks: Vec<_> = states.iter().map(disk::to_json).collect();
        let films: Vec<_> = health.iter().map(to_json).collect();
        output::json_line(&json!({
            "disks": disks, "settled": roster.is_settled(), "astray": astray, "films": films,
        }));
    } else {
        output::text(&disk::text(&states));
        output::line(&format!(
            "{} films, {} of them not whole",
            health.len(),
            lost.len()
        ));
        if astray > 0 {
            output::line(&format!(
                "{astray} pieces are not where they belong: `sangam archive settle` brings them \
                 there, `sangam archive serve` by itself"
            ));
        }
    }
    if lost.is_empty() {
        return Ok(());
    }
    let message = format!("blocks are missing of: {}", lost.join(", "));
    let hint = "bring back the disks that are away";
    Err(Failure::new(Exit::Failure, message).hint(hint))
}

fn to_json((film, astray, is_whole): &(Summary, u64, bool)) -> Value {
    json!({
        "film": format!("{:016x}", film.object.id),
        "name": film.object.name,
        "astray": astray,
        "whole": is_whole,
    })
}
