//! `film-repair`: how many of the packets that a path loses are there again before they are played
//! (Zimmermann et al., section 2.6).

use std::sync::Arc;
use std::time::Duration;

use sangam_emulator::{Loss, Quality};

use super::{Reports, row_span};
use crate::args::Options;
use crate::error::Error;
use crate::film::Kind;
use crate::progress::Progress;
use crate::report::{Bound, Report};
use crate::scenario::Folder;
use crate::vod::{BUFFER, Ramp, Server, Shelf, Stand};

const LOSSES: [f64; 2] = [0.01, 0.05];
/// One way.
const DELAY: Duration = Duration::from_millis(20);
const VIEWERS: usize = 10;
const SECONDS: u64 = 120;
/// Of the lost packets, in percent.
const REPAIRED_MIN: f64 = 99.9;

/// Measures both.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let folder = Folder::new()?;
    let mut progress = Progress::new(LOSSES.len() + 1);
    progress.at("making films");
    let shelf = Shelf::make(folder.path(), Kind::Dvd.trace(), (2, SECONDS))?;
    progress.step();
    let title = "Packets of a DVD lost on the way, and there again before they are played";
    let mut report = Report::new("film-repair", title);
    for loss in LOSSES {
        progress.at(&format!("{} % lost", loss * 100.0));
        let quality = Quality {
            loss: Loss::Random(loss),
            ..Quality::delayed(DELAY)
        };
        let stand = Arc::new(Stand::apart(&quality)?);
        let server = Server::start((&stand, 0), &shelf.folder, 64, &[])?;
        let mut ramp = Ramp::new(&stand, &shelf, vec![server])?;
        let mut last = None;
        let sizes = (VIEWERS, VIEWERS, VIEWERS);
        ramp.climb(sizes, row_span(options), |step| last = Some(step.clone()))?;
        let Some(step) = last else {
            continue;
        };
        let (lost, missed) = stand.lost()?;
        let repaired = 100.0 * (1.0 - step.lost as f64 / step.missed.max(1) as f64);
        let row = step
            .to_row("emulated")
            .with("loss_set_percent", loss * 100.0);
        let row = row.with("path_lost", lost).with("missed", step.missed);
        report.ours.push(
            row.with("emulator_missed", missed)
                .with("repaired_percent", repaired)
                .with("asked", step.asked),
        );
        let name = format!("repaired at {} % loss, in percent", loss * 100.0);
        // Where nobody missed anything, nothing was repaired.
        let repaired = if step.missed == 0 { f64::NAN } else { repaired };
        report
            .verdict
            .check(name, repaired, Bound::AtLeast(REPAIRED_MIN));
        progress.step();
    }
    report.notes.push(format!(
        "{VIEWERS} viewers, {} ms one way, loss at random in both directions, so that requests to \
         send again and what is sent again are lost as well; buffers of {} s, half of which is \
         filled before a film begins. `missed` counts gaps in the node's own numbers, `lost` \
         packets that were not there when they were due, `path_lost` what the emulator lost on \
         the way to viewers since it began.",
        DELAY.as_millis(),
        BUFFER.as_secs()
    ));
    Ok(vec![("film-repair".to_owned(), report)])
}
