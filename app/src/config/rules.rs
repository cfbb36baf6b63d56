//! What holds for links with certain brokers, whichever way they go and whoever dials.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use sangam_control::monitor::parse_id;
use sangam_model::BrokerId;
use sangam_node::{FORBIDDEN_MAX, LinkRules, PINS_MAX};
use serde::{Deserialize, Serialize};

use super::{Config, Links};

/// A broker by its id: eight hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Id(pub(crate) BrokerId);

/// What crossing the link to a broker costs: `9f3c22d1=500`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Weight {
    pub(crate) broker: Id,
    /// `1..=65,535`
    pub(crate) weight: u16,
}

impl Config {
    /// The rules of a checked configuration.
    pub(crate) fn link_rules(&self) -> LinkRules {
        let weights = self.links.weights.iter();
        LinkRules {
            weights: weights.map(|one| (one.broker.0, one.weight)).collect(),
            forbidden: self.links.forbid.iter().map(|id| id.0).collect(),
        }
    }
}

impl Links {
    /// Which rules do not fit together, by their keys.
    pub(super) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut wrong = Vec::new();
        let mut weights = BTreeMap::new();
        for one in &self.weights {
            if weights.insert(one.broker, one.weight).is_some() {
                wrong.push(("weights", format!("{} stands there twice", one.broker)));
            }
        }
        for (key, all, most) in [
            ("weights", self.weights.len(), PINS_MAX),
            ("forbid", self.forbid.len(), FORBIDDEN_MAX),
        ] {
            if all > most {
                wrong.push((key, format!("at most {most} brokers")));
            }
        }
        wrong
    }
}

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let id = parse_id(text).map(Self);
        id.ok_or_else(|| format!("{text:?}: write a broker's id, such as 9f3c22d1; see /v1/broker"))
    }
}

impl FromStr for Weight {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: write ID=WEIGHT, such as 9f3c22d1=500, from 1 to 65535");
        let (broker, weight) = text.split_once('=').ok_or_else(wrong)?;
        let weight = weight.trim().parse().map_err(|_| wrong())?;
        let broker = broker.trim().parse()?;
        match weight {
            0 => Err(wrong()),
            _ => Ok(Self { broker, weight }),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.broker, self.weight)
    }
}

impl TryFrom<String> for Id {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Id> for String {
    fn from(id: Id) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for Weight {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Weight> for String {
    fn from(weight: Weight) -> Self {
        weight.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_brokers_by_their_ids() {
        let text =
            "[links]\nweights = [\"9f3c22d1=500\", \"0000000a = 1\"]\nforbid = [\"ffffffff\"]";
        let config: Config = toml::from_str(text).unwrap();
        let rules = config.link_rules();
        let weights = [(BrokerId(0x9f3c_22d1), 500), (BrokerId(10), 1)];
        assert_eq!(rules.weights, BTreeMap::from(weights));
        assert!(rules.forbidden.contains(&BrokerId(u32::MAX)));
        assert!(config.links.faults().is_empty());
    }

    #[test]
    fn what_is_no_rule_is_refused_and_a_broker_has_one_weight() {
        for text in [
            "9f3c22d1",
            "9f3c22d1=0",
            "9f3c22d1=65536",
            "9f3=5",
            "oslo=5",
        ] {
            assert!(text.parse::<Weight>().is_err(), "{text}");
        }
        let weights = ["0000000a=1", "0000000a=2"];
        let links = Links {
            weights: weights.iter().map(|text| text.parse().unwrap()).collect(),
            ..Links::default()
        };
        assert_eq!(links.faults()[0].0, "weights");
    }
}
