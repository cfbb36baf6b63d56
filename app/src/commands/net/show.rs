//! The network as text for people.

use std::fmt::Write;

use sangam_control::monitor::{BrokerView, CLOCK_TOLERANCE, Graph, LinkReport, Network, Tree};
use sangam_model::BrokerId;

use crate::commands::table::render;

/// What stands where nothing is measured.
const UNKNOWN: &str = "-";

/// The tree from one broker, and the links beside it.
pub(super) fn map(network: &Network, root: BrokerId) -> String {
    let graph = Graph::of(network);
    let tree = graph.tree(root);
    let mut text = format!("{}\n", line(network, root, None));
    branch(&mut text, (network, &tree), root, "");
    let beside = beside(network, &graph, &tree);
    if !beside.is_empty() {
        text += "\nlinks beside this tree:\n";
        for (a, b) in beside {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "  {} -- {}{}",
                network.label(a),
                network.label(b),
                cost(network, a, b)
            );
        }
    }
    let apart = network
        .brokers
        .iter()
        .filter(|view| tree.cost(view.report.broker).is_none());
    for view in apart {
        let why = if view.stale { "silent" } else { "no way to it" };
        let _ = writeln!(
            text,
            "\n{} ({why})",
            line(network, view.report.broker, None)
        );
    }
    text + &clocks(network)
}

/// A line for each clock that is wrong.
fn clocks(network: &Network) -> String {
    let mut text = String::new();
    let own = network.clock_off_ms.unwrap_or_default();
    if u128::from(own.unsigned_abs()) > CLOCK_TOLERANCE.as_millis() {
        let _ = writeln!(
            text,
            "\nthis host's clock is off most brokers' by {}",
            offset(own)
        );
    }
    for view in network.brokers.iter().filter(|view| view.clock_wrong) {
        let off = offset(view.report.clock_off_ms.unwrap_or_default());
        let _ = writeln!(
            text,
            "\nthe clock of {} is off by {off}",
            network.label(view.report.broker)
        );
    }
    text
}

fn offset(ms: i64) -> String {
    format!("{:+.1} s", ms as f64 / 1e3)
}

/// Everything behind a broker, each line with its place in the tree before it.
fn branch(text: &mut String, (network, tree): (&Network, &Tree), at: BrokerId, before: &str) {
    let children: Vec<_> = tree.children(at).collect();
    for (place, child) in (1..).zip(&children) {
        let last = place == children.len();
        let (mark, under) = if last {
            ("└── ", "    ")
        } else {
            ("├── ", "│   ")
        };
        let _ = writeln!(text, "{before}{mark}{}", line(network, *child, Some(at)));
        branch(text, (network, tree), *child, &format!("{before}{under}"));
    }
}

fn line(network: &Network, broker: BrokerId, parent: Option<BrokerId>) -> String {
    let way = parent.map_or(String::new(), |parent| cost(network, parent, broker));
    let Some(view) = view(network, broker) else {
        return format!("{broker} (does not report){way}");
    };
    let report = &view.report;
    let name = match report.name.as_str() {
        "" => broker.to_string(),
        name => format!("{name} {broker}"),
    };
    let load = percent(report.load.cpu_share);
    format!("{name}{way}  {} clients, {load} cpu", report.clients)
}

/// What a link between two brokers costs, as the first of them has it.
fn cost(network: &Network, from: BrokerId, to: BrokerId) -> String {
    let link = |a, b| {
        let links = &view(network, a)?.report.links;
        links.iter().find(|link| link.peer == Some(b) && link.up)
    };
    let Some(link) = link(from, to).or_else(|| link(to, from)) else {
        return String::new();
    };
    let weight = weight(link).map(|weight| format!(", weight {weight}"));
    format!("  [{}{}]", ms(link.rtt_us), weight.unwrap_or_default())
}

/// With who fixed it, if it is not measured.
fn weight(link: &LinkReport) -> Option<String> {
    let weight = link.weight?;
    let by = link.pinned_by.as_deref().map(|by| format!(" ({by})"));
    Some(format!("{weight}{}", by.unwrap_or_default()))
}

/// Links between brokers that reach each other, but not by this tree.
fn beside(network: &Network, graph: &Graph, tree: &Tree) -> Vec<(BrokerId, BrokerId)> {
    let mut found = Vec::new();
    for view in &network.brokers {
        let a = view.report.broker;
        for (b, _) in graph.neighbours(a) {
            let pair = (a.min(b), a.max(b));
            let within = tree.parent(a) == Some(b) || tree.parent(b) == Some(a);
            if !within && !found.contains(&pair) {
                found.push(pair);
            }
        }
    }
    found
}

