//! `sangam archive settle`, and what `scrub` does with films.

use std::thread;
use std::time::{Duration, Instant};

use sangam_archive::Archive;
use sangam_archive::blocks::Look;
use sangam_archive::films::{Progress as Step, Report};
use serde_json::{Value, json};

use super::progress::Progress;
use super::{failure, films};
use crate::cli::Place;
use crate::exit::{Exit, Failure, io};
use crate::output;
use crate::stop::Stop;

/// How soon the wish to end is noticed by whoever waits.
const NAP: Duration = Duration::from_millis(50);

/// Moves no faster than it may.
#[derive(Debug)]
pub(super) struct Throttle {
    begin: Instant,
    /// Bytes in a second; `None`: as many as can be.
    rate: Option<u64>,
    stop: Stop,
}

impl Throttle {
    /// Begins to move so many MiB in a second.
    pub(super) fn new(mib: Option<u64>, stop: &Stop) -> Self {
        Self {
            begin: Instant::now(),
            rate: mib.map(|mib| mib << 20),
            stop: stop.clone(),
        }
    }

    /// Waits until so many bytes may have been moved; whether it goes on.
    pub(super) fn wait(&self, written: u64) -> bool {
        let due = self.rate.map(|rate| written as f64 / rate.max(1) as f64);
        let due = Duration::from_secs_f64(due.unwrap_or(0.0));
        rest(due.saturating_sub(self.begin.elapsed()), &self.stop)
    }
}

/// Waits for so long, unless it is to stop; whether it goes on.
pub(super) fn rest(time: Duration, stop: &Stop) -> bool {
    let begin = Instant::now();
    while !stop.is_set() {
        let left = time.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return true;
        }
        thread::park_timeout(left.min(NAP));
    }
    false
}

/// Brings blocks to where they belong.
pub(super) fn run(place: &Place, rate: Option<u64>, as_json: bool) -> Result<(), Failure> {
    let stop = Stop::on_signals().map_err(io("cannot wait for signals"))?;
    let throttle = Throttle::new(rate, &stop);
    let mut progress = None;
    let report = films(place).settle(Look::Name, &mut |step| {
        draw(&mut progress, "moving", step);
        throttle.wait(step.written)
    });
    drop(progress);
    let report = report.map_err(|error| failure(&error))?;
    let throttle = Throttle::new(rate, &stop);
    let archive = Archive::new(&place.folder);
    let moved = archive.move_out(&mut |bytes| throttle.wait(bytes));
    let moved = moved.map_err(io(place.folder.display()))?;
    match as_json {
        true => {
            let mut line = to_json(&report);
            line["segments"] = moved.segments.into();
            line["segment_bytes"] = moved.bytes.into();
            output::json_line(&line);
        }
        false => {
            show(&report);
            if moved.segments > 0 {
                let (segments, bytes) = (moved.segments, moved.bytes);
                output::line(&format!(
                    "{segments} segments of recordings, {bytes} bytes, are in the store now"
                ));
            }
        }
    }
    judge(&report)?;
    match moved.failed.1 {
        None => Ok(()),
        Some(reason) => {
            let message = format!("recordings are not all in the store: {reason}");
            let hint = "they stay here until they are; try again later";
            Err(Failure::new(Exit::Failure, message).hint(hint))
        }
    }
}

/// Reads every block, and makes again what is damaged.
pub(super) fn scrub(place: &Place) -> Result<Report, Failure> {
    let stop = Stop::on_signals().map_err(io("cannot wait for signals"))?;
    let mut progress = None;
    let report = films(place).scrub(&mut |step| {
        draw(&mut progress, "reading films", step);
        !stop.is_set()
    });
    report.map_err(|error| failure(&error))
}

fn draw(progress: &mut Option<Progress>, what: &'static str, step: &Step) {
    let (done, all) = step.stripes;
    let progress = progress.get_or_insert_with(|| Progress::new(what, all));
    progress.at(done);
}

pub(super) fn show(report: &Report) {
    let done = &report.settled;
    output::line(&format!(
        "{} stripes of films: {} pieces moved, {} made again, {} let go of",
        report.stripes, done.moved, done.rebuilt, done.removed
    ));
    for name in &report.learned {
        output::line(&format!("the index of {name:?} was made again"));
    }
    if report.cleared > 0 {
        output::line(&format!(
            "{} films that were never put to their end were removed",
            report.cleared
        ));
    }
    if report.removed > 0 {
        output::line(&format!(
            "{} films are removed to their end",
            report.removed
        ));
    }
    for disk in &report.gone {
        output::line(&format!(
            "disk {disk} is gone: nothing of this archive needs it"
        ));
    }
}

pub(super) fn to_json(report: &Report) -> Value {
    let lost = report.lost.iter();
    let lost: Vec<_> = lost
        .map(|(name, stripes)| json!({ "name": name, "stripes": stripes }))
        .collect();
    let done = &report.settled;
    json!({
        "stripes": report.stripes,
        "bytes_written": done.written,
        "moved": done.moved,
        "rebuilt": done.rebuilt,
        "removed": done.removed,
        "waiting": done.waiting,
        "lost": lost,
        "failed": report.failed.0,
        "learned": report.learned,
        "cleared": report.cleared,
        "removed": report.removed,
        "gone": report.gone,
        "complete": report.is_complete,
    })
}

/// Fails if something is left to be done.
pub(super) fn judge(report: &Report) -> Result<(), Failure> {
    let wrong = |message: String, hint: &str| {
        let hint = hint.to_owned();
        Err(Failure::new(Exit::Failure, message).hint(hint))
    };
    if !report.lost.is_empty() {
        let names: Vec<_> = report.lost.iter().map(|(name, _)| name.as_str()).collect();
        let message = format!("blocks are lost of: {}", names.join(", "));
        return wrong(
            message,
            "bring back the disks that are away, or add them again",
        );
    }
    if let (failed @ 1.., Some(first)) = &report.failed {
        let message = format!("{failed} stripes are not where they belong: {first}");
        return wrong(
            message,
            "`sangam archive status` shows how full the disks are",
        );
    }
    if report.settled.waiting > 0 {
        let message = format!(
            "{} pieces belong on disks that are away",
            report.settled.waiting
        );
        return wrong(
            message,
            "mount them, or let them go by `sangam archive disk remove`",
        );
    }
    Ok(())
}
