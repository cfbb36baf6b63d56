//! Why a film does not play, or no more.

use core::fmt;

/// Why a session has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server said no: to what, by which status (RFC 2326 section 7.1.1), and its words.
    Refused(String, u16, String),
    /// It said nothing more, or nonsense: in words.
    Broken(String),
}

impl Failure {
    pub(crate) fn broken(why: impl fmt::Display) -> Self {
        Self::Broken(why.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(method, status, reason) => write!(f, "{method}: {status} {reason}"),
            Self::Broken(why) => f.write_str(why),
        }
    }
}
