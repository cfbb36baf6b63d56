//! What the threads of a broker tell each other.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use sangam_broker::{LinkId, Owner, TopicGate};
use sangam_io::wake::Waker;
use sangam_model::{BrokerId, Filter, Grants, Measured, MediaInfo, StreamId, Time, Topic};
use sangam_wire::{Message, Plan, Refusal};

use sangam_io::pool::Packet;

use crate::broker::{Brief, StreamInfo};
use crate::config::Neighbour;
use crate::network::NetworkMap;
use crate::rules::{LinkRule, RulesInForce};
use crate::shard::Subscriber;

/// An event on its way to a shard.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) packet: Packet,
    /// When the lane took it.
    pub(crate) at: Time,
}

/// To a shard, from control unless it says otherwise.
#[derive(Debug)]
pub(crate) enum ShardCommand {
    Added {
        id: StreamId,
        topic: Topic,
        media: Arc<MediaInfo>,
        owner: Option<Owner>,
    },
    Removed(StreamId),
    Tell {
        to: Subscriber,
        message: Message,
    },
    /// Neighbours cannot be asked for what this subscriber was promised: the broker holds as many
    /// filters as it may.
    Unasked {
        to: Subscriber,
        request: u32,
        filter: Filter,
    },
    /// From the verifier: what a client's token grants.
    Judged {
        to: Subscriber,
        ticket: u64,
        verdict: Result<Grants, Refusal>,
    },
    /// The broker is about to leave.
    Drain,
    Stop,
}

/// To the lane, from control.
#[derive(Debug)]
pub(crate) enum LaneCommand {
    Send {
        link: LinkId,
        message: Message,
    },
    /// A message of a reliable topic, behind others of its kind.
    Carry {
        link: LinkId,
        message: Message,
    },
    /// Link with this broker, and keep trying.
    Dial(Neighbour),
    /// No more with the one at this address, if the link was made by [`LaneCommand::Dial`].
    HangUp(SocketAddr),
    /// No link with these from now on; with others as before.
    Forbid(BTreeSet<BrokerId>),
    /// End all links and make no more: another broker has this one's id.
    StepAside,
    Stop,
}

/// To control.
#[derive(Debug)]
pub(crate) enum ControlEvent {
    /// Somebody subscribed, the first in the shard with this filter or one of several.
    FilterAdded {
        shard: u16,
        filter: Filter,
        by: Subscriber,
        request: u32,
    },
    FilterRemoved {
        shard: u16,
        filter: Filter,
    },
    Publish(Box<Wish>),
    Unpublish {
        owner: Owner,
        stream: StreamId,
    },
    /// A client left; its streams end.
    OwnerGone(Owner),
    LinkUp {
        link: LinkId,
        peer: BrokerId,
        address: SocketAddr,
    },
    LinkDown(LinkId),
    /// A neighbour was not heard for 150 ms; its link may die, or recover.
    LinkSuspect(LinkId),
    /// A suspect neighbour is heard again.
    LinkRecovered(LinkId),
    /// How good a link is: once a second, or when it changed by more than a fifth.
    LinkMeasured {
        link: LinkId,
        measured: Measured,
    },
    Message {
        link: LinkId,
        message: Message,
    },
    Streams(SyncSender<Vec<StreamInfo>>),
    /// With at most so many names.
    Brief(usize, SyncSender<Brief>),
    Map(SyncSender<NetworkMap>),
    /// How far a broker is from here, of which control asked; `None` if it did not answer.
    Surveyed {
        id: BrokerId,
        rtt: Option<Duration>,
    },
    /// The broker is so busy, in percent.
    Load(u8),
    /// What an operator or a threshold says about links.
    Rule(LinkRule),
    Rules(SyncSender<RulesInForce>),
    /// What a scheduler told, and by which stream.
    Plan(StreamId, Plan),
    /// What may be published below a prefix.
    Gate {
        prefix: Topic,
        gate: TopicGate,
    },
    /// The broker is about to leave.
    Drain,
    Stop,
}

/// A wish to publish.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) owner: Owner,
    pub(crate) request: u32,
    pub(crate) topic: Topic,
    pub(crate) media: MediaInfo,
    /// Whence events come by datagram; `None` if through the shard.
    pub(crate) source: Option<SocketAddr>,
    /// Whether it waits for a session server's word.
    pub(crate) gated: bool,
}

/// A sending end for a thread that must never block: what the channel does not take waits here.
///
/// The backlog is bounded by what its senders may have under way: each peer a few control
/// messages, each link a window of them.
#[derive(Debug)]
pub(crate) struct Outlet<T> {
    channel: SyncSender<T>,
    waker: Waker,
    backlog: VecDeque<T>,
}

impl<T> Outlet<T> {
    pub(crate) fn new(channel: SyncSender<T>, waker: Waker) -> Self {
        Self {
            channel,
            waker,
            backlog: VecDeque::new(),
        }
    }

    pub(crate) fn send(&mut self, item: T) {
        self.backlog.push_back(item);
        self.flush();
    }

    /// Sends what may be lost: not if something waits already. Whether it was sent.
    pub(crate) fn offer(&mut self, item: T) -> bool {
        let sent = self.flush() && self.channel.try_send(item).is_ok();
        if sent {
            self.waker.wake();
        }
        sent
    }

    /// Tries again; whether everything is gone.
    pub(crate) fn flush(&mut self) -> bool {
        let mut sent = false;
        while let Some(item) = self.backlog.pop_front() {
            match self.channel.try_send(item) {
                Ok(()) => sent = true,
                Err(TrySendError::Full(item)) => {
                    self.backlog.push_front(item);
                    break;
                }
                // The other thread has stopped: the broker is shutting down.
                Err(TrySendError::Disconnected(_)) => {}
            }
        }
        if sent {
            self.waker.wake();
        }
        self.backlog.is_empty()
    }
}
