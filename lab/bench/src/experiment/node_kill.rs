//! `node-kill`: films on several archive nodes, streams that run, and one node that is killed: how
//! long nothing comes to each client.

use std::sync::Arc;
use std::time::Duration;

use super::{Reports, scaled};
use crate::args::Options;
use crate::error::Error;
use crate::film::Kind;
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row};
use crate::scenario::Folder;
use crate::vod::{Look, Ramp, Shelf, Stand, cluster};

/// Nodes, and what their longest gap is called: two copies of each block on two and three, a parity
/// for three blocks on four.
const SIZES: [(usize, &str); 3] = [
    (2, "gap_max_ms_2"),
    (3, "gap_max_ms_3"),
    (4, "gap_max_ms_4"),
];
const VIEWERS: usize = 100;
/// Until viewers have filled their buffers, and how long is looked after the kill.
const CALM: Duration = Duration::from_secs(10);
const WATCH: Duration = Duration::from_secs(15);
/// What a client may have to wait, in milliseconds.
const GAP_MAX_MS: f64 = 1_000.0;
/// Rows tell of these parts of the clients.
const PERCENTS: [usize; 11] = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];

/// How much of everything.
struct Plan {
    kind: Kind,
    shelf: (usize, u64),
    nodes: usize,
    viewers: usize,
    calm: Duration,
    watch: Duration,
}

/// What became of the clients.
struct Found {
    /// Milliseconds of each, sorted: those whose front was killed, others, and all.
    front: Vec<f64>,
    others: Vec<f64>,
    all: Vec<f64>,
    starved: usize,
    lost: u64,
    moves: u64,
}

/// Kills a node of each number of them.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let title = "How long nothing comes to clients of an archive one of whose nodes is killed";
    let mut report = Report::new("node-kill", title);
    let mut progress = Progress::new(SIZES.len());
    for (nodes, name) in SIZES {
        progress.at(&format!("{nodes} nodes"));
        let plan = Plan {
            kind: Kind::Dvd,
            shelf: (2, 120),
            nodes,
            viewers: scaled(VIEWERS, options),
            calm: CALM,
            watch: options.seconds.map_or(WATCH, Duration::from_secs),
        };
        let found = kill(&plan)?;
        report.headline.set(name, most(&found.all));
        report.ours.extend(rows(&plan, &found));
        judge(&mut report, &plan, &found);
        progress.step();
    }
    report.plot = Some(Plot {
        x: "percent",
        y: "gap_ms",
        series: Some("nodes"),
    });
    report.notes = notes();
    Ok(vec![("node-kill".to_owned(), report)])
}

fn kill(plan: &Plan) -> Result<Found, Error> {
    let folder = Folder::new()?;
    let stand = Arc::new(Stand::loopback());
    let more = ["--no-admission", "--scrub-rate", "0"];
    let players = (2 * plan.viewers + 16, &more[..]);
    let servers = cluster::start(&stand, folder.path(), plan.nodes, players)?;
    let to = || cluster::archive(&stand, 0, folder.path());
    let shelf = Shelf::put(folder.path(), plan.kind.trace(), plan.shelf, &to)?;
    let stay = (plan.calm + plan.watch).as_secs_f64() * 1.5;
    let mut ramp = Ramp::new(&stand, &shelf, servers)?.staying(stay);
    ramp.fill(plan.viewers)?;
    ramp.measure(plan.calm)?;
    let victim = plan.nodes - 1;
    let before = ramp.looks(victim)?;
    ramp.kill(victim)?;
    let step = ramp.measure(plan.watch)?;
    let after = ramp.looks(victim)?;
    let gaps = |is_wanted: &dyn Fn(bool) -> bool| {
        let wanted = after.iter().filter(|(is_front, _)| is_wanted(*is_front));
        let mut gaps: Vec<f64> = wanted.map(|(_, look)| ms(look)).collect();
        gaps.sort_by(f64::total_cmp);
        gaps
    };
    let moves =
        |looks: &[(bool, Look)]| looks.iter().map(|(_, look)| look.counts.moves).sum::<u64>();
    if let Some(why) = &step.failed {
        return Err(Error::Join(format!("a viewer sees nothing: {why}")));
    }
    Ok(Found {
        front: gaps(&|is_front| is_front),
        others: gaps(&|is_front| !is_front),
        all: gaps(&|_| true),
        starved: step.starved,
        lost: step.lost,
        moves: moves(&after) - moves(&before),
    })
}

