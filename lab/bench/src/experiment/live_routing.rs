//! `live-routing`: networks of the simulator by real brokers, packet for packet on the emulator,
//! once for each way of routing, beside the simulator's figures of the same trace.

mod heard;
mod network;
mod simulated;
mod stage;

use sangam_jitter::Kind;

use super::Reports;
use crate::args::Options;
use crate::error::Error;
use crate::progress::Progress;
use crate::report::{Bound, Report, Row};
use crate::scenario::Folder;
use heard::{Figures, Span, Sums};
use network::{Network, Part};
use simulated::Simulated;
use stage::{Outcome, Stage};

/// Seconds of media for each network and routing. The simulator's study has 300 and more.
const SECONDS: u64 = 60;
/// Receivers, as `sangam play --jitter` has them.
const RECEIVERS: [Kind; 3] = [Kind::NetEq, Kind::WmJitter, Kind::Ours];
/// The whole of t2, where all sessions share one network; of t3, where each is a network of its
/// own, the first.
const PARTS: [Part; 2] = [
    Part {
        family: "t2",
        sessions: "",
    },
    Part {
        family: "t3",
        sessions: "1",
    },
];
/// Two methods are in an order, where one is so much shorter than the other.
const APART: f64 = 1.1;
/// By the direct path both have the same network: so many percent longer it may be live. It may be
/// shorter, as brokers leave a link that falls silent.
const DIRECT_PERCENT_MAX: f64 = 5.0;

/// By which way streams come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Routing {
    Direct,
    LinkState,
    Via,
    VcRoute,
}

impl Routing {
    const ALL: [Self; 4] = [Self::Direct, Self::LinkState, Self::Via, Self::VcRoute];

    const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::LinkState => "link-state",
            Self::Via => "via",
            Self::VcRoute => "vcroute",
        }
    }

    /// The simulator's method that does the same.
    const fn simulated(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::LinkState => "link-state-live",
            Self::Via => "via-live",
            Self::VcRoute => "vcroute-live",
        }
    }

    /// The study's method of the same idea, which chooses for each packet.
    const fn studied(self) -> &'static str {
        match self {
            Self::LinkState => "ours",
            Self::Direct | Self::Via | Self::VcRoute => self.name(),
        }
    }

    /// What brokers are configured for and a scheduler plans by, if there is one.
    const fn scheduled(self) -> Option<&'static str> {
        match self {
            Self::Direct | Self::LinkState => None,
            Self::Via | Self::VcRoute => Some(self.name()),
        }
    }
}

/// A receiver behind a routing, live and simulated.
struct Pair {
    routing: Routing,
    receiver: Kind,
    live: Figures,
    simulated: Option<Figures>,
    studied: Option<Figures>,
}

/// Plays all networks with every routing.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let title = "Routing and receivers in a live network beside the simulator's figures";
    let mut report = Report::new("live-routing", title);
    report.notes = notes();
    let packets = options.seconds.unwrap_or(SECONDS) * 100;
    let mut progress = Progress::new(PARTS.len() * Routing::ALL.len());
    for part in &PARTS {
        let folder = Folder::new()?;
        let network = Network::generate(part, packets, folder.path())?;
        let simulated = network.simulate()?;
        let name = name(part);
        let mut pairs = Vec::new();
        for routing in Routing::ALL {
            progress.at(&format!("{name}, {}", routing.name()));
            let outcome = Stage::new(&network, routing)?.play(packets)?;
            let more = compare(routing, &outcome, (packets, &simulated));
            report.ours.extend(rows(&name, &more, &outcome));
            pairs.extend(more);
            progress.step();
        }
        check(&mut report, &name, &pairs);
    }
    Ok(vec![("live-routing".to_owned(), report)])
}

/// One draw for a few seconds: every packet comes, and a scheduler is followed.
///
/// # Errors
/// If sites cannot be made, a broker does not start or participants cannot join.
pub(super) fn smoke(report: &mut Report) -> Result<(), Error> {
    const PACKETS: u64 = 300;
    let folder = Folder::new()?;
    let network = Network::generate(&PARTS[1], PACKETS, folder.path())?;
    let outcome = Stage::new(&network, Routing::VcRoute)?.play(PACKETS)?;
    let arrived = outcome.arrivals.iter().map(Vec::len).sum::<usize>();
    let planned = outcome.plans.is_some();
    for (what, count, least) in [
        ("packets that arrived", arrived as f64, PACKETS as f64),
        ("schedulers that planned", f64::from(planned), 1.0),
    ] {
        let name = format!("a network of the simulator: {what}");
        report.verdict.check(name, count, Bound::AtLeast(least));
    }
    Ok(())
}

fn name(part: &Part) -> String {
    match part.sessions {
        "" => part.family.to_owned(),
        session => format!("{}, draw {session}", part.family),
    }
}

/// Lets all receivers hear what came, without the first fifth: the simulator's warm-up.
fn compare(
    routing: Routing,
    outcome: &Outcome,
    (packets, simulated): (u64, &Simulated),
) -> Vec<Pair> {
    let span = Span {
        from: (packets / 5).min(6_000),
        until: packets,
    };
    let pairs = RECEIVERS.into_iter().map(|receiver| {
        let mut sums = Sums::default();
        for arrivals in &outcome.arrivals {
            sums.listen(receiver, arrivals, span);
        }
        Pair {
            routing,
            receiver,
            live: sums.figures(),
            simulated: simulated.figures(routing.simulated(), receiver.name()),
            studied: simulated.figures(routing.studied(), receiver.name()),
        }
    });
    pairs.collect()
}

