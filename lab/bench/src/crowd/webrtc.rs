//! WebRTC peers as load: real ICE, DTLS and SRTP, with the receiver reports, NACKs and transport
//! feedback that a browser sends.

mod audience;
mod peer;
mod peers;
mod sender;

pub(crate) use audience::Audience;
pub(crate) use peer::{Part, Peer};
pub(crate) use peers::Peers;
pub(crate) use sender::{Beat, Sender};

/// What a packet carries; the number is its place in pairs of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// Moving pictures.
    Video = 0,
    /// Sound.
    Audio = 1,
}

impl Medium {
    /// As reports name it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Video => "video",
            Self::Audio => "audio",
        }
    }

    /// Units of its RTP clock in a second (RFC 7741, RFC 7587).
    const fn clock_rate(self) -> u64 {
        match self {
            Self::Video => 90_000,
            Self::Audio => 48_000,
        }
    }
}
