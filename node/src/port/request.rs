//! What a client's control message or event asks of the shard.

use std::net::{IpAddr, SocketAddr};

use sangam_io::pool::Packet;
use sangam_io::port::{Action, PeerKey};
use sangam_model::Class;
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
