//! Ours against VCRoute at matched loss.

use super::super::bootstrap::Sums;
use super::super::matched::Curve;
use super::super::page::Table;
use super::{LITERAL, REFERENCE, Results, percent};

const COLUMNS: [&str; 6] = [
    "ours",
    "against",
    "session",
    "release at the other's loss",
    "playout at the other's loss",
    "that loss %",
];

type Solution = (&'static str, &'static str);

/// Who is compared: method and kind of receiver, and with whom.
const PAIRS: [(Solution, Solution); 7] = [
    (("ours", "ours"), REFERENCE),
    (("ours", "ours"), ("vcroute", "wmjitter-literal")),
    (("ours", "ours"), LITERAL[0]),
    (("ours", "ours"), LITERAL[1]),
    (("ours", "ours"), ("vcroute-probed", "wmjitter")),
    (("ours", "wmjitter"), REFERENCE),
    (("vcroute", "ours"), REFERENCE),
];

/// All sessions together, then each one for the main pair.
pub(super) fn table(results: &Results) -> Table {
    let name = format!("matched-{}", results.name);
    let mut table = Table::new(&name, "At matched loss", &COLUMNS);
    let whole = core::iter::once(&results.whole);
    for (number, (mine, theirs)) in PAIRS.iter().enumerate() {
        let sessions = results.sessions.iter().filter(|_| number == 0);
        for session in whole.clone().chain(sessions) {
            let points = results.curve(session, mine.0, mine.1);
            let Some(other) = results.cell_of(session, theirs.0, theirs.1) else {
                continue;
            };
            let curve = Curve(&points);
            let release = curve.against(other.drawn, Sums::release);
            let playout = curve.against(other.drawn, Sums::playout);
            let note = if release.reached { "" } else { ", losing more" };
            table.rows.push(vec![
                format!("{} + {}", mine.0, mine.1),
                format!("{} + {}", theirs.0, theirs.1),
                session.name.clone(),
                percent(&release.change) + note,
                percent(&playout.change) + note,
                format!("{:.3}", 100.0 * other.loss()),
            ]);
        }
    }
    table
}
