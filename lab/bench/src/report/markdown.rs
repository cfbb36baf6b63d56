//! A report as Markdown: the paper's table and ours, the verdict, the machine.

use std::fmt::Write as _;

use super::Report;
use super::row::{Row, columns};

/// The whole document.
pub(super) fn document(report: &Report) -> String {
    let mut text = format!("# {}\n\n{}\n", report.experiment, report.title);
    if report.headline.cells().next().is_some() {
        section(&mut text, "Result", &list(&report.headline));
    }
    section(&mut text, "Ours", &table(&report.ours));
    if !report.paper.is_empty() {
        section(&mut text, "The paper", &table(&report.paper));
    }
    section(&mut text, "Verdict", &verdict(report));
    if !report.notes.is_empty() {
        let notes: String = report
            .notes
            .iter()
            .map(|note| format!("- {note}\n"))
            .collect();
        section(&mut text, "How to read this", &notes);
    }
    section(&mut text, "Machine", &machine(report));
    text
}

/// A table with one column per name of any row.
pub(super) fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "Nothing measured.\n".to_owned();
    }
    let names = columns(rows);
    let cells: Vec<Vec<String>> = rows.iter().map(|row| line(row, &names)).collect();
    let width = |column: usize| {
        let widest = cells.iter().map(|line| line[column].chars().count()).max();
        widest.unwrap_or(0).max(names[column].len())
    };
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let mut text = join(names.iter().map(|name| (*name).to_owned()), &widths);
    text.push_str(&join(
        widths.iter().map(|width| "-".repeat(width - 1) + ":"),
        &widths,
    ));
    for line in cells {
        text.push_str(&join(line.into_iter(), &widths));
    }
    text
}

fn line(row: &Row, names: &[&str]) -> Vec<String> {
    let cell = |name| {
        row.get(name)
            .map_or_else(String::new, |value| value.to_text())
    };
    names.iter().map(|name| cell(name)).collect()
}

fn join(cells: impl Iterator<Item = String>, widths: &[usize]) -> String {
    let mut text = String::from("|");
    for (cell, width) in cells.zip(widths) {
        let _ = write!(text, " {cell:>width$} |");
    }
    text.push('\n');
    text
}

fn list(row: &Row) -> String {
    row.cells()
        .map(|(name, value)| format!("- {name}: {}\n", value.to_text()))
        .collect()
}

fn verdict(report: &Report) -> String {
    let mut text = format!("{}\n", report.verdict.text);
    if !report.verdict.checks.is_empty() {
        text.push('\n');
    }
    for check in &report.verdict.checks {
        let mark = if check.passed { "reached" } else { "MISSED" };
        let bound = check.bound.to_text();
        let _ = writeln!(
            text,
            "- {mark}: {} = {:.4} ({bound})",
            check.name, check.value
        );
    }
    text
}

fn machine(report: &Report) -> String {
    let facts = report.machine.facts();
    facts
        .into_iter()
        .map(|(name, fact)| format!("- {name}: {fact}\n"))
        .collect()
}

fn section(text: &mut String, title: &str, body: &str) {
    let _ = write!(text, "\n## {title}\n\n{body}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_different_shape_share_one_table() {
        let rows = [
            Row::default()
                .with("users", 12_u64)
                .with("latency_avg_ms", 0.6),
            Row::default().with("users", 1600_u64),
        ];
        assert_eq!(
            table(&rows),
            "| users | latency_avg_ms |\n\
             | ----: | -------------: |\n\
             |    12 |          0.600 |\n\
             |  1600 |                |\n"
        );
    }
}
