//! One page over all reports of a run.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{Report, markdown};
use crate::error::Error;

/// Writes `README.md` beside the reports: the machine once, then verdict and tables of each.
///
/// # Errors
/// [`Error::File`] with the path that could not be written.
pub(crate) fn write_summary(folder: &Path, reports: &[(String, Report)]) -> Result<(), Error> {
    let path = folder.join("README.md");
    fs::write(&path, page(reports)).map_err(|error| Error::file(&path, error))
}

fn page(reports: &[(String, Report)]) -> String {
    let mut text = String::from("# Measured\n\n");
    if let Some((_, report)) = reports.first() {
        for (name, fact) in report.machine.facts() {
            let _ = writeln!(text, "- {name}: {fact}");
        }
    }
    text.push_str("\n| Experiment | Verdict |\n| :-- | :-- |\n");
    for (name, report) in reports {
        let _ = writeln!(text, "| [{name}]({name}.md) | {} |", report.verdict.text);
    }
    for (name, report) in reports {
        let _ = write!(text, "\n## {name}\n\n{}\n", report.title);
        for (whose, rows) in [("Ours", &report.ours), ("The paper", &report.paper)] {
            if !rows.is_empty() {
                let _ = write!(text, "\n{whose}:\n\n{}", markdown::table(rows));
            }
        }
        if report.plot.is_some() {
            let _ = write!(text, "\n![{name}]({name}.svg)\n");
        }
    }
    text
}
