//! `topologies`: the loads of `meetings-20` and `meetings-40` over brokers linked in different
//! ways. "Other broker organization schemes can be explored such as ring or full mesh to avoid
//! such disproportionate load" (Uyar & Fox, section 5).

use super::{Reports, columns, receivers, row_span, scaled, spread};
use crate::args::Options;
use crate::error::Error;
use crate::load::Media;
use crate::process::Queuing;
use crate::progress::Progress;
use crate::report::{Bound, Report, Row};
use crate::scenario::{self, Meeting, Outcome, Place, Plan, Usage, World};

/// Meetings that are measured, with one receiver at each broker.
const MEASURED: usize = 3;
/// Relays beyond one copy for each link of a tree: what stays unexplained.
const COPIES_SLACK: f64 = 1.001;
/// Copies by a second way, as a share of what a tree needs: ways change seldom.
const SECOND_WAYS_MAX: f64 = 0.05;

/// How brokers are linked.
struct Topology {
    name: &'static str,
    /// For each broker the earlier ones that it dials.
    dials: &'static [&'static [usize]],
}

/// Two regions of three are full meshes, with two links between them.
const TOPOLOGIES: [Topology; 6] = [
    Topology {
        name: "chain of 4",
        dials: &[&[], &[0], &[1], &[2]],
    },
    Topology {
        name: "ring of 4",
        dials: &[&[], &[0], &[1], &[2, 0]],
    },
    Topology {
        name: "star of 4",
        dials: &[&[], &[0], &[0], &[0]],
    },
    Topology {
        name: "full mesh of 4",
        dials: &[&[], &[0], &[0, 1], &[0, 1, 2]],
    },
    Topology {
        name: "hierarchy, 2 regions of 3",
        dials: &[&[], &[0], &[0, 1], &[0], &[1, 3], &[3, 4]],
    },
    Topology {
        name: "full mesh of 6",
        dials: &[
            &[],
            &[0],
            &[0, 1],
            &[0, 1, 2],
            &[0, 1, 2, 3],
            &[0, 1, 2, 3, 4],
        ],
    },
];

/// A load of the paper.
struct Series {
    name: &'static str,
    /// Receivers of one meeting.
    size: usize,
    /// So many that all six topologies carry the same deliveries under both loads.
    meetings: usize,
}

const SERIES: [Series; 2] = [
    Series {
        name: "topologies-20",
        size: 20,
        meetings: 48,
    },
    Series {
        name: "topologies-40",
        size: 40,
        meetings: 24,
    },
];

/// Measures all topologies under both loads.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let mut progress = Progress::new(SERIES.len() * TOPOLOGIES.len());
    let mut reports = Vec::new();
    for series in SERIES {
        let title = format!(
            "Video meetings of {} over brokers linked in different ways",
            series.size
        );
        let mut report = Report::new("topologies", title);
        report.headline.set("receivers", receivers(options).name());
        report.notes = notes();
        for topology in TOPOLOGIES {
            let meetings = scaled(series.meetings, options);
            progress.at(&format!("{}, {meetings} meetings", topology.name));
            let plan = plan(options, &topology, (meetings, series.size));
            let outcome = scenario::run_in(&world(&topology), &plan)?;
            rows(&mut report, &topology, (&plan, &outcome));
            check(&mut report, &topology, (&plan, &outcome));
            progress.step();
        }
        reports.push((series.name.to_owned(), report));
    }
    Ok(reports)
}

