//! Figure 4: one session moment by moment.

use sangam_jitter::Kind;
use sangam_route::Method;

use super::page::{Figure, Line, Section, Table};
use super::run_on;
use super::tables::SOLUTIONS;
use crate::replay::{Entry, Listener, Outcome, Plan, Roster, Stream, Tally};
use crate::trace::{Family, TraceError};

/// The paper's call of 5 minutes.
const PACKETS: u64 = 30_000;
/// The paper plots the mean of every 50 packets.
const EVERY: u64 = 50;
/// The paper's: as often did VCRoute send a plan.
const PAPER_PLANS: u64 = 447;

/// Direct, Via, VCRoute and ours with the same receiver in one session of a family, over the
/// paper's 5 minutes or fewer packets.
///
/// # Errors
/// [`TraceError::Overlay`] if the family has no session.
pub fn series(family: Family, packets: u64, clock: fn() -> u64) -> Result<Section, TraceError> {
    let packets = packets.min(PACKETS);
    let methods = [
        Method::Direct,
        Method::Via,
        Method::VcRoute,
        Method::VcRouteLiteral,
        Method::Ours,
    ];
    let kinds = [
        Kind::WmJitter,
        Kind::WmJitterLiteral,
        Kind::WmJitterLiteralWindow,
    ];
    let listeners = kinds.map(Listener::plain).to_vec();
    let roster = Roster {
        name: "series",
        entries: methods.map(|m| Entry::plain(m, listeners.clone())).to_vec(),
    };
    let plan = Plan {
        packets,
        warm_up: 0,
        block: EVERY,
        seed: 1,
        clock,
    };
    let made = family.generator(1, packets);
    let outcome = run_on(&made, 0, &roster, plan)?;
    let session = made.overlay().session_name(0);
    let titles = ["transmitting", "reordering", "end to end"];
    let mut figures: Vec<Figure> = titles
        .iter()
        .map(|title| Figure {
            name: format!("fig4-{}", title.replace(' ', "-")),
            title: format!("{session}: {title}"),
            x: "seconds".to_owned(),
            y: "ms, mean of 50 packets".to_owned(),
            ..Figure::default()
        })
        .collect();
    let table = fill(&roster, &outcome, &mut figures);
    Ok(Section {
        title: "Figure 4: transmitting and reordering in one session".to_owned(),
        words: vec![format!(
            "A call of {} s ({session}, {}), five methods with the same receivers: WMJitter as we \
             read it, drawn in full, and to the letter, dotted: with jitter of all history (l) and \
             of the window (lw). In the paper's call Via transmits fast and reorders slowly, \
             because it explores; \
             VCRoute sent {PAPER_PLANS} plans for 30,000 packets.",
            packets / 100,
            family.name()
        )],
        figures,
        tables: vec![table],
    })
}

/// Draws each method's lines; returns their means.
fn fill(roster: &Roster, outcome: &Outcome, figures: &mut [Figure]) -> Table {
    let columns = [
        "method",
        "receiver",
        "transmitting ms",
        "reordering ms",
        "end to end ms",
        "path changes",
    ];
    let mut table = Table::new("fig4", "Means of the whole call", &columns);
    for (entry, stream) in roster.entries.iter().zip(&outcome.streams) {
        let tallies = entry.receivers.iter().zip(&stream.tallies);
        for (number, (listener, tally)) in tallies.enumerate() {
            let lines = lines(stream, tally);
            let mean = |line: &[(f64, f64)]| {
                line.iter().map(|point| point.1).sum::<f64>() / line.len().max(1) as f64
            };
            let mut row = vec![entry.name.clone(), listener.name.clone()];
            row.extend(lines.iter().map(|line| format!("{:.1}", mean(line))));
            row.push(stream.costs.path_changes.to_string());
            table.rows.push(row);
            let label = label(&entry.name, &listener.name);
            for (place, (figure, points)) in figures.iter_mut().zip(lines).enumerate() {
                // What is transmitted does not depend on who receives it.
                if place > 0 || number == 0 {
                    let label = label.clone();
                    figure.lines.push(Line { label, points });
                }
            }
        }
    }
    table
}

/// As the tables call a method and a receiver.
fn label(method: &str, receiver: &str) -> String {
    let mut all = SOLUTIONS.iter();
    let known = all.find(|(m, r, _)| (*m, *r) == (method, receiver));
    known.map_or_else(
        || match receiver {
            "wmjitter-literal" => format!("{method}-WMl"),
            "wmjitter-literal-window" => format!("{method}-WMlw"),
            _ => format!("{method}-WM"),
        },
        |(_, _, label)| (*label).to_owned(),
    )
}

/// Transmitting, reordering and end to end, in ms by seconds.
fn lines(stream: &Stream, tally: &Tally) -> [Vec<(f64, f64)>; 3] {
    let mut lines = [Vec::new(), Vec::new(), Vec::new()];
    for (number, (sent, block)) in stream.sent.iter().zip(&tally.blocks).enumerate() {
        let at = number as f64 * EVERY as f64 / 100.0;
        let transit = sent.transit_us as f64 / f64::from(sent.packets.max(1)) / 1e3;
        let whole = block.release_us as f64 / f64::from(block.released.max(1)) / 1e3;
        lines[0].push((at, transit));
        lines[1].push((at, (whole - transit).max(0.0)));
        lines[2].push((at, whole));
    }
    lines
}
