//! What can be wrong with a peer's bytes.

use core::fmt;

/// Why bytes from a peer were not accepted. Each is counted, none is fatal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WireError {
    /// Ends before it should.
    Truncated,
    /// Holds more than it should.
    Oversized,
    /// A version this build does not speak.
    Version,
    /// An event class that is not defined.
    Class,
    /// A link frame or control message that is not defined.
    Kind,
    /// A field outside its range.
    Value,
    /// A topic, filter or other text that breaks its rules.
    Text,
}

impl WireError {
    /// Every error, for counters.
    pub const ALL: [Self; 7] = [
        Self::Truncated,
        Self::Oversized,
        Self::Version,
        Self::Class,
        Self::Kind,
        Self::Value,
        Self::Text,
    ];

    /// A short name for metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Oversized => "oversized",
            Self::Version => "version",
            Self::Class => "class",
            Self::Kind => "kind",
            Self::Value => "value",
            Self::Text => "text",
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the message ends too early",
            Self::Oversized => "the message is longer than allowed",
            Self::Version => "the peer speaks another version of the protocol",
            Self::Class => "the event is of no known class",
            Self::Kind => "the frame is of no known kind",
            Self::Value => "a field lies outside its range",
            Self::Text => "a topic or text breaks its rules",
        })
    }
}

impl core::error::Error for WireError {}