fn notes() -> Vec<String> {
    [
        "link_copies is how often a published packet crossed a link between brokers; with \
         subscribers at every broker a tree needs one less than there are brokers. \
         link_copies_twice is what of it came to a broker that had it already: for the second in \
         which a way changes, both ways bring the stream.",
        "relay_imbalance is what the busiest broker relays, as a multiple of the mean. Uyar & Fox \
         (section 5) saw their middle brokers of a chain loaded most and left open whether a ring \
         or a full mesh avoids it.",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn world(topology: &Topology) -> World {
    let mut world = World::chain(topology.dials.len());
    for (stand, dials) in world.brokers.iter_mut().zip(topology.dials) {
        stand.dials = dials.to_vec();
    }
    world
}

fn plan(options: &Options, topology: &Topology, (meetings, size): (usize, usize)) -> Plan {
    let brokers = topology.dials.len();
    Plan {
        media: Media::Video,
        brokers,
        shards: options.shards.unwrap_or(1),
        queuing: Queuing::Double,
        meetings: (0..meetings)
            .map(|number| meeting(number, spread(size, brokers)))
            .collect(),
        receivers: receivers(options),
        span: row_span(options),
    }
}

/// Publishers take turns over the brokers; one meeting each of the first brokers is measured.
fn meeting(number: usize, users: Vec<usize>) -> Meeting {
    let publisher = number % users.len();
    if number >= MEASURED {
        return Meeting::passive(publisher, users);
    }
    Meeting::measured_once(publisher, users)
}

/// A row for all brokers together and one for each.
fn rows(report: &mut Report, topology: &Topology, (plan, outcome): (&Plan, &Outcome)) {
    let row = || {
        Row::default()
            .with("layout", topology.name)
            .with("meetings", plan.meetings.len())
            .with("users", plan.participants())
    };
    if let Some(all) = outcome.among(|_| true) {
        let mut row = row();
        columns::quality(&mut row, &all);
        columns::cost(&mut row, outcome);
        row.set("link_copies", copies(plan, outcome))
            .set("link_copies_twice", twice(plan, outcome))
            .set("relay_imbalance", imbalance(outcome));
        report.ours.push(row);
    }
    let seconds = outcome.took.as_secs_f64();
    for (number, usage) in outcome.usage.iter().enumerate() {
        let mut row = row().with("broker", number + 1);
        if let Some(seen) = outcome.at(number, Place::Last) {
            columns::quality(&mut row, &seen);
        }
        let delivered = usage.metrics.sum("sangam_delivered_packets_total", "");
        row.set("relayed_per_s", (relayed(usage) / seconds).round())
            .set("delivered_per_s", (delivered / seconds).round())
            .set(
                "broker_cpu_percent",
                usage.cpu.total.as_secs_f64() * 100.0 / seconds,
            );
        report.ours.push(row);
    }
}

fn relayed(usage: &Usage) -> f64 {
    usage.metrics.sum("sangam_relayed_packets_total", "")
}

/// What the busiest broker relays, as a multiple of the mean.
fn imbalance(outcome: &Outcome) -> f64 {
    let most = outcome.usage.iter().map(relayed).fold(0.0, f64::max);
    let all: f64 = outcome.usage.iter().map(relayed).sum();
    most * outcome.usage.len() as f64 / all.max(1.0)
}

/// Copies on links of each published packet, in the mean. Both counts are of the whole run, from
/// one silence to the next: nothing is on its way at either end, and nothing is estimated.
fn copies(plan: &Plan, outcome: &Outcome) -> f64 {
    outcome.relayed_in_all() / published(plan, outcome)
}

/// Packets that all publishers sent. Meetings are of one size here, so what is due to all
/// participants tells it.
fn published(plan: &Plan, outcome: &Outcome) -> f64 {
    let each = plan.participants() as f64 / plan.meetings.len() as f64;
    (outcome.due as f64 / each).max(1.0)
}

/// Copies that came to a broker by a second way and went no further, for each published packet:
/// while a way changes both the old and the new one bring the stream.
fn twice(plan: &Plan, outcome: &Outcome) -> f64 {
    let drops = outcome.drops_in_all();
    let again = ["duplicate", "came_home"].map(|reason| drops.get(reason).copied().unwrap_or(0.0));
    again.iter().sum::<f64>() / published(plan, outcome)
}

/// A packet needs no more links than a tree has. What crosses a link besides is what changes of
/// ways cost, and nothing else may.
fn check(report: &mut Report, topology: &Topology, (plan, outcome): (&Plan, &Outcome)) {
    let tree = (plan.brokers - 1) as f64;
    let name = |what: &str| {
        format!(
            "{}, {} meetings: {what}",
            topology.name,
            plan.meetings.len()
        )
    };
    report.verdict.check(
        name("link copies of each packet, less those of changing ways"),
        copies(plan, outcome) - twice(plan, outcome),
        Bound::AtMost(tree * COPIES_SLACK),
    );
    report.verdict.check(
        name("copies by a second way"),
        twice(plan, outcome),
        Bound::AtMost(tree * SECOND_WAYS_MAX),
    );
}
