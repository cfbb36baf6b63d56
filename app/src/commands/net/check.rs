//! `sangam net check`: bounds on measures, for scripts.

use std::str::FromStr;

use sangam_control::monitor::{BROKER, LINK, Measure, NETWORK, Network};
use serde::Serialize;
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::output;

/// Whether a value keeps to its bound.
type Compare = fn(f64, f64) -> bool;

/// How a value and its bound compare; the two-letter ones first, as the others are their starts.
const OPERATORS: [(&str, Compare); 6] = [
    ("<=", |a, b| a <= b),
    (">=", |a, b| a >= b),
    ("!=", |a, b| a != b),
    ("<", |a, b| a < b),
    (">", |a, b| a > b),
    ("=", |a, b| a == b),
];

/// One bound: `link.loss_ppm<20000`.
struct Bound {
    text: String,
    measure: Named,
    holds: Compare,
    value: f64,
}

/// What is measured.
enum Named {
    Link(usize),
    Broker(usize),
    Network(usize),
}

/// Where a bound does not hold.
#[derive(Serialize)]
struct Miss {
    expression: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    broker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    /// `null` if it is not measured.
    value: Option<f64>,
}

/// Fails with the code for a missed threshold unless every expression holds everywhere.
pub(super) fn run(network: &Network, expressions: &[String], json: bool) -> Result<(), Failure> {
    let bounds: Result<Vec<Bound>, _> = expressions.iter().map(|text| text.parse()).collect();
    let bounds = bounds.map_err(|message: String| Failure::new(Exit::Usage, message))?;
    let misses: Vec<Miss> = bounds
        .iter()
        .flat_map(|bound| bound.misses(network))
        .collect();
    if json {
        output::json_line(&json!({ "ok": misses.is_empty(), "missed": misses }));
    }
    if misses.is_empty() {
        if !json {
            output::line(&format!("{} of {} hold", bounds.len(), bounds.len()));
        }
        return Ok(());
    }
    let lines: Vec<_> = misses.iter().map(ToString::to_string).collect();
    Err(Failure::new(Exit::Threshold, lines.join("\n")))
}

/// The bounds alone, before anybody is asked.
pub(super) fn validate(expressions: &[String]) -> Result<(), Failure> {
    for text in expressions {
        text.parse::<Bound>()
            .map_err(|message| Failure::new(Exit::Usage, message))?;
    }
    Ok(())
}

impl Bound {
    fn misses(&self, network: &Network) -> Vec<Miss> {
        let mut misses = Vec::new();
        let mut look = |value: Option<f64>, broker: Option<String>, peer: Option<String>| {
            if !value.is_some_and(|value| (self.holds)(value, self.value)) {
                let expression = self.text.clone();
                misses.push(Miss {
                    expression,
                    broker,
                    peer,
                    value,
                });
            }
        };
        if let Named::Network(at) = self.measure {
            look((NETWORK[at].of)(&network.summary), None, None);
            return misses;
        }
        for view in network.brokers.iter().filter(|view| !view.stale) {
            let broker = Some(network.label(view.report.broker));
            match self.measure {
                Named::Broker(at) => look((BROKER[at].of)(&view.report), broker, None),
                Named::Link(at) => {
                    for link in &view.report.links {
                        let peer = link.peer.map(|peer| network.label(peer));
                        let peer = peer.unwrap_or_else(|| link.address.clone());
                        look((LINK[at].of)(link), broker.clone(), Some(peer));
                    }
                }
                Named::Network(_) => {}
            }
        }
        misses
    }
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?}: write MEASURE, one of < <= > >= = != and a number: link.rtt_us<50000"
            )
        };
        let at = text.find(['<', '>', '=', '!']).ok_or_else(wrong)?;
        let (name, rest) = text.split_at(at);
        let operator = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign));
        let (sign, holds) = operator.ok_or_else(wrong)?;
        let value = rest[sign.len()..].trim().parse().map_err(|_| wrong())?;
        let measure = named(name.trim()).ok_or_else(|| unknown(name.trim()))?;
        Ok(Self {
            text: text.to_owned(),
            measure,
            holds: *holds,
            value,
        })
    }
}

fn named(name: &str) -> Option<Named> {
    fn place<T>(table: &[Measure<T>], name: &str) -> Option<usize> {
        table.iter().position(|measure| measure.name == name)
    }
    let (kind, name) = name.split_once('.')?;
    match kind {
        "link" => place(&LINK, name).map(Named::Link),
        "broker" => place(&BROKER, name).map(Named::Broker),
        "network" => place(&NETWORK, name).map(Named::Network),
        _ => None,
    }
}

fn unknown(name: &str) -> String {
    let links = LINK.iter().map(|one| format!("link.{}", one.name));
    let brokers = BROKER.iter().map(|one| format!("broker.{}", one.name));
    let network = NETWORK.iter().map(|one| format!("network.{}", one.name));
    let all: Vec<_> = links.chain(brokers).chain(network).collect();
    format!("there is no measure {name:?}, but: {}", all.join(", "))
}

impl std::fmt::Display for Miss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "missed: {}", self.expression)?;
        if let Some(broker) = &self.broker {
            write!(f, " at {broker}")?;
        }
        if let Some(peer) = &self.peer {
            write!(f, " towards {peer}")?;
        }
        match self.value {
            Some(value) => write!(f, ": {value}"),
            None => f.write_str(": not measured"),
        }
    }
}

#[cfg(test)]
mod tests {
    use sangam_control::monitor::{BrokerReport, BrokerView, LinkReport};

    use super::*;

    fn network() -> Network {
        let link = |rtt_us| LinkReport {
            address: "[::1]:1".to_owned(),
            rtt_us,
            up: true,
            ..LinkReport::default()
        };
        let report = BrokerReport {
            name: "oslo".to_owned(),
            links: vec![link(Some(900)), link(None)],
            ..BrokerReport::default()
        };
        let view = BrokerView {
            report,
            ..BrokerView::default()
        };
        Network::new("test", 0, vec![view])
    }

    fn misses(text: &str) -> usize {
        text.parse::<Bound>().unwrap().misses(&network()).len()
    }

    #[test]
    fn bounds_hold_for_each_link_and_broker_or_are_missed() {
        assert_eq!(misses("link.up=1"), 0);
        assert_eq!(misses("link.rtt_us<1000"), 1, "what is not measured misses");
        assert_eq!(misses("link.rtt_us<=899"), 2);
        assert_eq!(misses("broker.links_up >= 2"), 0);
        assert_eq!(misses("network.brokers>=2"), 1);
    }

    #[test]
    fn a_missed_bound_has_its_own_exit_code_and_says_where() {
        let missed = run(&network(), &["link.rtt_us>1000".to_owned()], false).unwrap_err();
        assert_eq!(missed.exit, Exit::Threshold);
        assert!(
            missed.message.contains("at oslo towards [::1]:1: 900"),
            "{missed}"
        );
    }

    #[test]
    fn what_is_no_bound_is_refused_with_a_way_out() {
        for (text, word) in [
            ("link.rtt_us", "50000"),
            ("link.rtt_us<", "50000"),
            ("link.colour=1", "link.rtt_us"),
            ("=1", "link.rtt_us"),
        ] {
            let error = text.parse::<Bound>().err().unwrap();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
