//! What interest is gathered by: the session a topic belongs to.

use core::fmt;
use std::sync::Arc;

use crate::{Filter, Topic};

/// A session's part of the topic tree: the first two levels of a topic (`tenant/session`), or the
/// only one; or [`Scope::WIDE`], the whole tree.
///
/// Brokers look for sources and join trees by scope, not by topic, so that what they know of each
/// other grows with sessions and not with people. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(Option<Arc<str>>);

impl Scope {
    /// The whole tree, for filters with a wildcard in their first two levels.
    pub const WIDE: Self = Self(None);

    /// The scope of a topic; never wide.
    #[must_use]
    pub fn of_topic(topic: &Topic) -> Self {
        Self(Some(head(topic.as_str()).into()))
    }

    /// The one scope in which all topics lie that the filter selects.
    #[must_use]
    pub fn of_filter(filter: &Filter) -> Self {
        let text = filter.as_str();
        // `a/b/#` selects `a/b` too, which has the same scope; `a/#` selects `a` and `a/b`.
        let wild = filter
            .levels()
            .take(2)
            .any(|level| matches!(level, "+" | "#"));
        Self((!wild).then(|| head(text).into()))
    }

    /// Reads what [`Self::as_str`] wrote; `None` if no topic has this scope.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::WIDE);
        }
        let topic = Topic::new(text).ok()?;
        let scope = Self::of_topic(&topic);
        (scope.as_str() == text).then_some(scope)
    }

    /// The levels with their separator; empty if wide.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether this is the whole tree.
    #[must_use]
    pub const fn is_wide(&self) -> bool {
        self.0.is_none()
    }

    /// The filter that selects everything in the scope.
    #[must_use]
    pub fn everything(&self) -> Filter {
        let text = match &self.0 {
            Some(text) => Filter::new(&format!("{text}/#")),
            None => Filter::new("#"),
        };
        // A scope of 254 or 255 bytes has no room for `/#` and is its only topic.
        text.unwrap_or_else(|_| Filter::literal(self.as_str()))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("#"))
    }
}

/// The first two levels.
fn head(text: &str) -> &str {
    let mut separators = text.match_indices('/');
    let second = separators.nth(1);
    second.map_or(text, |(at, _)| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_topic(text: &str) -> String {
        Scope::of_topic(&Topic::new(text).unwrap()).to_string()
    }

    fn of_filter(text: &str) -> String {
        Scope::of_filter(&Filter::new(text).unwrap()).to_string()
    }

    #[test]
    fn a_topic_belongs_to_its_first_two_levels() {
        assert_eq!(of_topic("acme/weekly/audio/anna"), "acme/weekly");
        assert_eq!(of_topic("acme/weekly"), "acme/weekly");
        assert_eq!(of_topic("chat"), "chat");
    }

    #[test]
    fn a_filter_selects_within_its_scope_or_is_wide() {
        assert_eq!(of_filter("acme/weekly/+/anna"), "acme/weekly");
        assert_eq!(of_filter("acme/weekly/#"), "acme/weekly");
        assert_eq!(of_filter("chat"), "chat");
        for wide in ["#", "+", "acme/#", "acme/+/audio", "+/weekly"] {
            assert_eq!(of_filter(wide), "#", "{wide}");
        }
    }

    #[test]
    fn a_scope_survives_its_text() {
        for text in ["", "acme/weekly", "chat"] {
            assert_eq!(Scope::from_text(text).unwrap().as_str(), text);
        }
        for not in ["acme/weekly/audio", "acme/#", "/"] {
            assert_eq!(Scope::from_text(not), None, "{not}");
        }
    }

    #[test]
    fn everything_selects_the_scope_itself_too() {
        let scope = Scope::from_text("acme/weekly").unwrap();
        for topic in ["acme/weekly", "acme/weekly/a/b"] {
            assert!(scope.everything().matches(&Topic::new(topic).unwrap()));
        }
        assert_eq!(Scope::WIDE.everything().as_str(), "#");
    }
}
