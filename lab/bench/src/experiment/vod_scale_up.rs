//! `vod-scale-up`: the most viewers of one, two, four and eight archive nodes that hold their films
//! together, each behind 100 Mb/s and with the same share of the processor (Zimmermann et al.,
//! Figure 4).

use std::sync::Arc;
use std::time::Duration;

use super::Reports;
use super::vod_one_node::{BANDWIDTH, CAP_MBPS, PAPERS_STEP, QUOTA_PERCENT, STEP};
use crate::args::Options;
use crate::error::Error;
use crate::film::Kind;
use crate::paper;
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report};
use crate::scenario::Folder;
use crate::vod::{BUFFER, Load, Quota, Ramp, Shelf, Stand, Step, cluster};

/// Nodes, and what the most of their viewers are called.
const SIZES: [(usize, &str); 4] = [
    (1, "viewers_max_1"),
    (2, "viewers_max_2"),
    (4, "viewers_max_4"),
    (8, "viewers_max_8"),
];
/// Viewers for each node at first, which is what the paper's had at most, and at most.
const FIRST: usize = 12;
const MOST: usize = 24;
/// MiB of blocks that a node keeps in memory: the films are more than four times what eight keep.
const CACHE: &str = "32";
/// Of so many times one node's viewers.
const LINEAR_MIN: f64 = 95.0;

/// Measures all sizes.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let kind = options.film.unwrap_or(Kind::Dvd);
    let title = format!(
        "Viewers of several archive nodes, each behind 100 Mb/s: {}",
        kind.name()
    );
    let mut report = Report::new("vod-scale-up", title);
    let mut progress = Progress::new(SIZES.len());
    let span = Duration::from_secs(options.seconds.unwrap_or(STEP));
    let mut one = 0;
    for (nodes, name) in SIZES {
        progress.at(&format!("{nodes} nodes"));
        let most = climb(&mut report, kind, nodes, span)?;
        report.headline.set(name, most);
        match nodes {
            1 => one = most,
            _ => {
                let linear = 100.0 * most as f64 / (nodes * one) as f64;
                let check = format!("viewers of {nodes} nodes, in percent of {nodes} times one's");
                report
                    .verdict
                    .check(check, linear, Bound::AtLeast(LINEAR_MIN));
            }
        }
        progress.step();
    }
    report.headline.set("quota_percent", QUOTA_PERCENT);
    if kind == Kind::Dvd {
        report.paper = paper::rows(paper::VOD_SCALE_UP);
    }
    report.notes = notes(kind, span);
    let plot = |y| Plot {
        x: "viewers",
        y,
        series: Some("nodes"),
    };
    report.plot = Some(plot("viewer_mbps"));
    report.pictures = [
        ("cpu", "node_cpu_percent"),
        ("read", "read_mbyte_per_s"),
        ("network", "net_mbps"),
        ("rates", "rate_changes_per_s"),
        ("imbalance", "imbalance_percent"),
    ]
    .map(|(name, y)| (name, plot(y)))
    .into();
    Ok(vec![("vod-scale-up".to_owned(), report)])
}

/// The most viewers of so many nodes.
fn climb(report: &mut Report, kind: Kind, nodes: usize, span: Duration) -> Result<usize, Error> {
    let folder = Folder::new()?;
    let stand = Arc::new(Stand::hosts(nodes)?);
    let quotas: Result<Vec<_>, _> = (0..nodes).map(|_| Quota::new(QUOTA_PERCENT)).collect();
    let quotas = quotas?;
    let more = ["--cache", CACHE, "--bandwidth", BANDWIDTH, "--no-admission"];
    let most = kind.viewers(nodes * MOST);
    let servers = cluster::start(&stand, folder.path(), nodes, (2 * most, &more))?;
    // Films come before the caps, which would make that last for minutes.
    let to = || cluster::archive(&stand, 0, folder.path());
    let shelf = Shelf::put(folder.path(), kind.trace(), kind.shelf(), &to)?;
    stand.cap(CAP_MBPS)?;
    for (server, quota) in servers.iter().zip(&quotas) {
        server.keep_to(quota)?;
    }
    let mut ramp = Ramp::new(&stand, &shelf, servers)?;
    let first = kind.viewers(nodes * FIRST);
    let sizes = (first, kind.viewers((nodes / 2).max(1)), most);
    ramp.climb(sizes, span, |step| {
        let row = step.to_row("100 Mb/s").with("nodes", nodes);
        let node_cpu = 100.0 * step.cores() / nodes as f64;
        report.ours.push(
            row.with("node_cpu_percent", node_cpu)
                .with("imbalance_percent", imbalance(step)),
        );
    })
}

/// What the node that sent most sent more than the one that sent least, in percent of the mean.
fn imbalance(step: &Step) -> f64 {
    let sent = || step.loads.iter().map(|load: &Load| load.net as f64);
    let mean = sent().sum::<f64>() / step.loads.len() as f64;
    let (least, most) = (
        sent().fold(f64::INFINITY, f64::min),
        sent().fold(0.0, f64::max),
    );
    100.0 * (most - least) / mean.max(1.0)
}

fn notes(kind: Kind, span: Duration) -> Vec<String> {
    let (films, seconds) = kind.shelf();
    vec![
        format!(
            "Each node is a process with a folder, a host (network namespace) whose device \
             sends at most {CAP_MBPS} Mb/s with all headers, {QUOTA_PERCENT} % of one processor \
             (control group), `--bandwidth {BANDWIDTH}` and {CACHE} MiB of memory for blocks; \
             {films} films of {seconds} s lie on all of them together, with two copies on two \
             nodes and parity on four and more. Viewers ask each node in turn and get each \
             block from the node that has it; they hold {} s.",
            BUFFER.as_secs(),
        ),
        format!(
            "A step of measuring lasts {} s; the paper's viewers came every {PAPERS_STEP} s. \
             `viewers_max` is the last number for which, as for all before it, at least 99 % of \
             what viewers wanted came, nobody starved, and less than 0.1 % of the packets were \
             missing when they were to be played. From one step to the next there are half as \
             many viewers more as there are nodes.",
            span.as_secs(),
        ),
        "`imbalance_percent` is what the node that sent most sent more than the one that sent \
         least, of the mean."
            .to_owned(),
    ]
}

/// Two nodes and a few viewers, on loopback: everything that comes is whole.
pub(super) fn smoke(report: &mut Report) -> Result<(), Error> {
    const VIEWERS: usize = 4;
    let folder = Folder::new()?;
    let stand = Arc::new(Stand::loopback());
    let servers = cluster::start(&stand, folder.path(), 2, (16, &[]))?;
    let to = || cluster::archive(&stand, 0, folder.path());
    let shelf = Shelf::put(folder.path(), Kind::Small.trace(), (2, 20), &to)?;
    let mut ramp = Ramp::new(&stand, &shelf, servers)?;
    let mut row = None;
    let sizes = (VIEWERS, VIEWERS, VIEWERS);
    let most = ramp.climb(sizes, Duration::from_secs(2), |step| {
        row = Some(step.clone())
    })?;
    let check = "films of two nodes: viewers that got all of theirs";
    let all = Bound::AtLeast(VIEWERS as f64);
    report.verdict.check(check, most as f64, all);
    if let Some(step) = row {
        let check = "films of two nodes: packets lost";
        let none = Bound::AtMost(0.0);
        report.verdict.check(check, step.lost as f64, none);
        let row = step.to_row("none").with("part", "films of two nodes");
        report.ours.push(row);
    }
    Ok(())
}
