//! What a delivery shard hosts: a [`Port`] speaks one protocol and owns its peers.
//!
//! A port never calls the shard: it queues [`Action`]s, and the shard carries them out when the
//! port returns. So a gateway that lives in a shard adds no second fan-out and no lock. A broker
//! does not know its gateways: it asks each [`Gateway`] for the ports of its shards.

mod peers;

use std::fmt;
use std::io;
use std::slice;
use std::time::Duration;

use sangam_model::{Class, Filter, MediaInfo, StreamId, Time, Topic, limits};
use sangam_wire::feedback::Feedback;
use sangam_wire::{Event, Extensions, Flags, Header, Message, Reliable};

pub use peers::Peers;

use crate::poll::Poller;
use crate::pool::{Packet, Pool};
use crate::wake::Waker;

/// Bytes of the longest feedback payload.
const FEEDBACK_LEN_MAX: usize = 16;

/// A peer's number within its port; reused after [`Action::Gone`].
pub type PeerKey = u32;

/// What a port asks of its shard.
#[derive(Debug)]
pub enum Action {
    /// The peer wants what the filter selects; answered by `Accepted` or `Refused`.
    Subscribe {
        /// Who.
        peer: PeerKey,
        /// Echoed in the answer.
        request: u32,
        /// What.
        filter: Filter,
    },
    /// The peer wants it no more; answered by `Accepted` or `Refused`.
    Unsubscribe {
        /// Who.
        peer: PeerKey,
        /// Echoed in the answer.
        request: u32,
        /// As it was subscribed.
        filter: Filter,
    },
    /// The peer wants to publish; answered by `Published` or `Refused`.
    Publish {
        /// Who.
        peer: PeerKey,
        /// Echoed in the answer.
        request: u32,
        /// Where.
        topic: Topic,
        /// What.
        media: MediaInfo,
        /// Whence its events reach the lane by datagram; `None` if they come through the port.
        source: Option<std::net::SocketAddr>,
    },
    /// The peer ends its stream.
    Unpublish {
        /// Who.
        peer: PeerKey,
        /// Its stream.
        stream: StreamId,
    },
    /// The peer shows what it may do; answered by `Accepted` or `Refused`.
    Authenticate {
        /// Who.
        peer: PeerKey,
        /// Echoed in the answers.
        request: u32,
        /// The token.
        token: String,
        /// Whence it came.
        address: std::net::IpAddr,
    },
    /// An event the peer published through the port.
    Ingest {
        /// Who.
        peer: PeerKey,
        /// Header, extensions, payload.
        packet: Packet,
    },
    /// A feedback event about a stream the peer receives.
    Feedback {
        /// Who.
        peer: PeerKey,
        /// Header and payload.
        packet: Packet,
    },
    /// The peer says something about a reliable topic.
    Reliable {
        /// Who.
        peer: PeerKey,
        /// What.
        message: Reliable,
    },
    /// The peer left: its subscriptions and streams end.
    Gone {
        /// Who.
        peer: PeerKey,
    },
}

/// What a port may use while the shard calls it.
#[derive(Debug)]
pub struct Context<'a> {
    /// The present.
    pub now: Time,
    /// Buffers for events.
    pub pool: &'a Pool,
    /// For the port's descriptors.
    pub poller: &'a Poller,
    /// The high half of the tokens under which the port registers its descriptors.
    pub token: u64,
    /// What the shard shall do when the port returns.
    pub actions: &'a mut Vec<Action>,
}

/// What came of a delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Peers served, from the front of the list; the shard offers the rest again later.
    pub peers: usize,
    /// Packets handed to the kernel or to a queue.
    pub packets: u64,
    /// Messages those packets were handed over in: fewer than packets where bursts were joined.
    pub messages: u64,
    /// Bytes of those packets.
    pub bytes: u64,
    /// Packets dropped because the peer's own queue is full.
    pub peer_full: u64,
    /// Packets the kernel refused.
    pub errors: u64,
}

/// One protocol within one shard, and the peers that speak it.
pub trait Port: Send {
    /// A short name for logs and metrics.
    fn name(&self) -> &'static str;

    /// Whether its peers are the operator's own and need no token.
    fn is_trusted(&self) -> bool {
        false
    }

