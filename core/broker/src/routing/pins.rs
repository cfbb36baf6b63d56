//! Weights of links that are not left to measurement, by neighbour: they hold whenever there is a
//! link to it, whichever number that has.

use std::collections::BTreeMap;

use sangam_model::BrokerId;

/// Neighbours with a fixed weight; further ones are left to measurement.
pub const PINS_MAX: usize = 1_024;

/// Who fixed a weight. A later one outranks those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PinnedBy {
    /// A threshold, until it is cleared.
    Threshold,
    /// The configuration.
    Configuration,
    /// An operator's command, until it is taken back.
    Command,
}

#[derive(Debug, Default)]
pub(super) struct Pins(BTreeMap<BrokerId, BTreeMap<PinnedBy, u16>>);

impl PinnedBy {
    /// As reports have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Threshold => "threshold",
            Self::Configuration => "configuration",
            Self::Command => "command",
        }
    }
}

impl Pins {
    /// Whether there was room.
    pub(super) fn set(&mut self, peer: BrokerId, by: PinnedBy, weight: Option<u16>) -> bool {
        let Some(weight) = weight else {
            if let Some(of_peer) = self.0.get_mut(&peer) {
                of_peer.remove(&by);
            }
            self.0.retain(|_, of_peer| !of_peer.is_empty());
            return true;
        };
        let room = self.0.len() < PINS_MAX || self.0.contains_key(&peer);
        if room {
            let of_peer = self.0.entry(peer).or_default();
            of_peer.insert(by, weight.max(1));
        }
        room
    }

    /// What holds for all.
    pub(super) fn all(&self) -> impl Iterator<Item = (BrokerId, u16, PinnedBy)> + '_ {
        let held = |id: &BrokerId| self.get(*id).map(|(by, weight)| (*id, weight, by));
        self.0.keys().filter_map(held)
    }

    /// Neighbours whose weight one has fixed, whether or not that holds.
    pub(super) fn of(&self, by: PinnedBy) -> impl Iterator<Item = BrokerId> + '_ {
        let of = self
            .0
            .iter()
            .filter(move |(_, held)| held.contains_key(&by));
        of.map(|(id, _)| *id)
    }

    /// What holds.
    pub(super) fn get(&self, peer: BrokerId) -> Option<(PinnedBy, u16)> {
        let (by, weight) = self.0.get(&peer)?.last_key_value()?;
        Some((*by, *weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_rank_holds_and_the_one_before_it_holds_again() {
        let (mut pins, peer) = (Pins::default(), BrokerId(7));
        for (by, weight) in [
            (PinnedBy::Command, 7),
            (PinnedBy::Threshold, 10_000),
            (PinnedBy::Configuration, 0),
        ] {
            assert!(pins.set(peer, by, Some(weight)));
        }
        let mut held = Vec::new();
        while let Some((by, weight)) = pins.get(peer) {
            held.push((by.name(), weight));
            pins.set(peer, by, None);
        }
        let expected = [("command", 7), ("configuration", 1), ("threshold", 10_000)];
        assert_eq!(held, expected);
        assert!(pins.0.is_empty());
    }

    #[test]
    fn past_the_bound_nothing_more_is_fixed() {
        let mut pins = Pins::default();
        let all = 0..PINS_MAX as u32;
        assert!(
            all.into_iter()
                .all(|n| pins.set(BrokerId(n), PinnedBy::Command, Some(1)))
        );
        let one_more = BrokerId(PINS_MAX as u32);
        assert!(!pins.set(one_more, PinnedBy::Command, Some(1)));
        assert!(pins.set(BrokerId(0), PinnedBy::Threshold, Some(1)));
        assert!(pins.set(BrokerId(1), PinnedBy::Command, None));
        assert!(pins.set(one_more, PinnedBy::Command, Some(1)));
    }
}
