//! The merged view in Prometheus' text format (version 0.0.4).

use std::fmt::Write;

use super::measures::{BROKER, LINK, Measure, NETWORK};
use super::network::Network;
use super::plans::PlanCounts;
use super::report::BrokerReport;

/// Its content type.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Ends of links shown: a thousand brokers with sixteen links each.
/// `sangam_network_link_ends_omitted` counts the others.
const LINKS_SHOWN: usize = 16_384;

/// Names and values of labels.
type Labels<'a> = [(&'static str, &'a str)];

/// Every measure of every broker and link.
#[must_use]
pub fn text(network: &Network) -> String {
    let mut out = String::new();
    for measure in &NETWORK {
        let value = (measure.of)(&network.summary);
        family(
            &mut out,
            ("sangam_network", measure),
            value.map(|value| (String::new(), value)),
        );
    }
    let views: Vec<_> = network
        .brokers
        .iter()
        .map(|view| (view, labels_of(&view.report)))
        .collect();
    for measure in &BROKER {
        let values = views
            .iter()
            .filter_map(|(view, labels)| Some((labels.clone(), (measure.of)(&view.report)?)));
        family(&mut out, ("sangam_network_broker", measure), values);
    }
    let fresh = views.iter().filter(|(view, _)| !view.stale);
    let ends: Vec<_> = fresh
        .flat_map(|(view, labels)| view.report.links.iter().map(move |link| (labels, link)))
        .collect();
    let shown = ends.iter().take(LINKS_SHOWN).map(|(labels, link)| {
        let peer = link.peer.map(|peer| peer.to_string()).unwrap_or_default();
        let more = [
            ("peer", peer.as_str()),
            ("address", &link.address),
            ("transport", &link.transport),
        ];
        (format!("{labels},{}", pairs(&more)), *link)
    });
    let shown: Vec<_> = shown.collect();
    for measure in &LINK {
        let values = shown
            .iter()
            .filter_map(|(labels, link)| Some((labels.clone(), (measure.of)(link)?)));
        family(&mut out, ("sangam_network_link", measure), values);
    }
    let omitted = ends.len() - shown.len();
    out += "# HELP sangam_network_link_ends_omitted Ends of links beyond those shown.\n";
    let _ = writeln!(
        out,
        "# TYPE sangam_network_link_ends_omitted gauge\nsangam_network_link_ends_omitted {omitted}"
    );
    out
}

/// What a scheduler's plans cost.
#[must_use]
pub fn plans(counts: &PlanCounts) -> String {
    let mut out = String::new();
    for (name, help, value) in [
        ("messages", "Messages of plans published.", counts.messages),
        (
            "bytes",
            "Their bytes, headers of events included.",
            counts.bytes,
        ),
        (
            "changed",
            "Trees told because they changed.",
            counts.changed,
        ),
        ("again", "Trees told again though unchanged.", counts.again),
    ] {
        let name = format!("sangam_plan_{name}_total");
        // As above.
        let _ = writeln!(
            out,
            "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}"
        );
    }
    out
}

/// One metric with all its series; nothing if there are none.
fn family<T>(
    out: &mut String,
    (prefix, measure): (&str, &Measure<T>),
    series: impl IntoIterator<Item = (String, f64)>,
) {
    let name = format!("{prefix}_{}", measure.metric);
    let mut empty = true;
    for (labels, value) in series {
        // Writing to a String cannot fail.
        if std::mem::take(&mut empty) {
            let kind = if measure.counter { "counter" } else { "gauge" };
            let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} {kind}", measure.help);
        }
        let value = value * measure.scale;
        if labels.is_empty() {
            let _ = writeln!(out, "{name} {value}");
        } else {
            let _ = writeln!(out, "{name}{{{labels}}} {value}");
        }
    }
}

fn labels_of(report: &BrokerReport) -> String {
    let broker = report.broker.to_string();
    pairs(&[("broker", &broker), ("name", &report.name)])
}

fn pairs(labels: &Labels<'_>) -> String {
    let pair = |(name, value): &(&str, &str)| {
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    };
    labels.iter().map(pair).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::{BrokerView, LinkReport};
    use sangam_model::BrokerId;

    fn view(broker: u32, links: usize) -> BrokerView {
        let link = LinkReport {
            rtt_us: Some(1_500),
            address: "[::1]:4600".to_owned(),
            transport: "udp".to_owned(),
            ..LinkReport::default()
        };
        let report = BrokerReport {
            broker: BrokerId(broker),
            name: "x\"y".to_owned(),
            links: vec![link; links],
            ..BrokerReport::default()
        };
        BrokerView {
            report,
            ..BrokerView::default()
        }
    }

    #[test]
    fn measures_are_in_base_units_under_their_labels() {
        let text = text(&Network::new("here", 0, vec![view(7, 1)]));
        for line in [
            "sangam_network_brokers 1",
            "# TYPE sangam_network_broker_clients gauge",
            "sangam_network_broker_clients{broker=\"00000007\",name=\"x\\\"y\"} 0",
            "sangam_network_link_rtt_seconds{broker=\"00000007\",name=\"x\\\"y\",peer=\"\",\
             address=\"[::1]:4600\",transport=\"udp\"} 0.0015",
            "sangam_network_link_ends_omitted 0",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is missing in\n{text}"
            );
        }
        assert!(!text.contains("jitter"), "what is not measured is absent");
    }

    #[test]
    fn plans_are_counted_in_messages_bytes_and_trees() {
        let text = plans(&PlanCounts {
            messages: 9,
            bytes: 1_000,
            changed: 3,
            again: 2,
        });
        let bytes = "# TYPE sangam_plan_bytes_total counter\nsangam_plan_bytes_total 1000\n";
        assert!(text.contains(bytes), "{text}");
        assert_eq!(text.lines().count(), 12);
    }

    #[test]
    fn a_large_network_shows_a_bounded_number_of_links() {
        let views = (0..LINKS_SHOWN as u32 / 64 + 1).map(|broker| view(broker, 64));
        let text = text(&Network::new("here", 0, views.collect()));
        assert_eq!(text.matches("sangam_network_link_up{").count(), LINKS_SHOWN);
        assert!(text.contains("sangam_network_link_ends_omitted 64\n"));
    }
}
