//! Which ways streams take.

use sangam_wire::PlanMethod;
use serde::{Deserialize, Serialize};

/// Who says by which neighbour a stream comes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Routing {
    pub(crate) method: RoutingMethod,
}

/// By what ways are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RoutingMethod {
    /// Each broker by the weights of the map.
    #[default]
    LinkState,
    /// A scheduler by Thompson sampling on the predicted end-to-end latency.
    #[serde(rename = "vcroute")]
    VcRoute,
    /// A scheduler by upper confidence bounds on the transmit latency.
    Via,
}

impl RoutingMethod {
    /// Whose plans are followed, if any.
    pub(crate) const fn plans(self) -> Option<PlanMethod> {
        match self {
            Self::LinkState => None,
            Self::VcRoute => Some(PlanMethod::VcRoute),
            Self::Via => Some(PlanMethod::Via),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn methods_go_by_the_names_of_their_plans() {
        for (text, plans) in [
            ("link-state", None),
            ("vcroute", Some("vcroute")),
            ("via", Some("via")),
        ] {
            let text = format!("[routing]\nmethod = \"{text}\"");
            let config: Config = toml::from_str(&text).unwrap();
            assert_eq!(config.routing.method.plans().map(PlanMethod::name), plans);
        }
        assert!(toml::from_str::<Config>("[routing]\nmethod = \"ours\"").is_err());
    }
}
