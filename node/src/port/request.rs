//! What a client's control message asks of the shard.

use std::net::SocketAddr;

use sangam_io::port::{Action, PeerKey};
use sangam_wire::Message;

/// The action for a message of a client; `None` if clients may not say such a thing.
pub(super) fn action(
    peer: PeerKey,
    message: Message,
    source: Option<SocketAddr>,
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
        _ => return None,
    })
}
