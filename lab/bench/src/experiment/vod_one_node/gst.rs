//! The same viewers at Debian's gst-rtsp-server.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::GST_RATIO_MIN;
use crate::error::Error;
use crate::film::{self, FRAME, Kind};
use crate::report::{Bound, Report};
use crate::vod::{Ramp, Server, Shelf, Stand, Step};

const SCRIPT: &str = include_str!("../../vod/gst.py");
/// Debian's, which has its own modules.
const PYTHON: &str = "/usr/bin/python3";
/// About what half a core serves.
const VIEWERS: usize = 40;
const FILM: &str = "gst.ts";

/// Adds a row of gst-rtsp-server's, and the ratio of streams per core.
///
/// # Errors
/// If films cannot be written or there are no viewers any more; a server that does not start is
/// told as not measured.
pub(super) fn compare(
    report: &mut Report,
    shelf: &Shelf,
    (folder, span): (&Path, Duration),
    best: Option<Step>,
) -> Result<(), Error> {
    let path = folder.join(FILM);
    let failed = |error| Error::file(&path, error);
    let mut out = BufWriter::new(File::create(&path).map_err(failed)?);
    let frames = (Kind::Dvd.shelf().1 as f64 / FRAME.as_secs_f64()) as u64;
    let written = film::write(shelf.trace(), (0, frames), 0, &mut out);
    written.and_then(|_| out.flush()).map_err(failed)?;
    let stand = Arc::new(Stand::loopback());
    let address = Server::address(&stand, 0)?;
    let mut arguments = vec![address.ip().to_string(), address.port().to_string()];
    // Each of our films is one of its own.
    arguments.extend(shelf.names.iter().map(|_| path.display().to_string()));
    let server = Server::run((&stand, 0), address, folder, |command| {
        command.args([PYTHON, "-c", SCRIPT]).args(arguments);
    });
    let server = match server {
        Ok(server) => server,
        Err(error) => {
            report.verdict.not_measured(error.to_string());
            return Ok(());
        }
    };
    let mut ramp = Ramp::new(&stand, shelf, vec![server])?.played_from_begin("/");
    let mut theirs = None;
    ramp.climb((VIEWERS, VIEWERS, VIEWERS), span, |step| {
        theirs = Some(step.clone())
    })?;
    let (Some(ours), Some(theirs)) = (best, theirs) else {
        report.verdict.not_measured("no step held to compare");
        return Ok(());
    };
    report
        .ours
        .push(theirs.to_row("none").with("server", "gst-rtsp-server"));
    let ratio = ours.streams_per_core() / theirs.streams_per_core();
    report
        .headline
        .set("gst_streams_per_core", theirs.streams_per_core());
    report
        .headline
        .set("streams_per_core", ours.streams_per_core());
    report.headline.set("ratio_to_gst", ratio);
    let check = "streams per core, of gst-rtsp-server's in the same run";
    report
        .verdict
        .check(check, ratio, Bound::AtLeast(GST_RATIO_MIN));
    Ok(())
}
