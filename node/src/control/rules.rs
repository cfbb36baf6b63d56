//! What operators and thresholds say about links, and who outranks whom.

use std::collections::{BTreeMap, BTreeSet};

use sangam_broker::PinnedBy;
use sangam_io::clock;
use sangam_model::BrokerId;

use super::Control;
use crate::command::LaneCommand;
use crate::rules::{FORBIDDEN_MAX, LinkRule, LinkRules, RulesInForce};

/// Brokers with which there is no link.
#[derive(Debug, Default)]
pub(super) struct Forbidden {
    configured: BTreeSet<BrokerId>,
    /// Forbidden or allowed by command, where that differs from the configuration.
    commanded: BTreeMap<BrokerId, bool>,
}

impl Forbidden {
    fn configure(&mut self, brokers: BTreeSet<BrokerId>) {
        self.configured = brokers;
        let configured = &self.configured;
        self.commanded
            .retain(|id, forbidden| configured.contains(id) != *forbidden);
    }

    /// Whether there was room.
    fn command(&mut self, id: BrokerId, forbidden: bool) -> bool {
        if self.configured.contains(&id) == forbidden {
            self.commanded.remove(&id);
            return true;
        }
        let all = self.configured.len() + self.commanded.len();
        let room = all < FORBIDDEN_MAX || self.commanded.contains_key(&id);
        if room {
            self.commanded.insert(id, forbidden);
        }
        room
    }

    /// All of them, and whether by command.
    fn all(&self) -> impl Iterator<Item = (BrokerId, bool)> + '_ {
        let configured = self.configured.iter();
        let configured = configured.filter(|id| self.commanded.get(id) != Some(&false));
        let commanded = self.commanded.iter().filter(|(_, forbidden)| **forbidden);
        let commanded = commanded.map(|(id, _)| (*id, true));
        configured.map(|id| (*id, false)).chain(commanded)
    }
}

impl Control {
    pub(super) fn rule(&mut self, rule: LinkRule) {
        match rule {
            LinkRule::Configured(rules) => {
                self.weigh_as_configured(&rules);
                self.forbidden.configure(rules.forbidden);
                self.forbid();
            }
            LinkRule::Weigh(peer, by, weight) => self.pin(peer, (by, weight)),
            LinkRule::Forbid(id, forbidden) => {
                if self.forbidden.command(id, forbidden) {
                    self.forbid();
                } else {
                    tracing::warn!(broker = %id, "too many brokers are forbidden");
                }
            }
        }
    }

    pub(super) fn link_rules(&self) -> RulesInForce {
        RulesInForce {
            weights: self.routing.pins().collect(),
            forbidden: self.forbidden.all().collect(),
        }
    }

    fn weigh_as_configured(&mut self, rules: &LinkRules) {
        let gone = self.routing.pinned_by(PinnedBy::Configuration);
        let gone: Vec<_> = gone.filter(|id| !rules.weights.contains_key(id)).collect();
        for peer in gone {
            self.pin(peer, (PinnedBy::Configuration, None));
        }
        for (peer, weight) in &rules.weights {
            self.pin(*peer, (PinnedBy::Configuration, Some(*weight)));
        }
    }

    fn pin(&mut self, peer: BrokerId, pin: (PinnedBy, Option<u16>)) {
        if !self.routing.pin(clock::now(), peer, pin) {
            tracing::warn!(broker = %peer, "too many brokers have fixed weights");
        }
    }

    /// Tells those who make links and who take them.
    fn forbid(&mut self) {
        let all: BTreeSet<_> = self.forbidden.all().map(|(id, _)| id).collect();
        if let Some(organiser) = &mut self.parts.organiser {
            organiser.forbid(all.clone());
        }
        // The lane has stopped only when the whole broker stops.
        let _ = self.parts.lane.0.send(LaneCommand::Forbid(all));
        self.parts.lane.1.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: BrokerId = BrokerId(1);
    const B: BrokerId = BrokerId(2);

    fn all(forbidden: &Forbidden) -> Vec<(BrokerId, bool)> {
        forbidden.all().collect()
    }

    #[test]
    fn a_command_outranks_the_configuration_until_both_say_the_same() {
        let mut forbidden = Forbidden::default();
        forbidden.configure([A].into());
        assert!(forbidden.command(A, false) && forbidden.command(B, true));
        assert_eq!(all(&forbidden), [(B, true)]);
        forbidden.configure([A, B].into());
        assert_eq!(all(&forbidden), [(B, false)], "read again");
        assert!(forbidden.command(A, true));
        assert_eq!(all(&forbidden), [(A, false), (B, false)]);
    }

    #[test]
    fn past_the_bound_nobody_more_is_forbidden() {
        let mut forbidden = Forbidden::default();
        let most = FORBIDDEN_MAX as u32;
        assert!((0..most).all(|n| forbidden.command(BrokerId(n), true)));
        assert!(!forbidden.command(BrokerId(most), true));
        assert!(forbidden.command(BrokerId(0), false));
        assert!(forbidden.command(BrokerId(most), true));
    }
}