fn rows(network: &str, pairs: &[Pair], outcome: &Outcome) -> Vec<Row> {
    let row = |(place, pair): (usize, &Pair)| {
        let mut row = Row::default()
            .with("network", network)
            .with("routing", pair.routing.name())
            .with("receiver", pair.receiver.name())
            .with("transit_ms", pair.live.transit_ms)
            .with("release_ms", pair.live.release_ms)
            .with("playout_ms", pair.live.playout_ms)
            .with("lost_percent", pair.live.lost_percent);
        if let Some(simulated) = &pair.simulated {
            row.set("sim_transit_ms", simulated.transit_ms)
                .set("sim_release_ms", simulated.release_ms)
                .set("sim_playout_ms", simulated.playout_ms)
                .set("sim_lost_percent", simulated.lost_percent);
        }
        if let Some(studied) = &pair.studied {
            row.set("study_transit_ms", studied.transit_ms)
                .set("study_release_ms", studied.release_ms);
        }
        if place == 0 {
            costs(&mut row, outcome);
        }
        row
    };
    pairs.iter().enumerate().map(row).collect()
}

/// What the network says of itself, and what plans cost.
fn costs(row: &mut Row, outcome: &Outcome) {
    let (calm, busy) = (outcome.calm, outcome.busy);
    let own = busy.bytes - (busy.event_bytes - calm.event_bytes);
    row.set("own_kbps", calm.bytes * 8.0 / 1e3)
        .set("own_packets_per_s", calm.packets)
        .set("all_kbps", busy.bytes * 8.0 / 1e3)
        .set("own_busy_kbps", own * 8.0 / 1e3)
        .set("own_percent", own * 100.0 / busy.bytes.max(1.0))
        .set("relayed_per_s", busy.events);
    if let Some(plans) = &outcome.plans {
        let count = |name: &str| plans.sum(&format!("sangam_plan_{name}_total"), "") as u64;
        row.set("plan_messages", count("messages"))
            .set("plan_bytes", count("bytes"))
            .set("trees_changed", count("changed"))
            .set("scheduler_cpu_percent", outcome.scheduler_percent);
    }
}

/// The direct path is as the simulator has it, and methods are in the same order.
fn check(report: &mut Report, network: &str, pairs: &[Pair]) {
    let mut direct = pairs.iter().filter(|pair| pair.routing == Routing::Direct);
    let far = direct.find_map(|pair| {
        let simulated = pair.simulated?.transit_ms;
        Some(100.0 * (pair.live.transit_ms - simulated) / simulated)
    });
    report.verdict.check(
        format!("{network}: direct transit, percent above the simulator's"),
        far.unwrap_or(f64::NAN),
        Bound::AtMost(DIRECT_PERCENT_MAX),
    );
    for receiver in RECEIVERS {
        let of_it = pairs.iter().filter(|pair| pair.receiver == receiver);
        let of_it: Vec<&Pair> = of_it.collect();
        let against = of_it.iter().flat_map(|a| of_it.iter().map(move |b| (a, b)));
        let against = against.filter(|(a, b)| is_against(a, b)).count();
        report.verdict.check(
            format!("{network}, {receiver}: pairs of methods in another order than simulated"),
            against as f64,
            Bound::AtMost(0.0),
        );
    }
}

/// Whether one method is clearly faster live and the other simulated.
fn is_against(a: &Pair, b: &Pair) -> bool {
    let (Some(of_a), Some(of_b)) = (a.simulated, b.simulated) else {
        return false;
    };
    a.live.release_ms * APART < b.live.release_ms && of_b.release_ms * APART < of_a.release_ms
}

fn notes() -> Vec<String> {
    [
        "Each network is a trace that `sangam sim trace write` generates (seed 1); the emulator \
         does to IP packets what it says. There is a broker at every place, linked as the trace \
         has links, and one stream of 100 packets/s from every sender, 200 bytes each on the wire. \
         sim_ and study_ columns are what `sangam sim run replay` says of the same trace. The \
         first fifth does not count in either. Delays are means over all packets of all sessions.",
        "direct: all weights are equal; a link in doubt has a detour all the same, which in t2 \
         links are whose delay rises by seconds. link-state: brokers as they come; the \
         simulator's `ours`. via, vcroute: brokers follow `sangam monitor --schedule`, which plans \
         a tree for each origin every second from round trips and jitter of links. sim_ is \
         `link-state-live`, `via-live` and `vcroute-live`, which measure, weigh, plan and wait as \
         brokers do; study_ is the study's `ours`, `via` and `vcroute`, which choose for each \
         packet and forget nothing. Live, ways may have any number \
         of relays, users of t2 may relay, and where a trace has no way back from a user it is as \
         the way there.",
        "Links know their long-term means beforehand in the simulator; live, links have these \
         means until the first packet.",
        "own_kbps is all that crosses all links without a stream (pings, map, and with a \
         scheduler reports and plans), own_busy_kbps the same with all streams, when links that \
         carry some are watched more closely, and own_percent its share then; IP headers included \
         in all. Plans are counted over the streams' time.",
    ]
    .map(str::to_owned)
    .to_vec()
}
