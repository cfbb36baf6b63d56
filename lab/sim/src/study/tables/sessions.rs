//! Every session, the lost ones too.

use std::collections::BTreeMap;

use super::super::bootstrap::Sums;
use super::super::page::Table;
use super::{REFERENCE, Results, SOLUTIONS, percent};

/// The paper's solutions, session by session.
pub(super) fn paper(results: &Results) -> Table {
    let mut columns = vec!["session".to_owned()];
    for (_, _, label) in SOLUTIONS {
        columns.push(format!("{label} ms"));
        columns.push(format!("{label} p50"));
        columns.push(format!("{label} loss %"));
    }
    columns.push("VCR-WM against VIA-BF".to_owned());
    columns.push("DRT-WM against DRT-BF".to_owned());
    let name = format!("sessions-{}", results.name);
    let mut table = Table::new(&name, "Release latency, every session", &[]);
    table.columns = columns;
    for session in core::iter::once(&results.whole).chain(&results.sessions) {
        let mut row = vec![session.name.clone()];
        for (method, receiver, _) in SOLUTIONS {
            let Some(cell) = results.cell_of(session, method, receiver) else {
                row.extend(core::iter::repeat_n(String::new(), 3));
                continue;
            };
            row.push(format!("{:.1}", cell.release_ms()));
            row.push(format!("{:.1}", cell.tally.release.quantile_ms(0.5)));
            row.push(format!("{:.3}", 100.0 * cell.loss()));
        }
        let change = |mine: (&str, &str), theirs: (&str, &str)| {
            let mine = results.cell_of(session, mine.0, mine.1);
            let theirs = results.cell_of(session, theirs.0, theirs.1);
            let pair = mine.zip(theirs);
            pair.map_or_else(String::new, |(mine, theirs)| {
                percent(&mine.drawn.change(theirs.drawn, Sums::release))
            })
        };
        row.push(change(REFERENCE, ("via", "neteq")));
        row.push(change(("direct", "wmjitter"), ("direct", "neteq")));
        table.rows.push(row);
    }
    table
}

const OURS: [&str; 9] = [
    "session",
    "ours ms",
    "VCR-WM ms",
    "oracle ms",
    "ours loss %",
    "VCR-WM loss %",
    "release against VCR-WM",
    "playout against VCR-WM",
    "release against the oracle",
];

/// Ours beside VCRoute and the oracle, session by session.
pub(super) fn ours(results: &Results) -> Table {
    let name = format!("ours-{}", results.name);
    let mut table = Table::new(&name, "Ours, every session", &OURS);
    for session in core::iter::once(&results.whole).chain(&results.sessions) {
        let cell = |method, receiver| results.cell_of(session, method, receiver);
        let (Some(mine), Some(other), Some(oracle)) = (
            cell("ours", "ours"),
            cell(REFERENCE.0, REFERENCE.1),
            cell("oracle", "ours"),
        ) else {
            continue;
        };
        table.rows.push(vec![
            session.name.clone(),
            format!("{:.1}", mine.release_ms()),
            format!("{:.1}", other.release_ms()),
            format!("{:.1}", oracle.release_ms()),
            format!("{:.3}", 100.0 * mine.loss()),
            format!("{:.3}", 100.0 * other.loss()),
            percent(&mine.drawn.change(other.drawn, Sums::release)),
            percent(&mine.drawn.change(other.drawn, Sums::playout)),
            percent(&mine.drawn.change(oracle.drawn, Sums::release)),
        ]);
    }
    table
}

/// Figure 15: late loss by endpoint.
pub(super) fn losses(results: &Results) -> Table {
    let mut table = Table::new(
        &format!("fig15-{}", results.name),
        "Late loss, %",
        &["endpoint"],
    );
    let labels = SOLUTIONS.map(|(_, _, label)| label.to_owned());
    table.columns.extend(labels);
    let mut endpoints: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for session in &results.sessions {
        let endpoint = session.name.split('>').next().unwrap_or_default();
        let sums = endpoints
            .entry(endpoint)
            .or_insert_with(|| vec![(0.0, 0.0); SOLUTIONS.len()]);
        for (sum, (method, receiver, _)) in sums.iter_mut().zip(SOLUTIONS) {
            if let Some(cell) = results.cell_of(session, method, receiver) {
                sum.0 += cell.drawn.whole.expected;
                sum.1 += cell.drawn.whole.released;
            }
        }
    }
    for (endpoint, sums) in endpoints {
        let mut row = vec![endpoint.to_owned()];
        let loss = |(sent, released): &(f64, f64)| 100.0 * (1.0 - released / sent.max(1.0));
        row.extend(sums.iter().map(|sum| format!("{:.3}", loss(sum))));
        table.rows.push(row);
    }
    table
}
