//! Why a peer ends.

use std::fmt;

use sangam_wire::Refusal;
use str0m::RtcError;

/// Why a peer ends.
#[derive(Debug)]
pub(crate) enum End {
    /// It said so, or somebody for it.
    Left,
    /// It never connected.
    Unconnected,
    /// It was not heard any more.
    Lost,
    /// DTLS, SRTP or the library gave up.
    Failed(String),
    /// The broker took back what it granted.
    Refused(Refusal),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("it left"),
            Self::Unconnected => f.write_str("it did not connect in time"),
            Self::Lost => f.write_str("it was not heard any more"),
            Self::Failed(why) => f.write_str(why),
            Self::Refused(reason) => reason.fmt(f),
        }
    }
}

impl From<RtcError> for End {
    fn from(error: RtcError) -> Self {
        Self::Failed(error.to_string())
    }
}
