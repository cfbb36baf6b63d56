//! One result in one schema: JSON, CSV, Markdown and a plot (docs/spec/bench-report.md).

mod csv;
mod markdown;
mod plot;
mod row;
mod summary;
mod verdict;

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::error::Error;
use crate::machine::Machine;

pub(crate) use plot::Plot;
pub(crate) use row::{Row, Value};
pub(crate) use summary::write_summary;
pub(crate) use verdict::{Bound, Verdict};

/// What one experiment found.
#[derive(Serialize)]
pub(crate) struct Report {
    /// Name as in `sangam bench list`.
    pub(crate) experiment: &'static str,
    /// What was measured, in one line.
    pub(crate) title: String,
    /// Single figures of the whole experiment, at the top level of the JSON.
    #[serde(flatten)]
    pub(crate) headline: Row,
    /// Our rows.
    pub(crate) ours: Vec<Row>,
    /// The paper's rows.
    pub(crate) paper: Vec<Row>,
    /// How to read the rows.
    pub(crate) notes: Vec<String>,
    /// Where and when this was.
    pub(crate) machine: Machine,
    /// What was to be reached, and whether it was.
    pub(crate) verdict: Verdict,
    /// What the picture shows.
    #[serde(skip)]
    pub(crate) plot: Option<Plot>,
    /// The rows of the picture, where those of the table are too few for one.
    #[serde(skip)]
    pub(crate) drawn: Vec<Row>,
    /// Further pictures, of the same rows, each with the end of its file's name.
    #[serde(skip)]
    pub(crate) pictures: Vec<(&'static str, Plot)>,
}

impl Report {
    /// An empty report of an experiment, with the machine's facts.
    pub(crate) fn new(experiment: &'static str, title: impl Into<String>) -> Self {
        Self {
            experiment,
            title: title.into(),
            headline: Row::default(),
            ours: Vec::new(),
            paper: Vec::new(),
            notes: Vec::new(),
            machine: Machine::here(),
            verdict: Verdict::default(),
            plot: None,
            drawn: Vec::new(),
            pictures: Vec::new(),
        }
    }

    /// The report as JSON text.
    ///
    /// # Errors
    /// [`Error::Report`] if it cannot be encoded.
    pub(crate) fn to_json(&self) -> Result<String, Error> {
        serde_json::to_string_pretty(self).map_err(|error| Error::Report(error.to_string()))
    }

    /// The report as a person reads it in a terminal or a browser.
    pub(crate) fn to_markdown(&self) -> String {
        markdown::document(self)
    }

    /// Writes `NAME.json`, `.csv`, `.md` and, where there is something to draw, `.svg`, and
    /// `NAME-WHAT.svg` of further pictures.
    ///
    /// # Errors
    /// [`Error::File`] with the path that could not be written.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> Result<(), Error> {
        fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
        let mut files = vec![
            (".json".to_owned(), self.to_json()?),
            (".csv".to_owned(), csv::table(&self.ours, &self.paper)),
            (".md".to_owned(), self.to_markdown()),
        ];
        let ours = match self.drawn.is_empty() {
            true => &self.ours,
            false => &self.drawn,
        };
        if let Some(plot) = &self.plot {
            files.push((
                ".svg".to_owned(),
                plot.draw(&self.title, ours, &self.paper)?,
            ));
        }
        for (what, plot) in &self.pictures {
            let picture = plot.draw(&self.title, ours, &self.paper)?;
            files.push((format!("-{what}.svg"), picture));
        }
        for (end, text) in files {
            let path = folder.join(format!("{name}{end}"));
            fs::write(&path, text).map_err(|error| Error::file(&path, error))?;
        }
        Ok(())
    }
}
