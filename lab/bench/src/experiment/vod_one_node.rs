//! `vod-one-node`: viewers come one after the other until their films falter (Zimmermann et al.,
//! Figure 3): under a cap of 100 Mb/s and a share of the processor, then with neither and beside
//! gst-rtsp-server.

mod gst;

use std::sync::Arc;
use std::time::Duration;

use super::Reports;
use crate::args::Options;
use crate::error::Error;
use crate::film::Kind;
use crate::paper;
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report};
use crate::scenario::Folder;
use crate::vod::{BUFFER, Quota, Ramp, SETTLE, Server, Shelf, Stand, Step};

/// Films of other rates beside a DVD have so many seconds.
const OTHER_SECONDS: u64 = 120;
/// Of the paper's network, with all headers.
pub(super) const CAP_MBPS: u32 = 100;
/// What a server behind it is told: `--bandwidth` leaves a tenth for headers and peaks.
pub(super) const BANDWIDTH: &str = "88";
/// Of one processor, for each server. A quarter of what the fastest processors of the paper's time
/// could do is plenty: the cap is to be the bottleneck, as it was there.
pub(super) const QUOTA_PERCENT: f64 = 20.0;
/// Seconds until the next viewer comes, unless told otherwise; the paper's came each two minutes.
pub(super) const STEP: u64 = 8;
pub(super) const PAPERS_STEP: u64 = 120;
/// Of a DVD so many viewers come at most behind the cap.
const FEW_MAX: usize = 40;
/// Without a cap so many come at once.
const MANY: usize = 100;
const MANY_MAX: usize = 1_600;
/// The paper's viewers of a DVD behind 100 Mb/s.
const PAPERS: f64 = 12.0;
/// What has to be reached of a DVD without a cap.
const STREAMS_MIN: f64 = 800.0;
const GST_RATIO_MIN: f64 = 8.0;

/// Measures both.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let folder = Folder::new()?;
    let kind = options.film.unwrap_or(Kind::Dvd);
    let mut progress = Progress::new(5);
    progress.at("making films");
    let shelf = Shelf::make(folder.path(), kind.trace(), kind.shelf())?;
    progress.step();
    progress.at("100 Mb/s");
    let step = Duration::from_secs(options.seconds.unwrap_or(STEP));
    let capped = capped(kind, &shelf, step)?;
    progress.step();
    progress.at("without a cap");
    let (mut open, best) = uncapped(kind, &shelf, step)?;
    progress.step();
    if options.film.is_none() {
        progress.at("films of other rates");
        others(&mut open, step)?;
        progress.step();
        progress.at("gst-rtsp-server");
        gst::compare(&mut open, &shelf, (folder.path(), step), best)?;
    }
    Ok(vec![
        ("vod-one-node-100m".to_owned(), capped),
        ("vod-one-node".to_owned(), open),
    ])
}

/// One viewer after the other, under cap and quota; of small films several at once.
fn capped(kind: Kind, shelf: &Shelf, step: Duration) -> Result<Report, Error> {
    let title = format!(
        "Viewers of one archive node behind 100 Mb/s: {}",
        kind.name()
    );
    let mut report = Report::new("vod-one-node", title);
    let stand = Arc::new(Stand::hosts(1)?);
    stand.cap(CAP_MBPS)?;
    let quota = Quota::new(QUOTA_PERCENT)?;
    let most = kind.viewers(FEW_MAX);
    let more = ["--bandwidth", BANDWIDTH, "--no-admission"];
    let server = Server::start((&stand, 0), &shelf.folder, 2 * most.max(128), &more)?;
    server.keep_to(&quota)?;
    let mut ramp = Ramp::new(&stand, shelf, vec![server])?;
    let more = kind.viewers(1);
    let most = ramp.climb((more, more, most), step, |step| {
        report.ours.push(step.to_row("100 Mb/s"))
    })?;
    report.headline.set("viewers_max", most);
    report.headline.set("quota_percent", QUOTA_PERCENT);
    report
        .headline
        .set("speed_up", PAPERS_STEP as f64 / step.as_secs_f64());
    if kind == Kind::Dvd {
        report.paper = paper::rows(&paper::VOD_ONE_NODE[..2]);
        let check = "viewers behind 100 Mb/s (the paper's 12)";
        report
            .verdict
            .check(check, most as f64, Bound::AtLeast(PAPERS));
    } else {
        let check = "Mb/s of film behind 100 Mb/s (the paper's 12 viewers of a DVD)";
        // Of the highest rates the next viewer would have to fit as a whole.
        let papers = PAPERS * Kind::Dvd.mbps() - kind.mbps();
        report.verdict.check(
            check,
            most as f64 * kind.mbps(),
            Bound::AtLeast(papers.max(kind.mbps())),
        );
    }
    report.notes = notes(kind, shelf, step);
    pictures(&mut report);
    Ok(report)
}

/// Many at once, as fast as the machine.
fn uncapped(kind: Kind, shelf: &Shelf, step: Duration) -> Result<(Report, Option<Step>), Error> {
    let title = format!(
        "Viewers of one archive node, as fast as this machine: {}",
        kind.name()
    );
    let mut report = Report::new("vod-one-node", title);
    let (best, most) = open(kind, shelf, step, &mut |step| {
        report.ours.push(step.to_row("none"))
    })?;
    report.headline.set("viewers_max", most);
    if kind == Kind::Dvd {
        report.paper = paper::rows(&paper::VOD_ONE_NODE[2..]);
        let check = "viewers at once, in the same machine";
        report
            .verdict
            .check(check, most as f64, Bound::AtLeast(STREAMS_MIN));
    }
    report.notes = notes(kind, shelf, step);
    pictures(&mut report);
    report.verdict.conclude();
    Ok((report, best))
}

