//! The merged view: every broker's newest report, and sums over them.

use serde::{Deserialize, Serialize};

use super::report::BrokerReport;

/// The network as one node sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    /// [`super::SCHEMA`] of the writer.
    pub schema: u32,
    /// Who merged it.
    pub aggregator: String,
    /// Milliseconds since 1970 by the aggregator's clock.
    pub at_unix_ms: u64,
    /// How far that clock is ahead of the median of all, in milliseconds; absent if nobody reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_off_ms: Option<i64>,
    /// Sums over the brokers.
    pub summary: Summary,
    /// Every broker heard of in the last minute, in the order of their ids.
    pub brokers: Vec<BrokerView>,
}

/// One broker in the merged view.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrokerView {
    /// Its newest report; `age_ms` is its age at the aggregator.
    #[serde(flatten)]
    pub report: BrokerReport,
    /// No news for five seconds, or of a cell's broker for three of its beats.
    pub stale: bool,
    /// Its clock is off the median of all by more than two seconds.
    pub clock_wrong: bool,
    /// Its filters, streams and reasons of drops are not told here: its figures are a digest's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub digest: bool,
    /// The aggregation node or head of a cell that passed it on; absent if it came from the broker
    /// itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
}

/// Sums over the brokers that are not stale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Brokers that report.
    pub brokers: u64,
    /// Brokers that did within the last minute and do no more.
    pub stale: u64,
    /// Ends of links; a link between two brokers that report has two.
    pub links: u64,
    /// Those over which events flow.
    pub links_up: u64,
    /// Those over which none do.
    pub links_down: u64,
    /// Clients, legs and doors.
    pub clients: u64,
    /// Events delivered since the start of their brokers.
    pub delivered_packets: u64,
    /// Events dropped since then.
    pub dropped_packets: u64,
    /// Reports refused by the aggregator: malformed, from a stranger, or one too many.
    pub refused: u64,
    /// Brokers whose clocks are wrong.
    pub wrong_clocks: u64,
}

impl Network {
    /// The view of these brokers, of which the aggregator refused so many reports.
    #[must_use]
    pub fn new(aggregator: &str, at_unix_ms: u64, brokers: Vec<BrokerView>) -> Self {
        let mut summary = Summary::default();
        for view in &brokers {
            if view.stale {
                summary.stale += 1;
                continue;
            }
            let report = &view.report;
            let up = report.links.iter().filter(|link| link.up).count() as u64;
            summary.brokers += 1;
            summary.wrong_clocks += u64::from(view.clock_wrong);
            summary.links += report.links.len() as u64;
            summary.links_up += up;
            summary.links_down += report.links.len() as u64 - up;
            // What others report may be anything.
            let traffic = &report.traffic;
            for (sum, more) in [
                (&mut summary.clients, report.clients),
                (&mut summary.delivered_packets, traffic.delivered_packets),
                (&mut summary.dropped_packets, traffic.dropped_packets),
            ] {
                *sum = sum.saturating_add(more);
            }
        }
        Self {
            schema: super::SCHEMA,
            aggregator: aggregator.to_owned(),
            at_unix_ms,
            clock_off_ms: None,
            summary,
            brokers,
        }
    }

    /// The view as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a view holds only texts, numbers and lists")
    }

    /// What people call a broker: its name, or its id where it has none or shares it.
    #[must_use]
    pub fn label(&self, id: sangam_model::BrokerId) -> String {
        let named = self.brokers.iter().find(|view| view.report.broker == id);
        let name = named.map_or("", |view| view.report.name.as_str());
        let same = |view: &&BrokerView| view.report.name == name;
        if name.is_empty() || self.brokers.iter().filter(same).count() > 1 {
            return id.to_string();
        }
        name.to_owned()
    }
}
