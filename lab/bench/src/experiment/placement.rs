//! `placement`: what each way of `core/placement` moves, how evenly it spreads, what a lookup
//! costs, while disks come and go. Yima's SCADDAR wears out on the way.

use std::hint::black_box;

use sangam_model::Random;
use sangam_placement::{
    Disk, DiskId, Disks, DisksError, NodeId, Placement, Scaddar, Slicing, Straw2,
};

use super::Reports;
use crate::args::Options;
use crate::error::Error;
use crate::process::this_thread_cpu;
use crate::report::{Bound, Plot, Report, Row};

const BLOCKS: usize = 400_000;
/// From 8 disks to 18: 17 come and 7 go.
const FIRST: u32 = 8;
const CHANGES: u32 = 24;
/// Draws differ from the least by chance: four deviations of what one change moves.
const MOVED_MAX: f64 = 1.02;
/// Noise of so many blocks on 18 disks is 0.7 %.
const SPREAD_MAX: f64 = 0.012;

/// The disk of a number is its remainder: what one would do without thinking.
#[derive(Debug, Default)]
struct Remainder(Disks);

/// What a way did in all changes.
#[derive(Debug, Default)]
struct Outcome {
    moved: f64,
    least: f64,
    /// Coefficient of variation after each change.
    spread: Vec<f64>,
    /// Nanoseconds of a lookup after each change.
    lookup: Vec<f64>,
    /// The change before which it asked to place everything anew.
    alarm: Option<u32>,
}

/// Changes disks under every way.
pub(super) fn run(_options: &Options) -> Result<Reports, Error> {
    let mut report = Report::new(
        "placement",
        "Blocks that move, their spread and a lookup's cost while disks come and go",
    );
    for name in [
        "straw2",
        "random slicing",
        "SCADDAR 128",
        "SCADDAR 64",
        "mod N",
    ] {
        let outcome = measure(name).map_err(|error| Error::Option(error.to_string()))?;
        let ratio = outcome.moved / outcome.least;
        let worst = outcome.spread.iter().copied().fold(0.0, f64::max);
        let (first, last) = (outcome.lookup.first(), outcome.lookup.last());
        let alarm = outcome
            .alarm
            .map_or_else(String::new, |change| change.to_string());
        let row = Row::default()
            .with("way", name)
            .with("moved_per_least", ratio)
            .with(
                "spread_end_percent",
                100.0 * outcome.spread.last().unwrap_or(&0.0),
            )
            .with("spread_worst_percent", 100.0 * worst)
            .with("lookup_first_ns", first.copied().unwrap_or(0.0))
            .with("lookup_last_ns", last.copied().unwrap_or(0.0))
            .with("alarm_before_change", alarm);
        report.ours.push(row);
        report.drawn.extend(outcome.by_change(name));
        if matches!(name, "straw2" | "random slicing" | "SCADDAR 128") {
            let check = |what: &str| format!("{what}, {name}");
            let verdict = &mut report.verdict;
            verdict.check(check("moved/least"), ratio, Bound::AtMost(MOVED_MAX));
            verdict.check(check("worst spread"), worst, Bound::AtMost(SPREAD_MAX));
        }
    }
    report.plot = Some(Plot {
        x: "changes",
        y: "lookup_ns",
        series: Some("way"),
    });
    report.notes.push(format!(
        "{BLOCKS} blocks; {FIRST} to {} disks by {CHANGES} changes, one disk each, of which every \
         third but the first goes; spread is the coefficient of variation of blocks over disks, of \
         which chance alone makes 0.4 to 0.7 %; lookups in processor time",
        FIRST + 10
    ));
    Ok(vec![("placement".to_owned(), report)])
}

fn measure(name: &str) -> Result<Outcome, DisksError> {
    let mut random = Random::new(1);
    let mut ids: Vec<u32> = (0..FIRST).collect();
    let mut next = FIRST;
    let mut way = way(name, disks(&ids)?)?;
    let mut outcome = Outcome::default();
    let mut places = outcome.look(&*way);
    for change in 0..CHANGES {
        let before = ids.len() as f64;
        if change.is_multiple_of(3) && change > 0 {
            ids.remove(random.below(ids.len()));
            outcome.least += BLOCKS as f64 / before;
        } else {
            ids.push(next);
            next += 1;
            outcome.least += BLOCKS as f64 / (before + 1.0);
        }
        if way.wants_reshuffle() {
            outcome.alarm.get_or_insert(change + 1);
        }
        way.change(disks(&ids)?)?;
        let now = outcome.look(&*way);
        let pairs = places.iter().zip(&now);
        outcome.moved += pairs.filter(|(old, new)| old != new).count() as f64;
        places = now;
    }
    Ok(outcome)
}

impl Outcome {
    /// What a lookup costs after each change.
    fn by_change(&self, name: &str) -> Vec<Row> {
        let row = |(changes, lookup): (usize, &f64)| {
            Row::default()
                .with("way", name)
                .with("changes", changes)
                .with("lookup_ns", *lookup)
        };
        self.lookup.iter().enumerate().map(row).collect()
    }

    /// Where every block is.
    fn look(&mut self, way: &dyn Placement) -> Vec<Option<DiskId>> {
        let mut keys = Random::new(2);
        let keys: Vec<u64> = (0..BLOCKS).map(|_| keys.bits()).collect();
        let begin = this_thread_cpu();
        let places: Vec<_> = keys
            .iter()
            .map(|key| black_box(way.draw(*key, &[])))
            .collect();
        self.lookup
            .push((this_thread_cpu() - begin).as_secs_f64() * 1e9 / BLOCKS as f64);
        let disks = way.disks();
        let mean = BLOCKS as f64 / disks.len() as f64;
        let square = |disk: &Disk| {
            let count = places
                .iter()
                .filter(|place| **place == Some(disk.id))
                .count();
            (count as f64 - mean).powi(2)
        };
        let variance = disks.iter().map(square).sum::<f64>() / disks.len() as f64;
        self.spread.push(variance.sqrt() / mean);
        places
    }
}

fn way(name: &str, disks: Disks) -> Result<Box<dyn Placement>, DisksError> {
    Ok(match name {
        "straw2" => Box::new(Straw2::new(disks)),
        "random slicing" => Box::new(Slicing::new(disks)),
        "SCADDAR 128" => Box::new(Scaddar::new(disks)?),
        "SCADDAR 64" => Box::new(Scaddar::with_bits(disks, 64)?),
        _ => Box::new(Remainder(disks)),
    })
}

fn disks(ids: &[u32]) -> Result<Disks, DisksError> {
    Disks::new(ids.iter().map(|id| Disk {
        id: DiskId(*id),
        node: NodeId(*id),
        weight: 1,
    }))
}

impl Placement for Remainder {
    fn disks(&self) -> &Disks {
        &self.0
    }

    fn change(&mut self, disks: Disks) -> Result<(), DisksError> {
        self.0 = disks;
        Ok(())
    }

    fn draw(&self, key: u64, _taken: &[DiskId]) -> Option<DiskId> {
        let count = (self.0.len() as u64).max(1);
        self.0
            .iter()
            .nth((key % count) as usize)
            .map(|disk| disk.id)
    }
}