/// How many viewers a node holds as fast as the machine; `told` hears of each step. The last one
/// that held, and its viewers.
pub(super) fn open(
    kind: Kind,
    shelf: &Shelf,
    step: Duration,
    told: &mut dyn FnMut(&Step),
) -> Result<(Option<Step>, usize), Error> {
    let stand = Arc::new(Stand::loopback());
    let (more, most) = (kind.viewers(MANY), kind.viewers(MANY_MAX));
    let server = Server::start((&stand, 0), &shelf.folder, 4 * most, &[])?;
    let mut ramp = Ramp::new(&stand, shelf, vec![server])?;
    let mut best = None;
    let most = ramp.climb((more, more, most), step, |step| {
        told(step);
        if step.holds() {
            best = Some(step.clone());
        }
    })?;
    Ok((best, most))
}

/// A few viewers of the paper's other films, from a server each.
fn others(report: &mut Report, step: Duration) -> Result<(), Error> {
    for (kind, viewers) in [(Kind::High, 20), (Kind::Small, 200), (Kind::Highest, 5)] {
        let folder = Folder::new()?;
        let shelf = Shelf::make(folder.path(), kind.trace(), (1, OTHER_SECONDS))?;
        let stand = Arc::new(Stand::loopback());
        let server = Server::start((&stand, 0), &shelf.folder, 2 * viewers, &[])?;
        let mut ramp = Ramp::new(&stand, &shelf, vec![server])?;
        let mut last = None;
        let sizes = (viewers, viewers, viewers);
        let held = ramp.climb(sizes, step, |step| last = Some(step.clone()))?;
        let row = last.map(|step| step.to_row("none").with("film", kind.name()));
        report.ours.extend(row);
        let check = format!("viewers of {} that got all of theirs", kind.name());
        let all = Bound::AtLeast(viewers as f64);
        report.verdict.check(check, held as f64, all);
    }
    Ok(())
}

fn pictures(report: &mut Report) {
    let plot = |y| Plot {
        x: "viewers",
        y,
        series: Some("network"),
    };
    report.plot = Some(plot("viewer_mbps"));
    report.pictures = [
        ("cpu", "cpu_percent"),
        ("cpu-system", "system_percent"),
        ("disk", "disk_mbyte_per_s"),
        ("cache", "cache_mbyte_per_s"),
        ("network", "net_mbps"),
        ("rates", "rate_changes_per_s"),
    ]
    .map(|(name, y)| (name, plot(y)))
    .into();
}

fn notes(kind: Kind, shelf: &Shelf, step: Duration) -> Vec<String> {
    let made_of = match kind {
        Kind::Dvd => "the rates of an encoded MPEG-2 film (lab/bench/data/film-dvd.csv)",
        Kind::Small => "the rates of an encoded MPEG-4 film (lab/bench/data/film-small.csv)",
        Kind::High | Kind::Highest => "a constant rate",
    };
    vec![
        format!(
            "{} films of {} s, {:.2} GB, made of {made_of} of {:.2} Mb/s in the mean; viewers are \
             real RTSP sessions over UDP, spread over all films and places, that consume by the \
             film's clock, and play from a buffer of {} s with seven thresholds of flow control \
             where the server has it.",
            shelf.names.len(),
            kind.shelf().1,
            shelf.bytes as f64 / 1e9,
            shelf.mbps(),
            BUFFER.as_secs(),
        ),
        format!(
            "A step lasts {} s, after {} s in which the viewers that come begin. The paper's came \
             every {PAPERS_STEP} s: {:.0} times slower.",
            step.as_secs(),
            SETTLE.as_secs(),
            PAPERS_STEP as f64 / (step + SETTLE).as_secs_f64()
        ),
        "`viewers` are those to whom a film comes as the step begins; others come for those who \
         have all of theirs."
            .to_owned(),
        "`viewer_mbps` is the mean over viewers of what came of the film; `wanted_mbps` what the \
         server's pace for the same places of the films is, less what viewers with enough in \
         their buffers asked to be left out. `viewers_max` is the last number for which, as for \
         all before it, at least 99 % of that came, nobody starved, and less than 0.1 % of the \
         packets were missing when they were to be played (`lost`). `starved` counts viewers \
         that ran out of film in the step."
            .to_owned(),
    ]
}

/// A few viewers of a short film: everything that comes is whole.
pub(super) fn smoke(report: &mut Report) -> Result<(), Error> {
    let folder = Folder::new()?;
    let shelf = Shelf::make(folder.path(), Kind::Small.trace(), (2, 20))?;
    let stand = Arc::new(Stand::loopback());
    let server = Server::start((&stand, 0), &shelf.folder, 16, &[])?;
    let mut ramp = Ramp::new(&stand, &shelf, vec![server])?;
    let mut row = None;
    let most = ramp.climb((4, 4, 4), Duration::from_secs(2), |step| {
        row = Some(step.clone())
    })?;
    let check = "films: viewers that got all of theirs";
    report
        .verdict
        .check(check, most as f64, Bound::AtLeast(4.0));
    if let Some(step) = row {
        let check = "films: packets lost";
        report
            .verdict
            .check(check, step.lost as f64, Bound::AtMost(0.0));
        report.ours.push(step.to_row("none").with("part", "films"));
    }
    Ok(())
}
