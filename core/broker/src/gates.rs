//! Gates: below which prefixes of topics only some may publish.
//!
//! A session's floors are kept here, not by its clients: whoever holds none may publish, and what
//! it sends goes nowhere. Gates come from session servers and stay as they are when those die.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sangam_model::{Class, Time, Topic};

/// Prefixes that one broker keeps gates for; past it the gate that was not heard of for the
/// longest time goes.
pub const GATES_MAX: usize = 16_384;
/// Levels that one gate may let through.
pub const OPEN_MAX: usize = 1_024;

/// What may be published below a prefix of topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicGate {
    /// Which holder of the session says so; a later one is believed, whatever an earlier still
    /// says.
    pub epoch: u64,
    /// Which of its words this is; a later one is believed.
    pub revision: u64,
    /// The next levels that are open; all, if none are given.
    pub open: Option<BTreeSet<String>>,
    /// What may be published there; anything, if it is not said. Who may speak shows no pictures.
    pub class: Option<Class>,
}

/// Every gate a broker was told of.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    gates: BTreeMap<Arc<str>, (TopicGate, Time)>,
    heard: BTreeSet<(Time, Arc<str>)>,
    refused: u64,
}

impl Gates {
    /// Takes a gate. Whether anything changed: not if it is known, older than what is known, or
    /// too large, which is counted.
    pub fn set(&mut self, now: Time, prefix: &Topic, gate: TopicGate) -> bool {
        if gate.open.as_ref().is_some_and(|open| open.len() > OPEN_MAX) {
            self.refused += 1;
            return false;
        }
        let prefix: Arc<str> = prefix.as_str().into();
        let order = |gate: &TopicGate| (gate.epoch, gate.revision);
        let mut changed = true;
        if let Some((known, at)) = self.gates.get(&prefix) {
            if order(&gate) < order(known) {
                self.refused += 1;
                return false;
            }
            changed = (&known.open, known.class) != (&gate.open, gate.class);
            self.heard.remove(&(*at, prefix.clone()));
        } else if self.gates.len() >= GATES_MAX
            && let Some((_, oldest)) = self.heard.pop_first()
        {
            self.refused += 1;
            self.gates.remove(&oldest);
        }
        self.heard.insert((now, prefix.clone()));
        self.gates.insert(prefix, (gate, now));
        changed
    }

    /// Whether what is published on this topic goes anywhere: no gate above it is closed to it, nor
    /// to media of this class.
    #[must_use]
    pub fn is_open(&self, topic: &Topic, class: Class) -> bool {
        if self.gates.is_empty() {
            return true;
        }
        let text = topic.as_str();
        let mut ends = text.match_indices('/').map(|(at, _)| at);
        let above = ends.all(|end| {
            let (prefix, below) = (&text[..end], &text[end + 1..]);
            let next = below.split('/').next().unwrap_or_default();
            self.lets(prefix, Some(next), class)
        });
        above && self.lets(text, None, class)
    }

    /// Whether anything was said of a prefix of this topic.
    #[must_use]
    pub fn know(&self, topic: &Topic) -> bool {
        let text = topic.as_str();
        let ends = text.match_indices('/').map(|(at, _)| at);
        let mut prefixes = ends.map(|end| &text[..end]).chain([text]);
        prefixes.any(|prefix| self.gates.contains_key(prefix))
    }