fn view(network: &Network, broker: BrokerId) -> Option<&BrokerView> {
    network
        .brokers
        .iter()
        .find(|view| view.report.broker == broker)
}

/// Every end of a link.
pub(super) fn links(network: &Network) -> String {
    let head = [
        "BROKER", "PEER", "STATE", "VIA", "WEIGHT", "RTT", "JITTER", "LOSS", "CAPACITY", "IN",
        "OUT", "QUEUE", "DROPPED", "AGE",
    ];
    let rows = network.brokers.iter().flat_map(|view| {
        let broker = network.label(view.report.broker);
        view.report.links.iter().map(move |link| {
            let peer = link.peer.map(|peer| network.label(peer));
            let ends = [broker.clone(), peer.unwrap_or_else(|| link.address.clone())];
            [ends.to_vec(), cells(link, view.stale)].concat()
        })
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return "no links\n".to_owned();
    }
    render(&head, &rows)
}

fn cells(link: &LinkReport, stale: bool) -> Vec<String> {
    let state = match (stale, link.up, link.suspect) {
        (true, ..) => "stale",
        (_, false, _) => "down",
        (_, true, Some(true)) => "suspect",
        (_, true, _) => "up",
    };
    let loss = link
        .loss_ppm
        .map(|ppm| format!("{:.2} %", f64::from(ppm) / 1e4));
    vec![
        state.to_owned(),
        link.transport.clone(),
        weight(link).unwrap_or_else(|| UNKNOWN.to_owned()),
        ms(link.rtt_us),
        ms(link.jitter_us),
        loss.unwrap_or_else(|| UNKNOWN.to_owned()),
        bits(link.bandwidth_bps),
        bits(link.in_bps),
        bits(link.out_bps),
        ms(link.queue_us),
        known(link.dropped_packets),
        seconds(link.age_ms),
    ]
}

/// Every broker.
pub(super) fn brokers(network: &Network) -> String {
    let head = [
        "BROKER", "ID", "STATE", "VERSION", "UP", "CLIENTS", "STREAMS", "LINKS", "KNOWS", "CPU",
        "MEMORY", "DROPS/S", "CLOCK", "AGE",
    ];
    let rows: Vec<_> = network.brokers.iter().map(broker).collect();
    render(&head, &rows) + &clocks(network)
}

fn broker(view: &BrokerView) -> Vec<String> {
    let report = &view.report;
    let state = match (view.stale, report.draining, view.clock_wrong) {
        (true, ..) => "stale",
        (_, true, _) => "draining",
        (.., true) => "clock",
        _ => "ok",
    };
    let up = report.links.iter().filter(|link| link.up).count();
    let memory = report.load.memory_bytes;
    vec![
        report.name.clone(),
        report.broker.to_string(),
        state.to_owned(),
        report.version.clone(),
        span(report.uptime_s),
        report.clients.to_string(),
        report.streams.to_string(),
        format!("{up}/{}", report.links.len()),
        report.map.brokers.to_string(),
        percent(report.load.cpu_share),
        memory.map_or_else(
            || UNKNOWN.to_owned(),
            |bytes| format!("{} MiB", bytes >> 20),
        ),
        report.traffic.dropped_per_s.to_string(),
        report
            .clock_off_ms
            .map_or_else(|| UNKNOWN.to_owned(), offset),
        seconds(report.age_ms),
    ]
}

fn seconds(ms: u64) -> String {
    format!("{:.1} s", ms as f64 / 1e3)
}

fn known(value: Option<impl ToString>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string())
}

fn percent(share: Option<f64>) -> String {
    let text = share.map(|share| format!("{:.0} %", share * 100.0));
    text.unwrap_or_else(|| UNKNOWN.to_owned())
}

pub(super) fn ms(us: Option<u64>) -> String {
    let text = us.map(|us| format!("{:.1} ms", us as f64 / 1e3));
    text.unwrap_or_else(|| UNKNOWN.to_owned())
}

fn bits(bps: Option<u64>) -> String {
    let Some(bps) = bps else {
        return UNKNOWN.to_owned();
    };
    match bps as f64 {
        high if high >= 1e9 => format!("{:.1} Gb/s", high / 1e9),
        high if high >= 1e6 => format!("{:.1} Mb/s", high / 1e6),
        low => format!("{:.1} kb/s", low / 1e3),
    }
}

fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}
