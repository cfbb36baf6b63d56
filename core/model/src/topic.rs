//! Hierarchical topics and the filters that select them.

use core::fmt;
use std::sync::Arc;

use crate::limits::{TOPIC_LEN_MAX, TOPIC_LEVELS_MAX};

/// A topic such as `acme/weekly/audio/anna`: 1 to 16 levels separated by `/`, at most 255 bytes.
///
/// The first level is the tenant. Levels are not empty and hold neither `+`, `#` nor control
/// characters. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

/// A topic in which a whole level may be `+` (any one level) and the last may be `#` (any number
/// of levels, also none).
///
/// A wildcard in the first place does not select topics whose first level starts with `$`: those
/// belong to the system. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter(Arc<str>);

/// First level of the topics on which brokers speak about themselves.
const SYSTEM: &str = "$sangam";

/// Below `tenant/session`: where a session server tells what happens there.
pub const SESSION_EVENTS: &str = "$events";

/// Why a text is no topic or filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopicError {
    /// Nothing there.
    Empty,
    /// More than 255 bytes.
    TooLong,
    /// More than 16 levels.
    TooDeep,
    /// Two separators in a row, or one at either end.
    EmptyLevel,
    /// A control character.
    Control,
    /// A wildcard in a topic, beside other characters, or `#` before the last level.
    Wildcard,
}

impl Topic {
    /// Checks and takes a text.
    ///
    /// # Errors
    /// The first rule it breaks.
    pub fn new(text: &str) -> Result<Self, TopicError> {
        check(text, |_, level| !level.contains(['+', '#']))?;
        Ok(Self(text.into()))
    }

    /// The topic as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The levels in order.
    pub fn levels(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// Whether it belongs to Sangam itself, which alone publishes there.
    #[must_use]
    pub fn is_system(&self) -> bool {
        self.tenant() == SYSTEM
    }

    /// Whether the events of a session are told here, which only brokers may.
    #[must_use]
    pub fn is_session_events(&self) -> bool {
        self.levels().nth(2) == Some(SESSION_EVENTS)
    }

    /// The first level.
    #[must_use]
    pub fn tenant(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }
}

impl Filter {
    /// Checks and takes a text.
    ///
    /// # Errors
    /// The first rule it breaks.
    pub fn new(text: &str) -> Result<Self, TopicError> {
        check(text, |last, level| match level {
            "+" => true,
            "#" => last,
            _ => !level.contains(['+', '#']),
        })?;
        Ok(Self(text.into()))
    }

    /// A filter that is known to break no rule.
    pub(crate) fn literal(text: &str) -> Self {
        Self(text.into())
    }

    /// The filter as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The levels in order.
    pub fn levels(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// Whether it selects `topic`.
    #[must_use]
    pub fn matches(&self, topic: &Topic) -> bool {
        let mut levels = topic.levels();
        let mut first = true;
        for want in self.levels() {
            let level = levels.next();
            let system = first && level.is_some_and(|l| l.starts_with('$'));
            match (want, level) {
                ("#", _) => return !system,
                ("+", Some(_)) if !system => {}
                (want, Some(level)) if want == level => {}
                _ => return false,
            }
            first = false;
        }
        levels.next().is_none()
    }

    /// Whether it selects every topic that `other` selects. Exact but for the greatest length and
    /// depth of topics, near which it may say no where yes were true.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        if other.as_str() == "#" {
            // Every topic has a first level.
            return matches!(self.as_str(), "#" | "+/#");
        }
        let mut levels = other.levels();
        let mut first = true;
        for own in self.levels() {
            let level = levels.next();
            let system = first && level.is_some_and(|l| l.starts_with('$'));
            match (own, level) {
                ("#", _) => return !system,
                ("+", Some(level)) if level != "#" && !system => {}
                (own, Some(level)) if own == level => {}
                _ => return false,
            }
            first = false;
        }
        levels.next().is_none()
    }

