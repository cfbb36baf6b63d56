//! What a client's control message or event asks of the shard.

use std::net::{IpAddr, SocketAddr};

use sangam_io::pool::{Packet, Pool};
use sangam_io::port::{self, Action, PeerKey};
use sangam_model::{Class, StreamId};
use sangam_wire::feedback::Feedback;
use sangam_wire::{Message, WireError};

/// The action for an event of a client: feedback goes towards the origin, all else into the lane.
///
/// # Errors
/// The header cannot be read.
pub(super) fn event(peer: PeerKey, packet: Packet) -> Result<Action, WireError> {
    Ok(match packet.header()?.class {
        Class::Feedback => Action::Feedback { peer, packet },
        _ => Action::Ingest { peer, packet },
    })
}

/// The action for a peer whose queue has shed some of this stream, which goes on with a key frame
/// only: merged and limited by the shard like the requests of any. `None` if the pool is exhausted.
pub(super) fn key_frame(peer: PeerKey, stream: StreamId, pool: &Pool) -> Option<Action> {
    let packet = port::feedback((stream, 0), &Feedback::KeyFrame, pool)?;
    Some(Action::Feedback { peer, packet })
}

/// The action for a message of a client at `address`; `None` if clients may not say such a thing.
/// Its events reach the lane from `source`, or come through the port.
pub(super) fn action(
    peer: PeerKey,
    message: Message,
    (address, source): (IpAddr, Option<SocketAddr>),
) -> Option<Action> {
    Some(match message {
        Message::Subscribe { request, filter } => Action::Subscribe {
            peer,
            request,
            filter,
        },
        Message::Unsubscribe { request, filter } => Action::Unsubscribe {
            peer,
            request,
            filter,
        },
        Message::Publish {
            request,
            topic,
            media,
        } => Action::Publish {
            peer,
            request,
            topic,
            media,
            source,
        },
        Message::Unpublish { stream } => Action::Unpublish { peer, stream },
        Message::Authenticate { request, token } => Action::Authenticate {
            peer,
            request,
            token,
            address,
        },
        Message::Reliable(message) => Action::Reliable { peer, message },
        _ => return None,
    })
}
