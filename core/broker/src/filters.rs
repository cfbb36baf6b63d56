//! Who wants a topic: a trie of filters, one level of the topic per level of the trie.

use std::collections::{BTreeMap, BTreeSet};

use sangam_model::limits::TOPIC_LEVELS_MAX;
use sangam_model::{Filter, Topic};

/// Filters with the keys (peers, shards, brokers) that hold them.
///
/// Ordered maps instead of hashed ones: hostile texts cannot make them collide, and every run is
/// the same.
#[derive(Debug)]
pub struct FilterIndex<K> {
    nodes: Vec<Node<K>>,
    free: Vec<usize>,
    len: usize,
    max: usize,
}

/// What became of a [`FilterIndex::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    /// It is new.
    Added,
    /// This key held this filter already.
    Present,
    /// The index holds as many pairs as it may; nothing changed.
    Full,
}

#[derive(Debug)]
struct Node<K> {
    /// `+` stands among the names: no topic has a level of that name.
    children: BTreeMap<Box<str>, usize>,
    /// Keys whose filter ends here.
    here: BTreeSet<K>,
    /// Keys whose filter ends here with `#`.
    rest: BTreeSet<K>,
}

const ROOT: usize = 0;

impl<K: Copy + Ord> FilterIndex<K> {
    /// An empty index for at most `max` pairs of filter and key.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            nodes: vec![Node::new()],
            free: Vec::new(),
            len: 0,
            max,
        }
    }

    /// Pairs of filter and key.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nobody wants anything.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Nodes of the trie in use: at most one for each level of each filter, and the root.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Notes that `key` holds `filter`.
    pub fn insert(&mut self, filter: &Filter, key: K) -> Insert {
        if self.contains(filter, key) {
            return Insert::Present;
        }
        if self.len >= self.max {
            return Insert::Full;
        }
        let (names, rest) = split(filter);
        let mut at = ROOT;
        for name in names {
            at = self.child(at, name);
        }
        self.nodes[at].keys(rest).insert(key);
        self.len += 1;
        Insert::Added
    }

    /// Forgets that `key` holds `filter`; whether it did.
    pub fn remove(&mut self, filter: &Filter, key: K) -> bool {
        let (names, rest) = split(filter);
        let mut way = [(ROOT, ""); TOPIC_LEVELS_MAX];
        let mut depth = 0;
        let mut at = ROOT;
        for name in names {
            let Some(&next) = self.nodes[at].children.get(name) else {
                return false;
            };
            way[depth] = (at, name);
            depth += 1;
            at = next;
        }
        if !self.nodes[at].keys(rest).remove(&key) {
            return false;
        }
        self.len -= 1;
        for &(parent, name) in way[..depth].iter().rev() {
            if !self.nodes[at].is_empty() {
                break;
            }
            self.nodes[parent].children.remove(name);
            self.free.push(at);
            at = parent;
        }
        true
    }

    /// Replaces `found` by the keys with a filter that selects `topic`, in order, each once.
    pub fn matches(&self, topic: &Topic, found: &mut Vec<K>) {
        found.clear();
        let mut levels = [""; TOPIC_LEVELS_MAX];
        let mut depth = 0;
        for (slot, level) in levels.iter_mut().zip(topic.levels()) {
            *slot = level;
            depth += 1;
        }
        let levels = &levels[..depth];
        if levels.first().is_some_and(|level| level.starts_with('$')) {
            // A wildcard in the first place leaves the system's topics alone.
            if let Some(&next) = self.nodes[ROOT].children.get(levels[0]) {
                self.collect(next, &levels[1..], found);
            }
        } else {
            self.collect(ROOT, levels, found);
        }
        found.sort_unstable();
        found.dedup();
    }

    fn collect(&self, at: usize, levels: &[&str], found: &mut Vec<K>) {
        let node = &self.nodes[at];
        found.extend(&node.rest);
        let Some((first, rest)) = levels.split_first() else {
            found.extend(&node.here);
            return;
        };
        for name in [first, "+"] {
            if let Some(&next) = node.children.get(name) {
                self.collect(next, rest, found);
            }
        }
    }

    fn contains(&self, filter: &Filter, key: K) -> bool {
        let (mut names, rest) = split(filter);
        names
            .try_fold(ROOT, |at, name| self.nodes[at].children.get(name).copied())
            .is_some_and(|at| {
                let node = &self.nodes[at];
                if rest {
                    node.rest.contains(&key)
                } else {
                    node.here.contains(&key)
                }
            })
    }

    fn child(&mut self, at: usize, name: &str) -> usize {
        if let Some(&next) = self.nodes[at].children.get(name) {
            return next;
        }
        let next = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(Node::new());
            self.nodes.len() - 1
        });
        self.nodes[at].children.insert(name.into(), next);
        next
    }
}

impl<K: Ord> Node<K> {
    const fn new() -> Self {
        Self {
            children: BTreeMap::new(),
            here: BTreeSet::new(),
            rest: BTreeSet::new(),
        }
    }

    const fn keys(&mut self, rest: bool) -> &mut BTreeSet<K> {
        if rest { &mut self.rest } else { &mut self.here }
    }

    fn is_empty(&self) -> bool {
        self.children.is_empty() && self.here.is_empty() && self.rest.is_empty()
    }
}

/// The levels before a closing `#`, and whether there is one.
fn split(filter: &Filter) -> (impl Iterator<Item = &str>, bool) {
    let rest = filter.as_str() == "#" || filter.as_str().ends_with("/#");
    (filter.levels().filter(|level| *level != "#"), rest)
}