    /// Gates that were older than what was known, or too much.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Gates that are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.gates.len()
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gates.is_empty()
    }

    fn lets(&self, prefix: &str, next: Option<&str>, class: Class) -> bool {
        let Some((gate, _)) = self.gates.get(prefix) else {
            return true;
        };
        gate.open.as_ref().is_none_or(|open| {
            let fits = gate.class.is_none_or(|wanted| wanted == class);
            fits && next.is_some_and(|next| open.contains(next))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(text: &str) -> Topic {
        Topic::new(text).unwrap()
    }

    fn gate(revision: u64, open: &[&str]) -> TopicGate {
        TopicGate {
            epoch: 1,
            revision,
            open: Some(open.iter().map(|level| (*level).to_owned()).collect()),
            class: None,
        }
    }

    fn set(gates: &mut Gates, prefix: &str, gate: TopicGate) -> bool {
        gates.set(Time::ZERO, &topic(prefix), gate)
    }

    #[test]
    fn a_topic_is_open_if_every_gate_above_it_names_the_way() {
        let mut gates = Gates::default();
        set(&mut gates, "acme/weekly", gate(1, &["main"]));
        set(&mut gates, "acme/weekly/main/audio", gate(1, &["m1"]));
        for (text, open) in [
            ("acme/weekly/main/audio/m1", true),
            ("acme/weekly/main/audio/m1/high", true),
            ("acme/weekly/main/audio/m2", false),
            ("acme/weekly/main/audio", false),
            ("acme/weekly/main/data/m2", true),
            ("acme/weekly/other/audio/m1", false),
            ("acme/weekly", false),
            ("acme/weekly2/x", true),
            ("acme/daily/main/audio/m2", true),
        ] {
            assert_eq!(gates.is_open(&topic(text), Class::Audio), open, "{text}");
        }
    }

    #[test]
    fn a_gate_for_one_class_is_closed_to_others() {
        let mut gates = Gates::default();
        let sound = |revision| TopicGate {
            class: Some(Class::Audio),
            ..gate(revision, &["m1"])
        };
        assert!(set(&mut gates, "a/audio", sound(1)));
        let open = |gates: &Gates, class| gates.is_open(&topic("a/audio/m1/x"), class);
        assert!(open(&gates, Class::Audio));
        assert!(!open(&gates, Class::Video));
        assert!(set(&mut gates, "a/audio", gate(2, &["m1"])), "any class");
        assert!(open(&gates, Class::Video));
        let lifted = TopicGate {
            open: None,
            ..sound(3)
        };
        assert!(set(&mut gates, "a/audio", lifted));
        assert!(open(&gates, Class::Video));
    }

    #[test]
    fn an_earlier_holder_of_the_session_is_not_believed() {
        let mut gates = Gates::default();
        assert!(set(&mut gates, "a/b", gate(5, &["x"])));
        assert!(!set(&mut gates, "a/b", gate(4, &["y"])), "an older word");
        assert!(!set(&mut gates, "a/b", gate(6, &["x"])), "nothing new");
        let later = TopicGate {
            epoch: 2,
            ..gate(1, &["z"])
        };
        assert!(set(&mut gates, "a/b", later));
        assert!(!set(&mut gates, "a/b", gate(9, &["y"])), "an older holder");
        assert!(gates.is_open(&topic("a/b/z"), Class::Data));
        assert_eq!(gates.refused(), 2);
    }

    #[test]
    fn a_topic_is_known_once_a_prefix_of_it_was_spoken_of() {
        let mut gates = Gates::default();
        assert!(!gates.know(&topic("acme/weekly/main/audio/m1")));
        set(&mut gates, "acme/weekly", gate(1, &[]));
        for (text, known) in [
            ("acme/weekly/main/audio/m1", true),
            ("acme/weekly", true),
            ("acme/weekly2/main", false),
            ("acme", false),
        ] {
            assert_eq!(gates.know(&topic(text)), known, "{text}");
        }
    }

    #[test]
    fn a_lifted_gate_lets_everything_through() {
        let mut gates = Gates::default();
        set(&mut gates, "a/b", gate(1, &[]));
        assert!(!gates.is_open(&topic("a/b/c"), Class::Data));
        let lifted = TopicGate {
            epoch: 1,
            revision: 2,
            open: None,
            class: None,
        };
        assert!(set(&mut gates, "a/b", lifted));
        assert!(
            gates.is_open(&topic("a/b/c"), Class::Data)
                && gates.is_open(&topic("a/b"), Class::Data)
        );
    }

    #[test]
    fn gates_are_bounded_and_the_longest_unheard_goes() {
        let mut gates = Gates::default();
        for number in 0..GATES_MAX as u64 {
            let at = Time::from_millis(number);
            gates.set(at, &topic(&format!("a/{number}")), gate(1, &[]));
        }
        // Heard again: not the oldest any more.
        gates.set(Time::NEVER, &topic("a/0"), gate(1, &[]));
        gates.set(Time::NEVER, &topic("a/new"), gate(1, &[]));
        assert_eq!(gates.len(), GATES_MAX);
        assert!(
            !gates.is_open(&topic("a/0/x"), Class::Data)
                && gates.is_open(&topic("a/1/x"), Class::Data)
        );
        let many: Vec<_> = (0..=OPEN_MAX).map(|n| n.to_string()).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert!(!set(&mut gates, "b", gate(1, &many)));
    }
}
