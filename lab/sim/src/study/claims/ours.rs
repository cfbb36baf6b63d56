//! What this project set out to reach.

mod speed;

use super::super::Results;
use super::super::bootstrap::Sums;
use super::super::matched::Curve;
use super::super::tables::percent;
use super::{Claim, Evidence};

/// Families that are sessions between places, not parallel paths.
const ALL: [&str; 12] = [
    "t1",
    "t2-quarter",
    "t2-half",
    "t2",
    "t2-double",
    "t3",
    "t4-9",
    "t4-90",
    "t4-900",
    "t5",
    "t5-spikes",
    "t7",
];

pub(super) fn claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    let hard = evidence.some(&["t2", "t3"]);
    let all = evidence.some(&ALL);
    let mut claims = vec![
        Claim::over(
            "Ours: release latency at least 20 % below VCRoute+WMJitter at matched loss (goal)",
            &hard,
            |results| matched(results, Sums::release, -0.2),
        ),
        Claim::over(
            "Ours: playout delay at least 30 % below VCRoute+WMJitter at matched loss (goal)",
            &hard,
            |results| matched(results, Sums::playout, -0.3),
        ),
        Claim::over(
            "Ours: on no family more than 1 % above VCRoute+WMJitter at matched loss (goal)",
            &all,
            |results| {
                let points = results.curve(&results.whole, "ours", "ours");
                let other = results.cell("vcroute", "wmjitter")?;
                let change = Curve(&points).against(other.drawn, Sums::release).change;
                Some((percent(&change), change.high <= 0.01))
            },
        ),
        Claim::over(
            "Ours: mean release latency within 5 % of the clairvoyant oracle (goal)",
            &evidence.some(&["t3"]),
            |results| {
                let mine = results.cell("ours", "ours")?;
                let oracle = results.cell("oracle", "ours")?;
                let change = mine.drawn.change(oracle.drawn, Sums::release);
                Some((percent(&change), change.value <= 0.05))
            },
        ),
        Claim::over(
            "Ours: probes, plans and copies below 5 % of the bytes (goal)",
            &all,
            |results| {
                let cell = results.cell("ours", "ours")?;
                let extra = results.extra_bytes(cell.costs, 200);
                Some((format!("{:.1} %", 100.0 * extra), extra < 0.05))
            },
        ),
    ];
    claims.extend(speed::claims(&all));
    claims
}

fn matched(results: &Results, of: fn(&Sums) -> f64, least: f64) -> Option<(String, bool)> {
    let points = results.curve(&results.whole, "ours", "ours");
    let other = results.cell("vcroute", "wmjitter")?;
    let found = Curve(&points).against(other.drawn, of);
    let note = if found.reached { "" } else { ", losing more" };
    let holds = found.change.value <= least && found.reached;
    Some((percent(&found.change) + note, holds))
}
