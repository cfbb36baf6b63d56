//! `sangam archive remove`.

use std::io::{IsTerminal, Write, stderr, stdin};

use sangam_archive::films::Summary;
use sangam_archive::{Archive, Recording, RemoveError};
use serde_json::json;

use super::{failure, films, matching};
use crate::cli::Place;
use crate::exit::{Exit, Failure, io};
use crate::output;

/// What is to be removed.
enum Found {
    Recording(Box<Recording>),
    Film(Summary),
}

/// Removes a recording or a film.
pub(super) fn run(
    place: &Place,
    (wanted, yes): (&str, bool),
    as_json: bool,
) -> Result<(), Failure> {
    let found = find(place, wanted)?;
    let (what, name) = match &found {
        Found::Recording(recording) => ("recording", recording.name.clone()),
        Found::Film(film) => ("film", film.object.name.clone()),
    };
    if !yes && !is_agreed(&format!("remove the {what} {name:?} for good?"))? {
        return Err(Failure::new(Exit::Failure, "nothing was removed"));
    }
    // Whether nothing of it is left, and what is, else.
    let (number, rest) = match &found {
        Found::Recording(recording) => {
            let removed = Archive::new(&place.folder).remove(recording);
            let removed = removed.map_err(|error| wrong(error, place))?;
            (recording.id.to_string(), removed.kept)
        }
        Found::Film(film) => {
            let is_gone = films(place).remove(film).map_err(|error| failure(&error))?;
            (format!("{:016x}", film.object.id), u64::from(!is_gone))
        }
    };
    if as_json {
        output::json_line(&json!({
            "removed": number, "name": name, "kind": what, "complete": rest == 0,
        }));
    } else {
        output::line(&format!("removed the {what} {name:?} ({number})"));
        if rest > 0 {
            output::line(
                "its bytes stay for now, as others use what holds them, or a disk is away; \
                 `sangam archive scrub` removes them then",
            );
        }
    }
    Ok(())
}

fn find(place: &Place, wanted: &str) -> Result<Found, Failure> {
    let recordings = matching(place, wanted)?.into_iter();
    let mut found: Vec<_> = recordings.map(Box::new).map(Found::Recording).collect();
    let films = films(place).list().map_err(|error| failure(&error))?;
    let fits = |film: &Summary| {
        let number = format!("{:016x}", film.object.id);
        film.object.name == wanted || !wanted.is_empty() && number.starts_with(wanted)
    };
    found.extend(films.into_iter().filter(fits).map(Found::Film));
    let wrong = |message: String| {
        let hint = "`sangam archive list` shows what there is, with numbers";
        Err(Failure::new(Exit::Usage, message).hint(hint))
    };
    match (found.pop(), found.len()) {
        (Some(found), 0) => Ok(found),
        (None, _) => wrong(format!("there is no recording or film {wanted:?}")),
        (Some(_), more) => wrong(format!(
            "{} are called {wanted:?}: name the number",
            more + 1
        )),
    }
}

fn wrong(error: RemoveError, place: &Place) -> Failure {
    match error {
        RemoveError::Recorded(id) => {
            let message = format!("{id} is being recorded");
            Failure::new(Exit::Failure, message).hint("end the recording first")
        }
        RemoveError::Io(error) => io(place.folder.display())(error),
        other => Failure::new(Exit::Failure, other.to_string()),
    }
}

/// Asks whoever sits there.
fn is_agreed(question: &str) -> Result<bool, Failure> {
    if !stdin().is_terminal() {
        let message = "nobody is there to be asked";
        return Err(Failure::new(Exit::Usage, message).hint("--yes removes without a question"));
    }
    // A terminal that has gone away answers nothing.
    let _ = write!(stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    let read = stdin().read_line(&mut answer);
    read.map_err(io("the terminal"))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
