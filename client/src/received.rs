//! What comes to a client.

use core::time::Duration;

use sangam_io::pool::Packet;
use sangam_model::{BrokerId, Filter, Incarnation, MediaInfo, StreamId, Topic};
use sangam_wire::{Event, Feedback, Refusal};

use crate::ReliableEvent;

/// One thing a client receives.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Received {
    /// An event: header, extensions and payload, to be read by [`Event::decode`].
    Event(Packet),
    /// Events of this stream will come.
    Announce {
        /// The stream.
        stream: StreamId,
        /// Where it is published.
        topic: Topic,
        /// What it carries.
        media: MediaInfo,
    },
    /// No more events of this stream will come.
    Retired(StreamId),
    /// A receiver of a stream of this client asks or tells something.
    Feedback {
        /// The stream.
        stream: StreamId,
        /// The layer of it.
        layer: u8,
        /// What is asked or told.
        feedback: Feedback,
    },
    /// The broker has taken this subscription; also after each reconnection.
    Subscribed(Filter),
    /// The broker has not taken this subscription.
    Refused {
        /// What was wanted.
        filter: Filter,
        /// Why not.
        reason: Refusal,
    },
    /// The broker's verdict on the token: after each reconnection, after [`Client::set_token`],
    /// and when its time is over. Without one, nothing is received or published.
    ///
    /// [`Client::set_token`]: crate::Client::set_token
    Token(Result<(), Refusal>),
    /// Of a reliable topic.
    Reliable(ReliableEvent),
    /// The link is up, and everything asked for is being restored.
    Up(UpInfo),
    /// The link is down.
    Down(Refusal),
}

/// What is known of a link that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpInfo {
    /// The broker and which of its lives; `None` through a door.
    pub broker: Option<(BrokerId, Incarnation)>,
    /// Names the broker's clock.
    pub clock_domain: u32,
    /// Largest datagram in bytes; the largest event through a door.
    pub datagram_max: u16,
    /// How often the client is heard at least; `None` through a door.
    pub keepalive: Option<Duration>,
}

impl Received {
    /// An event from the broker: media or data, or feedback; `None` if it is neither.
    pub(crate) fn event(packet: Packet) -> Option<Self> {
        use sangam_model::Class;

        let header = packet.header().ok()?;
        if header.class != Class::Feedback {
            return Some(Self::Event(packet));
        }
        let feedback = Feedback::decode(Event::payload_of(&packet).ok()?).ok()?;
        Some(Self::Feedback {
            stream: header.stream,
            layer: header.layer,
            feedback,
        })
    }
}
