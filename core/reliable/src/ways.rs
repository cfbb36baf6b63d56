//! Who can be reached.

use std::collections::BTreeMap;

use sangam_model::BrokerId;

/// A broker that can be reached, the keeper's own among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The broker.
    pub to: BrokerId,
    /// Another number: the way is another one, or the broker has started anew. What was on its way
    /// may be lost then, and is said again at once.
    pub mark: u64,
    /// It keeps reliable topics.
    pub keeps: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    /// By their marks.
    pub(crate) reachable: BTreeMap<BrokerId, u64>,
    /// Those that came, or whose marks are others, with the last change.
    pub(crate) changed: Vec<BrokerId>,
}

impl Ways {
    /// Takes the ways as they are now; whether any is another.
    pub(crate) fn replace(&mut self, ways: &[Way]) -> bool {
        let marks = ways.iter().map(|way| (way.to, way.mark));
        let before = core::mem::replace(&mut self.reachable, marks.collect());
        let news = self.reachable.iter();
        let news = news.filter(|(to, mark)| before.get(to) != Some(*mark));
        self.changed = news.map(|(to, _)| *to).collect();
        self.reachable != before
    }
}
