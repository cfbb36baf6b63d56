//! `disk-change`: a node with streams to 70 % of what it holds, while one of its disks leaves and
//! another one comes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Reports;
use super::vod_one_node::{STEP, open};
use crate::args::Options;
use crate::error::Error;
use crate::film::Kind;
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row};
use crate::scenario::Folder;
use crate::vod::{Archive, Moved, Ramp, Server, Shelf, Stand, Step};

/// Of what a node holds.
const LOAD: f64 = 0.7;
/// One more than a parity with its three blocks needs: one may leave.
const DISKS: u32 = 5;
const LEAVES: u32 = 2;
/// What `sangam archive serve` moves by itself, in MiB per second.
const RATE: u32 = 16;
/// Of how long a row tells.
const SLICE: Duration = Duration::from_secs(4);
/// Rows before anything changes, and behind it.
const QUIET: usize = 3;
/// Every viewer has at least so many seconds of film before it: more than all this lasts, with what
/// a slow disk adds.
const STAY: f64 = 200.0;

/// How much of everything.
struct Plan {
    kind: Kind,
    shelf: (usize, u64),
    streams: usize,
    rate: u32,
    slice: Duration,
    stay: f64,
}

/// What happened in one part.
#[derive(Default)]
struct Sum {
    starved: usize,
    lost: u64,
    seconds: f64,
}

/// Measures what the node holds, unless that is stated, and then the change.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let kind = Kind::Dvd;
    let mut report = Report::new(
        "disk-change",
        "Streams of an archive node while a disk leaves and another one comes",
    );
    let mut progress = Progress::new(2);
    progress.at("what the node holds");
    let capacity = match options.capacity {
        Some(capacity) => capacity,
        None => measured(kind, Duration::from_secs(options.seconds.unwrap_or(STEP)))?,
    };
    progress.step();
    progress.at("disks");
    let streams = ((capacity as f64 * LOAD) as usize).max(1);
    let plan = Plan {
        kind,
        shelf: kind.shelf(),
        streams,
        rate: RATE,
        slice: SLICE,
        stay: STAY,
    };
    report.headline.set("capacity", capacity);
    report.headline.set("is_stated", options.capacity.is_some());
    report.headline.set("streams", streams);
    let came = change(&mut report, &plan, "")?;
    report.verdict.check(
        "pieces on the disk that came",
        came as f64,
        Bound::AtLeast(1.0),
    );
    progress.step();
    report.plot = Some(Plot {
        x: "at_s",
        y: "viewer_mbps",
        series: Some("change"),
    });
    report.notes = notes(&plan);
    Ok(vec![("disk-change".to_owned(), report)])
}

/// How many streams a node holds that has the same films on the same disks.
fn measured(kind: Kind, step: Duration) -> Result<usize, Error> {
    let folder = Folder::new()?;
    let archive = Archive::new(folder.path(), DISKS)?;
    let to = || archive.command();
    let mut shelf = Shelf::put(folder.path(), kind.trace(), kind.shelf(), &to)?;
    shelf.folder.clone_from(&archive.folder);
    open(kind, &shelf, step, &mut |_| ()).map(|(_, most)| most)
}

/// One disk leaves, then one comes; `of` stands before the names of checks. How many pieces lie on
/// the one that came: of a few chance may give it none.
fn change(report: &mut Report, plan: &Plan, of: &str) -> Result<u64, Error> {
    let folder = Folder::new()?;
    let archive = Archive::new(folder.path(), DISKS)?;
    let to = || archive.command();
    let shelf = Shelf::put(folder.path(), plan.kind.trace(), plan.shelf, &to)?;
    let stand = Arc::new(Stand::loopback());
    // Blocks are moved by a process that tells what it moved.
    let more = ["--no-admission", "--move-rate", "0", "--scrub-rate", "0"];
    let server = Server::start((&stand, 0), &archive.folder, 2 * plan.streams + 16, &more)?;
    let mut ramp = Ramp::new(&stand, &shelf, vec![server])?.staying(plan.stay);
    ramp.fill(plan.streams)?;
    let begun = Instant::now();
    let mut sums = Vec::new();
    sums.push(quiet(report, &mut ramp, (plan, begun), "before")?);
    let due = archive.pieces(LEAVES)?;
    archive.remove(LEAVES)?;
    let (sum, moved) = settle(
        report,
        &mut ramp,
        (plan, begun),
        (&archive, "a disk leaves"),
    )?;
    sums.push(sum);
    let left = archive.pieces(LEAVES)?;
    let leaving = (due, moved);
    archive.add(DISKS + 1)?;
    let (sum, moved) = settle(report, &mut ramp, (plan, begun), (&archive, "a disk comes"))?;
    sums.push(sum);
    let coming = (archive.pieces(DISKS + 1)?, moved);
    sums.push(quiet(report, &mut ramp, (plan, begun), "after")?);
    tell(report, (leaving, &sums[1]), (coming, &sums[2]));

    let mut check = |name: &str, value: f64, bound| {
        report.verdict.check(format!("{of}{name}"), value, bound);
    };
    let none = Bound::AtMost(0.0);
    let starved = sums.iter().map(|sum| sum.starved).sum::<usize>();
    check("streams that starved", starved as f64, none);
    let lost = sums.iter().map(|sum| sum.lost).sum::<u64>();
    check("packets lost", lost as f64, none);
    check("pieces left on the disk that left", left as f64, none);
    let is_done = leaving.1.is_complete && coming.1.is_complete;
    let unfinished = f64::from(u8::from(!is_done));
    check("changes that were not completed", unfinished, none);
    Ok(coming.0)
}

