//! Figure 16: what sending plans costs.

use super::super::page::{Figure, Line, Table};
use super::{LITERAL, REFERENCE, Results, Session};

const COLUMNS: [&str; 10] = [
    "session",
    "plans",
    "overhead ms a packet",
    "of the mean latency %",
    "bytes of plans, % of media",
    "to the letter: plans",
    "overhead ms a packet",
    "of the mean latency %",
    "bytes of plans, % of media",
    "path changes of Via",
];

/// What plans cost in each session, and the sessions by that: as we read the paper, and to its
/// letter.
pub(super) fn plans(results: &Results) -> (Figure, Table) {
    let name = format!("fig16-{}", results.name);
    let mut table = Table::new(&name, "Overhead of VCRoute's plans", &COLUMNS);
    let both = [REFERENCE, LITERAL[0]];
    let mut ms = both.map(|_| Vec::new());
    for session in &results.sessions {
        let mut row = vec![session.name.clone()];
        for (solution, ms) in both.into_iter().zip(&mut ms) {
            let Some(cost) = overhead(results, session, solution) else {
                row.extend(core::iter::repeat_n(String::new(), 4));
                continue;
            };
            ms.push(cost.ms);
            row.push(cost.plans.to_string());
            row.push(format!("{:.2}", cost.ms));
            row.push(format!("{:.2}", 100.0 * cost.share));
            row.push(format!("{:.2}", 100.0 * cost.bytes));
        }
        let via = results.cell_of(session, "via", "wmjitter");
        row.push(via.map_or_else(String::new, |via| via.costs.path_changes.to_string()));
        table.rows.push(row);
    }
    let lines = ["VCR-WM", "VCRl-WMl"].into_iter().zip(ms);
    let figure = Figure {
        name,
        title: format!("{}: overhead of plans", results.name),
        x: "overhead, ms a packet".to_owned(),
        y: "% of sessions".to_owned(),
        lines: lines.map(|(label, ms)| shares(label, ms)).collect(),
        ..Figure::default()
    };
    (figure, table)
}

/// The share of values that are not above each of them.
fn shares(label: &str, mut values: Vec<f64>) -> Line {
    values.sort_by(f64::total_cmp);
    let count = values.len().max(1) as f64;
    let first = values.first().map(|least| (*least, 0.0));
    let steps = values.iter().enumerate();
    let steps = steps.map(|(below, value)| (*value, 100.0 * (below + 1) as f64 / count));
    Line {
        label: label.to_owned(),
        points: first.into_iter().chain(steps).collect(),
    }
}

/// What plans cost a packet of a session, as the paper counts it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::study) struct Overhead {
    pub(in crate::study) plans: u64,
    pub(in crate::study) ms: f64,
    pub(in crate::study) share: f64,
    pub(in crate::study) bytes: f64,
}

/// Each plan travels from the endpoint to the user, as long as a packet; spread over all packets.
pub(in crate::study) fn overhead(
    results: &Results,
    session: &Session,
    (method, receiver): (&str, &str),
) -> Option<Overhead> {
    let cell = results.cell_of(session, method, receiver)?;
    let stream = cell.stream;
    let transit_us: u64 = stream.sent.iter().map(|sent| sent.transit_us).sum();
    let transit_ms = transit_us as f64 / stream.expected().max(1) as f64 / 1e3;
    let packets = cell.costs.packets.max(1);
    let ms = cell.costs.plans as f64 * transit_ms / packets as f64;
    Some(Overhead {
        plans: cell.costs.plans,
        ms,
        share: ms / cell.release_ms().max(f64::MIN_POSITIVE),
        bytes: cell.costs.plan_bytes as f64 / (packets * super::full::PACKET_BYTES) as f64,
    })
}
