//! Figure 8: what the networks are like.

use super::page::{Figure, Line, Marks, Section, Table};
use crate::trace::{CHUNK_ROWS, Columns, Family, LOST};

/// Mean and deviation of every link of the first seed's networks.
#[must_use]
pub fn networks(families: &[Family], rows: u64) -> Section {
    let mut figure = Figure {
        name: "fig8".to_owned(),
        title: "Every link of the first seed's networks".to_owned(),
        x: "mean one-way delay, ms".to_owned(),
        y: "deviation, ms".to_owned(),
        marks: Marks::Dots,
        lines: Vec::new(),
    };
    let tables = families.iter().map(|family| {
        let (table, mut points) = table(*family, rows);
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let label = family.name().to_owned();
        figure.lines.push(Line { label, points });
        table
    });
    let tables = tables.collect();
    Section {
        title: "Figure 8: the networks".to_owned(),
        words: vec![
            "One-way delays of the links of the first seed's networks, in ms: mean and, in \
             brackets, deviation. The paper shows round trips."
                .to_owned(),
        ],
        figures: vec![figure],
        tables,
    }
}

/// A family's table, and the mean and deviation of each of its links.
fn table(family: Family, rows: u64) -> (Table, Vec<(f64, f64)>) {
    let made = family.generator(1, rows);
    let overlay = made.overlay();
    let moments = measure(&made.sources(), rows);
    let nodes: Vec<&str> = overlay.nodes.iter().map(String::as_str).collect();
    let mut columns = vec!["from \\ to"];
    columns.extend(&nodes);
    let mut table = Table::new(
        &format!("fig8-{}", family.name()),
        &format!("{}: {}", family.name(), family.about()),
        &columns,
    );
    for (from, name) in nodes.iter().enumerate() {
        let mut row = vec![(*name).to_owned()];
        row.extend((0..nodes.len()).map(|to| {
            let ends = |link: &crate::trace::Link| {
                (usize::from(link.from), usize::from(link.to)) == (from, to)
            };
            let link = overlay.links.iter().position(ends);
            link.map_or_else(String::new, |link| {
                let (mean, deviation) = moments[link];
                format!("{mean:.0} ({deviation:.1})")
            })
        }));
        if row.iter().skip(1).any(|field| !field.is_empty()) {
            table.rows.push(row);
        }
    }
    (table, moments)
}

/// Mean and deviation in ms.
fn measure(sources: &[crate::trace::Source], rows: u64) -> Vec<(f64, f64)> {
    let mut sources = sources.to_vec();
    let mut columns = Columns::new(sources.len());
    let mut sums = vec![(0.0, 0.0, 0.0); sources.len()];
    let mut left = rows;
    while left > 0 {
        let now = left.min(CHUNK_ROWS as u64);
        columns.generate(&mut sources, now as usize);
        for ((count, sum, squares), delays) in sums.iter_mut().zip(columns.links()) {
            for delay in delays.iter().filter(|delay| **delay != LOST) {
                let ms = f64::from(*delay) / 1e3;
                *count += 1.0;
                *sum += ms;
                *squares += ms * ms;
            }
        }
        left -= now;
    }
    let moments = sums
        .into_iter()
        .map(|(count, sum, squares): (f64, f64, f64)| {
            let mean = sum / count.max(1.0);
            (
                mean,
                (squares / count.max(1.0) - mean * mean).max(0.0).sqrt(),
            )
        });
    moments.collect()
}