/// What was moved, beside the least that has to be.
fn tell(report: &mut Report, leaving: ((u64, Moved), &Sum), coming: ((u64, Moved), &Sum)) {
    let parts = [
        (
            leaving,
            [
                "leave_pieces_least",
                "leave_pieces_moved",
                "leave_mbyte",
                "leave_s",
            ],
        ),
        (
            coming,
            [
                "come_pieces_least",
                "come_pieces_moved",
                "come_mbyte",
                "come_s",
            ],
        ),
    ];
    for (((least, moved), sum), [a, b, c, d]) in parts {
        report.headline.set(a, least);
        report.headline.set(b, moved.moved + moved.rebuilt);
        report.headline.set(c, moved.bytes as f64 * 1e-6);
        report.headline.set(d, sum.seconds);
    }
}

/// Streams while nothing changes.
fn quiet(
    report: &mut Report,
    ramp: &mut Ramp<'_>,
    (plan, begun): (&Plan, Instant),
    name: &'static str,
) -> Result<Sum, Error> {
    let mut sum = Sum::default();
    for _ in 0..QUIET {
        let step = ramp.measure(plan.slice)?;
        sum.add(&step);
        report.ours.push(row(&step, name, begun));
    }
    Ok(sum)
}

/// Streams until all blocks are where they belong.
fn settle(
    report: &mut Report,
    ramp: &mut Ramp<'_>,
    (plan, begun): (&Plan, Instant),
    (archive, name): (&Archive, &'static str),
) -> Result<(Sum, Moved), Error> {
    let (mut sum, from) = (Sum::default(), Instant::now());
    let mut moving = archive.settle(plan.rate)?;
    loop {
        let step = ramp.measure(plan.slice)?;
        sum.add(&step);
        report.ours.push(row(&step, name, begun));
        if let Some(moved) = moving.ended()? {
            sum.seconds = from.elapsed().as_secs_f64();
            return Ok((sum, moved));
        }
        if from.elapsed().as_secs_f64() > plan.stay {
            return Err(Error::Broker("blocks are moved for too long".to_owned()));
        }
    }
}

fn row(step: &Step, name: &'static str, begun: Instant) -> Row {
    let at = begun.elapsed().as_secs_f64();
    step.to_row("none").with("change", name).with("at_s", at)
}

impl Sum {
    fn add(&mut self, step: &Step) {
        self.starved += step.starved;
        self.lost += step.lost;
    }
}

fn notes(plan: &Plan) -> Vec<String> {
    vec![
        format!(
            "{} streams are {:.0} % of `capacity`, which is the option --capacity, or the most \
             viewers of the same films on the same {DISKS} disks of which nobody starved, steps of \
             a hundred apart. Disks are folders of one file system, films have a block of parity \
             for each three.",
            plan.streams,
            100.0 * LOAD
        ),
        format!(
            "Blocks are moved by `sangam archive settle --rate {RATE}` beside the server, which is \
             what the server does by itself; `leave_s` and `come_s` are how long that took, to {} \
             s. `leave_pieces_least` are the pieces that lay on the disk that left, \
             `come_pieces_least` those that lie on the one that came.",
            plan.slice.as_secs()
        ),
        "A row tells of the seconds until `at_s`, which counts from when all streams run; \
         `starved` counts streams that ran out of film within it."
            .to_owned(),
    ]
}

/// A few streams of short films.
pub(super) fn smoke(report: &mut Report) -> Result<(), Error> {
    let plan = Plan {
        kind: Kind::Small,
        shelf: (2, 40),
        streams: 4,
        rate: RATE,
        slice: Duration::from_secs(1),
        stay: 30.0,
    };
    change(report, &plan, "disks: ").map(|_| ())
}
