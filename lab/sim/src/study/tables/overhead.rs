//! Figure 16: what sending plans costs.

use super::super::page::Table;
use super::{REFERENCE, Results, Session};

const COLUMNS: [&str; 6] = [
    "session",
    "plans",
    "overhead ms a packet",
    "of the mean latency %",
    "bytes of plans, % of media",
    "path changes of Via",
];

pub(super) fn plans(results: &Results) -> Table {
    let name = format!("fig16-{}", results.name);
    let mut table = Table::new(&name, "Overhead of VCRoute's plans", &COLUMNS);
    for session in &results.sessions {
        let Some(cost) = overhead(results, session) else {
            continue;
        };
        let via = results.cell_of(session, "via", "wmjitter");
        table.rows.push(vec![
            session.name.clone(),
            cost.plans.to_string(),
            format!("{:.2}", cost.ms),
            format!("{:.2}", 100.0 * cost.share),
            format!("{:.2}", 100.0 * cost.bytes),
            via.map_or_else(String::new, |via| via.costs.path_changes.to_string()),
        ]);
    }
    table
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
pub(in crate::study) fn overhead(results: &Results, session: &Session) -> Option<Overhead> {
    let cell = results.cell_of(session, REFERENCE.0, REFERENCE.1)?;
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