    /// Registers the port's descriptors.
    ///
    /// # Errors
    /// What the poller says.
    fn start(&mut self, cx: &mut Context<'_>) -> io::Result<()>;

    /// One of the port's descriptors (the low half of its token) is ready.
    fn ready(&mut self, token: u32, cx: &mut Context<'_>);

    /// Another thread woke the shard: something may lie in the port's own queue.
    fn woken(&mut self, cx: &mut Context<'_>);

    /// Reads what [`Port::deliver`] will need of these peers, so that it lies in the cache by
    /// then. The value means nothing: it keeps the reads from being left out.
    fn look_up(&self, _peers: &[PeerKey]) -> u64 {
        0
    }

    /// What serving a peer costs beside the packets of the burst: for so long at most a shard
    /// waits for the rest of a frame, for each peer, rather than come twice.
    fn visit(&self) -> Duration {
        Duration::ZERO
    }

    /// Sends every packet of a burst (one stream, in order, at most
    /// [`sangam_model::limits::BURST_MAX`]) to every peer, at once or by the next
    /// [`Port::flush`].
    fn deliver(&mut self, burst: &[Packet], peers: &[PeerKey], cx: &mut Context<'_>) -> Delivery;

    /// Sends a lost packet again, to this peer alone.
    fn repair(&mut self, packet: &Packet, peer: PeerKey, cx: &mut Context<'_>) -> Delivery {
        self.deliver(slice::from_ref(packet), &[peer], cx)
    }

    /// Hands the kernel what [`Port::deliver`] has gathered; `false` while it keeps something
    /// that the kernel does not take.
    fn flush(&mut self, _done: &mut Delivery) -> bool {
        true
    }

    /// Tells a peer something: answers, announcements.
    fn tell(&mut self, peer: PeerKey, message: Message, cx: &mut Context<'_>);

    /// Whether the peer belongs to the broker's own program and may publish on system topics.
    fn is_system(&self, _peer: PeerKey) -> bool {
        false
    }

    /// How many more messages the peer's control queue takes now; a large number if unlimited.
    fn room(&self, peer: PeerKey) -> usize;

    /// Hands a publisher feedback about its stream.
    fn feedback(&mut self, peer: PeerKey, packet: &Packet, cx: &mut Context<'_>);

    /// When [`Port::timeout`] is due, if at all.
    fn deadline(&self) -> Option<Time>;

    /// The deadline has come.
    fn timeout(&mut self, cx: &mut Context<'_>);

    /// Peers of the port.
    fn peers(&self) -> usize;

    /// Those of them who may choose another broker; none where somebody else decides.
    fn clients(&self) -> Vec<PeerKey> {
        Vec::new()
    }

    /// The broker stops: says goodbye to every peer.
    fn close(&mut self, cx: &mut Context<'_>);
}

/// A protocol that a broker hosts without knowing it.
pub trait Gateway: fmt::Debug + Send + Sync {
    /// Opens what it needs and makes one port for each shard; the waker of the same place wakes
    /// that shard, which then calls [`Port::woken`]. Called once, before the shards run.
    ///
    /// # Errors
    /// What cannot be opened, with the address and what to do in the message.
    fn ports(&self, shards: &[Waker]) -> io::Result<Vec<Box<dyn Port>>>;
}

/// A feedback event about a layer of a stream, which begins here; `None` if the pool is exhausted.
#[must_use]
pub fn feedback(about: (StreamId, u8), feedback: &Feedback, pool: &Pool) -> Option<Packet> {
    relayed_feedback(about, limits::HOP_LIMIT, feedback, pool)
}

/// The same on its way: so many brokers may still pass it on.
#[must_use]
pub fn relayed_feedback(
    (stream, layer): (StreamId, u8),
    hop_limit: u8,
    feedback: &Feedback,
    pool: &Pool,
) -> Option<Packet> {
    let mut payload = Vec::with_capacity(FEEDBACK_LEN_MAX);
    feedback.encode(&mut payload);
    let header = Header {
        class: Class::Feedback,
        flags: Flags::NONE,
        stream,
        sequence: 0,
        hop_limit,
        layer,
    };
    let event = Event {
        header,
        extensions: Extensions::NONE,
        payload: &payload,
    };
    let mut packet = pool.take(event.encoded_len())?;
    event.write(&mut packet).ok()?;
    Some(packet.freeze())
}
