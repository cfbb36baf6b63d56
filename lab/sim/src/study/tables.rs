//! What is shown of each experiment.

pub(super) use full::{decision_ns, receiver_ns};

mod full;
mod matched;
pub(super) mod overhead;
mod sessions;

use super::bootstrap::Estimate;
use super::page::{Figure, Line, Section, thin};
use super::{Experiment, Part, Results, Session};
use crate::replay::Histogram;

/// A method, a receiver, and what the paper calls both together: as we read it, and to the letter
/// (`l`), with jitter of all history or of the window (`w`).
pub(super) const SOLUTIONS: [(&str, &str, &str); 15] = [
    ("direct", "neteq", "DRT-BF"),
    ("direct", "wmjitter", "DRT-WM"),
    ("direct", "wmjitter-literal", "DRT-WMl"),
    ("direct", "wmjitter-literal-window", "DRT-WMlw"),
    ("via", "neteq", "VIA-BF"),
    ("via", "wmjitter", "VIA-WM"),
    ("via", "wmjitter-literal", "VIA-WMl"),
    ("via", "wmjitter-literal-window", "VIA-WMlw"),
    ("vcroute", "wmjitter", "VCR-WM"),
    ("vcroute", "wmjitter-literal", "VCR-WMl"),
    ("vcroute", "wmjitter-literal-window", "VCR-WMlw"),
    ("vcroute-literal", "wmjitter", "VCRl-WM"),
    ("vcroute-literal", "wmjitter-literal", "VCRl-WMl"),
    ("vcroute-literal", "wmjitter-literal-window", "VCRl-WMlw"),
    ("ours", "ours", "ours"),
];
/// What everything is compared with.
const REFERENCE: (&str, &str) = ("vcroute", "wmjitter");
/// The same to the letter, with jitter of all history and of the window.
const LITERAL: [(&str, &str); 2] = [
    ("vcroute-literal", "wmjitter-literal"),
    ("vcroute-literal", "wmjitter-literal-window"),
];
/// Points of a curve: more would not be seen.
const POINTS: usize = 120;

/// The chapters of an experiment that ran sessions.
#[must_use]
pub fn sections(experiment: &Experiment, all: &[&Results]) -> Vec<Section> {
    let mut sections = Vec::new();
    for results in all {
        let mut section = Section {
            title: format!("{}: {}, {}", experiment.name, results.name, results.about),
            words: results.lacking().into_iter().collect(),
            ..Section::default()
        };
        match (experiment.name, experiment.part) {
            ("fig15", _) => {
                let (figure, table) = sessions::losses(results);
                section.figures.push(figure);
                section.tables.push(table);
            }
            ("fig16", _) => {
                let (figure, table) = overhead::plans(results);
                section.figures.push(figure);
                section.tables.push(table);
            }
            ("ours", _) => {
                section
                    .figures
                    .push(curves(&results.whole, results, "all-"));
                section.tables.push(full::table(results));
                section.tables.push(matched::table(results));
                section.tables.push(sessions::ours(results));
            }
            (_, Part::Ablation) => section.tables.push(full::table(results)),
            _ => {
                let figures = results.sessions.iter();
                section.figures = figures
                    .map(|session| curves(session, results, ""))
                    .collect();
                section.tables.push(sessions::paper(results));
            }
        }
        sections.push(section);
    }
    sections
}

/// The distribution of latencies in a session, as in figures 9 to 13 and 17.
fn curves(session: &Session, results: &Results, prefix: &str) -> Figure {
    let cells = SOLUTIONS.iter().filter_map(|(method, receiver, label)| {
        let cell = results.cell_of(session, method, receiver)?;
        Some((*label, &cell.tally.release))
    });
    let cells: Vec<(&str, &Histogram)> = cells.collect();
    // One solution's long tail would squeeze all others to the left.
    let mut tails: Vec<f64> = cells.iter().map(|(_, all)| all.quantile_ms(0.99)).collect();
    tails.sort_by(f64::total_cmp);
    let end = 1.5 * tails.get(tails.len() / 2).copied().unwrap_or_default();
    let lines = cells.into_iter().map(|(label, all)| {
        let mut curve = all.curve().peekable();
        let mut points: Vec<(f64, f64)> = curve
            .peek()
            .map(|first| (first.0, 0.0))
            .into_iter()
            .collect();
        for (ms, share) in curve.take_while(|(ms, _)| *ms <= end) {
            points.push((ms, 100.0 * share));
            if share > 0.995 {
                break;
            }
        }
        Line {
            label: label.to_owned(),
            points: thin(points, POINTS),
        }
    });
    Figure {
        name: format!(
            "{prefix}{}-{}",
            results.name,
            session.name.replace('>', "-to-")
        ),
        title: format!("{}: {}", results.name, session.name),
        x: "release latency, ms".to_owned(),
        y: "% of packets".to_owned(),
        lines: lines.collect(),
        ..Figure::default()
    }
}

/// `-20.1 % [-22.0, -18.3]` of a change.
pub(super) fn percent(change: &Estimate) -> String {
    let of = |value: f64| 100.0 * value;
    format!(
        "{:+.1} % [{:+.1}, {:+.1}]",
        of(change.value),
        of(change.low),
        of(change.high)
    )
}

/// `167.2 [165.0, 169.9]`.
fn span(estimate: &Estimate) -> String {
    let Estimate { value, low, high } = estimate;
    format!("{value:.1} [{low:.1}, {high:.1}]")
}
