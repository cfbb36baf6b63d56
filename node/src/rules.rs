//! What operators say about links with certain brokers.

use std::collections::{BTreeMap, BTreeSet};

use sangam_broker::PinnedBy;
use sangam_model::BrokerId;

/// Brokers that may be forbidden, by configuration and by command together.
pub const FORBIDDEN_MAX: usize = 1_024;

/// What the configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkRules {
    /// What crossing the link to a broker costs, `1..=65,535`, whatever is measured; at most
    /// [`sangam_broker::PINS_MAX`].
    pub weights: BTreeMap<BrokerId, u16>,
    /// Brokers with which there is no link; at most [`FORBIDDEN_MAX`].
    pub forbidden: BTreeSet<BrokerId>,
}

/// Something said about links.
#[derive(Debug)]
pub(crate) enum LinkRule {
    /// By the configuration, in place of all it said before.
    Configured(LinkRules),
    /// A weight, or none any more.
    Weigh(BrokerId, PinnedBy, Option<u16>),
    /// By command: a link with this broker is forbidden, or allowed.
    Forbid(BrokerId, bool),
}

/// What holds about links now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesInForce {
    /// Fixed weights, whether or not there is a link, and by whom.
    pub weights: Vec<(BrokerId, u16, PinnedBy)>,
    /// Brokers with which there is no link, and whether a command says so.
    pub forbidden: Vec<(BrokerId, bool)>,
}
