//! The simulator's figures, from its report.

use serde::Deserialize;

use super::heard::Figures;
use crate::error::Error;

/// By method and receiver.
pub(super) struct Simulated(Table);

#[derive(Deserialize)]
struct Report {
    tables: Vec<Table>,
}

#[derive(Deserialize)]
struct Table {
    name: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Simulated {
    /// The table of all methods and receivers in a report as JSON.
    ///
    /// # Errors
    /// [`Error::Simulator`] if it is not there.
    pub(super) fn of(report: &str) -> Result<Self, Error> {
        let report: Report = serde_json::from_str(report)
            .map_err(|error| Error::Simulator(format!("the simulator's report: {error}")))?;
        let is_all =
            |table: &Table| table.name.starts_with("study-") && table.name.ends_with("-all");
        let table = report.tables.into_iter().find(is_all);
        let none = || Error::Simulator("the simulator's report lacks its whole table".to_owned());
        table.map(Self).ok_or_else(none)
    }

    /// What a receiver had behind a method.
    pub(super) fn figures(&self, method: &str, receiver: &str) -> Option<Figures> {
        let mut rows = self.0.rows.iter();
        let row = rows.find(|row| row.len() > 1 && row[0] == method && row[1] == receiver)?;
        let number = |column: &str| {
            let place = self
                .0
                .columns
                .iter()
                .position(|name| name.starts_with(column))?;
            // Where there is an interval, the value stands before it.
            row.get(place)?.split(' ').next()?.parse().ok()
        };
        Some(Figures {
            transit_ms: number("transit ms")?,
            release_ms: number("release ms")?,
            playout_ms: number("playout ms")?,
            lost_percent: number("late loss %")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"tables": [
        {"name": "matched-t2", "columns": [], "rows": []},
        {"name": "study-t2-all",
         "columns": ["method", "receiver", "release ms, mean [95 %]", "release p50",
                     "playout ms, mean [95 %]", "late loss % [95 %]", "transit ms"],
         "rows": [["via", "neteq", "169.5 [160.1, 170.2]", "150.0", "171.0 [1, 2]",
                   "0.031 [0.000, 0.100]", "140.2"]]}]}"#;

    #[test]
    fn figures_are_found_by_method_and_receiver() {
        let simulated = Simulated::of(REPORT).expect("a report");
        let figures = simulated.figures("via", "neteq").expect("a row");
        assert_eq!((figures.release_ms, figures.playout_ms), (169.5, 171.0));
        assert_eq!((figures.transit_ms, figures.lost_percent), (140.2, 0.031));
        assert!(simulated.figures("via", "ours").is_none());
        assert!(Simulated::of(r#"{"tables": []}"#).is_err());
    }
}