fn ms(look: &Look) -> f64 {
    look.gap.as_secs_f64() * 1e3
}

fn most(gaps: &[f64]) -> f64 {
    gaps.last().copied().unwrap_or(f64::NAN)
}

/// What so many percent of the clients did not have to wait longer for.
fn at(gaps: &[f64], percent: usize) -> Option<f64> {
    let place = (gaps.len().checked_sub(1)? * percent).div_ceil(100);
    gaps.get(place).copied()
}

fn rows(plan: &Plan, found: &Found) -> Vec<Row> {
    let row = |percent: usize| {
        let mut row = Row::default()
            .with("nodes", plan.nodes)
            .with("viewers", plan.viewers)
            .with("percent", percent);
        for (name, gaps) in [
            ("gap_ms", &found.all),
            ("front_gap_ms", &found.front),
            ("other_gap_ms", &found.others),
        ] {
            if let Some(gap) = at(gaps, percent) {
                row.set(name, gap);
            }
        }
        row
    };
    PERCENTS.map(row).into()
}

fn judge(report: &mut Report, plan: &Plan, found: &Found) {
    let nodes = plan.nodes;
    let mut check = |what: &str, value: f64, bound| {
        let name = format!("{nodes} nodes: {what}");
        report.verdict.check(name, value, bound);
    };
    let most_ms = Bound::AtMost(GAP_MAX_MS);
    let front = "longest gap of those whose front was killed, in ms";
    check(front, most(&found.front), most_ms);
    check("longest gap of others, in ms", most(&found.others), most_ms);
    let none = Bound::AtMost(0.0);
    check("clients that starved", found.starved as f64, none);
    check("packets lost", found.lost as f64, none);
    let stayed = found.front.len() as f64 - found.moves as f64;
    check(
        "clients of the killed front that found no other",
        stayed,
        none,
    );
}

fn notes() -> Vec<String> {
    vec![
        "Each node is a process on this machine with a folder of its own; clients ask them in turn \
         and get each block from the node that has it. The last node is killed (SIGKILL) while all \
         streams run. A gap is the longest time in which no datagram of the film came to a client, \
         from the kill to the end of the run; `percent` of the clients had none longer than \
         `gap_ms`."
            .to_owned(),
        "`front_gap_ms` is of the clients whose RTSP connection was to the killed node: they set \
         up anew at another one and go on with the first packet that they lack. `other_gap_ms` is \
         of the others, whose front shares out anew what the killed node had to send."
            .to_owned(),
    ]
}

/// Three nodes and a few clients.
pub(super) fn smoke(report: &mut Report) -> Result<(), Error> {
    let plan = Plan {
        kind: Kind::Small,
        shelf: (2, 40),
        nodes: 3,
        viewers: 6,
        calm: Duration::from_secs(4),
        watch: Duration::from_secs(4),
    };
    let found = kill(&plan)?;
    let none = Bound::AtMost(0.0);
    let mut check = |what: &str, value: f64, bound| {
        report
            .verdict
            .check(format!("a node killed: {what}"), value, bound);
    };
    check("packets lost", found.lost as f64, none);
    check("fronts left", found.moves as f64, Bound::AtLeast(2.0));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_are_of_clients() {
        let gaps = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(
            [0, 50, 90, 100].map(|percent| at(&gaps, percent)),
            [Some(1.0), Some(3.0), Some(5.0), Some(5.0)]
        );
        assert_eq!(at(&[], 50), None);
    }
}
