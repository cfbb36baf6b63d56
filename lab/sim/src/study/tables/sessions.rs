//! Every session, the lost ones too.

use std::collections::BTreeMap;

use super::super::bootstrap::Sums;
use super::super::page::{Figure, Line, Marks, Table};
use super::{LITERAL, REFERENCE, Results, SOLUTIONS, percent};

type Solution = (&'static str, &'static str);

/// What is compared with what in each session: as we read the paper, and to its letter.
const PAIRS: [(&str, Solution, Solution); 6] = [
    ("VCR-WM against VIA-BF", REFERENCE, ("via", "neteq")),
    ("VCRl-WMl against VIA-BF", LITERAL[0], ("via", "neteq")),
    ("VCRl-WMlw against VIA-BF", LITERAL[1], ("via", "neteq")),
    (
        "DRT-WM against DRT-BF",
        ("direct", "wmjitter"),
        ("direct", "neteq"),
    ),
    (
        "DRT-WMl against DRT-BF",
        ("direct", "wmjitter-literal"),
        ("direct", "neteq"),
    ),
    (
        "DRT-WMlw against DRT-BF",
        ("direct", "wmjitter-literal-window"),
        ("direct", "neteq"),
    ),
];

/// The paper's solutions, session by session.
pub(super) fn paper(results: &Results) -> Table {
    let mut columns = vec!["session".to_owned()];
    for (_, _, label) in SOLUTIONS {
        columns.push(format!("{label} ms"));
        columns.push(format!("{label} p50"));
        columns.push(format!("{label} loss %"));
    }
    columns.extend(PAIRS.map(|(name, _, _)| name.to_owned()));
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
        row.extend(PAIRS.map(|(_, mine, theirs)| change(mine, theirs)));
        table.rows.push(row);
    }
    table
}

const OURS: [&str; 14] = [
    "session",
    "ours ms",
    "VCR-WM ms",
    "VCRl-WMl ms",
    "VCRl-WMlw ms",
    "oracle ms",
    "ours loss %",
    "VCR-WM loss %",
    "VCRl-WMl loss %",
    "VCRl-WMlw loss %",
    "release against VCR-WM",
    "playout against VCR-WM",
    "release against VCRl-WMl",
    "release against the oracle",
];

/// Ours beside VCRoute and the oracle, session by session.
pub(super) fn ours(results: &Results) -> Table {
    let name = format!("ours-{}", results.name);
    let mut table = Table::new(&name, "Ours, every session", &OURS);
    for session in core::iter::once(&results.whole).chain(&results.sessions) {
        let cell = |method, receiver| results.cell_of(session, method, receiver);
        let [letter, window] = LITERAL.map(|(method, receiver)| cell(method, receiver));
        let (Some(mine), Some(other), Some(letter), Some(window), Some(oracle)) = (
            cell("ours", "ours"),
            cell(REFERENCE.0, REFERENCE.1),
            letter,
            window,
            cell("oracle", "ours"),
        ) else {
            continue;
        };
        let mut row = vec![session.name.clone()];
        let all = [&mine, &other, &letter, &window, &oracle];
        row.extend(all.map(|cell| format!("{:.1}", cell.release_ms())));
        row.extend(
            all[..4]
                .iter()
                .map(|cell| format!("{:.3}", 100.0 * cell.loss())),
        );
        row.push(percent(&mine.drawn.change(other.drawn, Sums::release)));
        row.push(percent(&mine.drawn.change(other.drawn, Sums::playout)));
        row.push(percent(&mine.drawn.change(letter.drawn, Sums::release)));
        row.push(percent(&mine.drawn.change(oracle.drawn, Sums::release)));
        table.rows.push(row);
    }
    table
}

/// Figure 15: late loss by endpoint.
pub(super) fn losses(results: &Results) -> (Figure, Table) {
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
    let mut figure = Figure {
        name: format!("fig15-{}", results.name),
        title: format!("{}: late loss", results.name),
        x: "endpoint".to_owned(),
        y: "% of packets".to_owned(),
        marks: Marks::Bars(endpoints.keys().map(|&name| name.to_owned()).collect()),
        lines: SOLUTIONS
            .map(|(_, _, label)| Line {
                label: label.to_owned(),
                points: Vec::new(),
            })
            .to_vec(),
    };
    for (place, (endpoint, sums)) in endpoints.into_iter().enumerate() {
        let mut row = vec![endpoint.to_owned()];
        for ((sent, released), line) in sums.into_iter().zip(&mut figure.lines) {
            let loss = 100.0 * (1.0 - released / f64::max(sent, 1.0));
            row.push(format!("{loss:.3}"));
            line.points.push((place as f64, loss));
        }
        table.rows.push(row);
    }
    (figure, table)
}