    /// Whether it holds a wildcard; without one it selects at most one topic.
    #[must_use]
    pub fn is_wild(&self) -> bool {
        self.levels().any(|level| matches!(level, "+" | "#"))
    }
}

impl From<&Topic> for Filter {
    /// The filter that selects just this topic.
    fn from(topic: &Topic) -> Self {
        Self(topic.0.clone())
    }
}

fn check(text: &str, allowed: impl Fn(bool, &str) -> bool) -> Result<(), TopicError> {
    if text.is_empty() {
        return Err(TopicError::Empty);
    }
    if text.len() > TOPIC_LEN_MAX {
        return Err(TopicError::TooLong);
    }
    if text.chars().any(char::is_control) {
        return Err(TopicError::Control);
    }
    let mut levels = text.split('/').peekable();
    let mut depth = 0;
    while let Some(level) = levels.next() {
        depth += 1;
        if depth > TOPIC_LEVELS_MAX {
            return Err(TopicError::TooDeep);
        }
        if level.is_empty() {
            return Err(TopicError::EmptyLevel);
        }
        if !allowed(levels.peek().is_none(), level) {
            return Err(TopicError::Wildcard);
        }
    }
    Ok(())
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for TopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "a topic needs at least one level, such as `demo/audio`",
            Self::TooLong => "a topic has at most 255 bytes",
            Self::TooDeep => "a topic has at most 16 levels",
            Self::EmptyLevel => "a level may not be empty: write `a/b`, not `/a//b/`",
            Self::Control => "a topic may not hold control characters",
            Self::Wildcard => {
                "`+` stands for one whole level and `#` for the rest at the end, in filters only"
            }
        })
    }
}

impl core::error::Error for TopicError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(filter: &str, topic: &str) -> bool {
        Filter::new(filter)
            .unwrap()
            .matches(&Topic::new(topic).unwrap())
    }

    #[test]
    fn plus_stands_for_exactly_one_level() {
        assert!(selects("a/+/c", "a/b/c"));
        assert!(!selects("a/+/c", "a/c"));
        assert!(!selects("a/+", "a/b/c"));
    }

    #[test]
    fn hash_stands_for_the_rest_even_none() {
        assert!(selects("a/#", "a"));
        assert!(selects("a/#", "a/b/c"));
        assert!(selects("#", "a/b"));
        assert!(!selects("a/#", "b/a"));
    }

    #[test]
    fn a_plain_filter_selects_only_its_topic() {
        assert!(selects("a/b", "a/b"));
        assert!(!selects("a/b", "a/b/c"));
        assert!(!selects("a/b/c", "a/b"));
    }

    #[test]
    fn leading_wildcards_leave_system_topics_alone() {
        assert!(!selects("#", "$sys/links"));
        assert!(!selects("+/links", "$sys/links"));
        assert!(selects("$sys/#", "$sys/links"));
    }

    #[test]
    fn the_system_has_a_first_level_of_its_own() {
        let system = |text: &str| Topic::new(text).unwrap().is_system();
        assert!(system("$sangam") && system("$sangam/monitor/1f2e3d4c"));
        assert!(!system("a/$sangam") && !system("$sangamx") && !system("$sys"));
    }

    #[test]
    fn malformed_texts_are_refused_with_the_rule_they_break() {
        let deep = ["a"; 17].join("/");
        let long = "a".repeat(256);
        for (text, why) in [
            ("", TopicError::Empty),
            ("/a", TopicError::EmptyLevel),
            ("a//b", TopicError::EmptyLevel),
            ("a/\n", TopicError::Control),
            ("a/#/b", TopicError::Wildcard),
            ("a/b+", TopicError::Wildcard),
            (deep.as_str(), TopicError::TooDeep),
            (long.as_str(), TopicError::TooLong),
        ] {
            assert_eq!(Filter::new(text), Err(why), "{text:?}");
        }
        assert_eq!(Topic::new("a/+"), Err(TopicError::Wildcard));
    }
}
