//! RTP legs (the papers' RTPLink): endpoints that speak RTP and RTCP and know nothing of Sangam.

mod egress;
mod ingest;
mod sockets;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use sangam_broker::DropReason;
use sangam_io::poll::Interest;
use sangam_io::pool::Packet;
use sangam_io::port::{Action, Context, Delivery, PeerKey, Peers, Port};
use sangam_io::udp::{Fanout, RecvBatch};
use sangam_model::{StreamId, Time};
use sangam_wire::Message;
use sangam_wire::rtp::{Encoding, FrameMarker, Sampler};

use crate::config::{LegSpec, RtcpPort};
use crate::counters::Counters;
use sockets::Sockets;

/// Legs of one shard.
const LEGS: usize = 1_024;
const BATCH: usize = 16;
const BATCH_BYTES: usize = 65_535;

/// Why a leg was not made.
#[derive(Debug)]
#[non_exhaustive]
pub enum LegError {
    /// The name is taken.
    Exists,
    /// The shard has no room for another one.
    Full,
    /// Neither `receive` nor `send`.
    Nothing,
    /// The local address cannot be used.
    Bind(SocketAddr, io::Error),
    /// The broker is stopping.
    Stopping,
}

impl std::fmt::Display for LegError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exists => f.write_str("a leg of this name exists; remove it first"),
            Self::Full => f.write_str("too many legs; remove some or add shards"),
            Self::Nothing => f.write_str("a leg needs `receive`, `send` or both"),
            Self::Bind(address, error) => {
                write!(f, "cannot use UDP {address}: {error}; choose another port")
            }
            Self::Stopping => f.write_str("the broker is stopping"),
        }
    }
}

impl std::error::Error for LegError {}

/// A leg as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegInfo {
    /// What was asked for.
    pub spec: LegSpec,
    /// Where RTP is taken and whence it is sent, with the port the kernel chose.
    pub local: SocketAddr,
    /// The stream that its media is published as.
    pub stream: Option<StreamId>,
    /// RTP and RTCP packets taken.
    pub received: u64,
    /// RTP and RTCP packets sent.
    pub sent: u64,
}

/// What the broker's handle asks of the legs of a shard.
#[derive(Debug)]
pub(crate) enum LegCommand {
    Add(Box<LegSpec>, SyncSender<Result<LegInfo, LegError>>),
    Remove(String, SyncSender<bool>),
    List(SyncSender<Vec<LegInfo>>),
}

/// All legs of one shard.
pub(crate) struct LegPort {
    commands: Receiver<LegCommand>,
    counters: Arc<Counters>,
    legs: Peers<Leg>,
    /// Away while its datagrams are handled.
    batch: Option<RecvBatch>,
    fanout: Fanout,
}

struct Leg {
    spec: LegSpec,
    sockets: Sockets,
    marker: FrameMarker,
    sampler: Sampler,
    stream: Option<StreamId>,
    /// The endpoint that sends to us: address, SSRC and when it was heard.
    source: Option<Latched>,
    rtcp_sequence: u16,
    /// SSRCs we send, for the feedback that names them.
    sending: Vec<(u32, StreamId)>,
    /// Clock rates in Hz of the streams it is sent: as many as the broker knows, at most.
    rates: HashMap<StreamId, u32>,
    received: u64,
    sent: u64,
}

/// An endpoint found by its packets (symmetric RTP, RFC 4961).
#[derive(Clone, Copy, Debug)]
struct Latched {
    address: SocketAddr,
    ssrc: u32,
    heard: Time,
}

impl LegPort {
    pub(crate) fn new(commands: Receiver<LegCommand>, counters: Arc<Counters>) -> Self {
        Self {
            commands,
            counters,
            legs: Peers::default(),
            batch: Some(RecvBatch::new(BATCH, BATCH_BYTES)),
            fanout: Fanout::new(),
        }
    }

    fn add(&mut self, spec: LegSpec, cx: &mut Context<'_>) -> Result<LegInfo, LegError> {
        if self.legs.len() >= LEGS {
            return Err(LegError::Full);
        }
        let sockets = Sockets::open(&spec)?;
        let encoding = spec
            .receive
            .as_ref()
            .map_or("", |receive| &receive.media.encoding);
        let leg = Leg {
            marker: FrameMarker::new(Encoding::from_name(encoding)),
            sampler: Sampler::default(),
            sockets,
            spec,
            stream: None,
            source: None,
            rtcp_sequence: 0,
            sending: Vec::new(),
            rates: HashMap::new(),
            received: 0,
            sent: 0,
        };
        let info = leg.info();
        let peer = self.legs.insert(leg);
        if let Err(error) = self.watch(peer, cx) {
            self.legs.remove(peer);
            return Err(LegError::Bind(info.local, error));
        }
        if let Some(receive) = &info.spec.receive {
            let (topic, media) = (receive.topic.clone(), receive.media.clone());
            cx.actions.push(Action::Publish {
                peer,
                request: peer,
                topic,
                media,
                source: None,
            });
        }
        if let Some(send) = &info.spec.send {
            let filter = send.filter.clone();
            cx.actions.push(Action::Subscribe {
                peer,
                request: peer,
                filter,
            });
        }
        Ok(info)
    }

    fn watch(&self, peer: PeerKey, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(leg) = self.legs.get(peer) else {
            return Ok(());
        };
        let token = cx.token | u64::from(peer * 2);
        cx.poller.add(leg.sockets.rtp.fd(), token, Interest::Read)?;
        match &leg.sockets.rtcp {
            Some(rtcp) => cx.poller.add(rtcp.fd(), token + 1, Interest::Read),
            None => Ok(()),
        }
    }

    fn remove(&mut self, name: &str, cx: &mut Context<'_>) -> bool {
        let keys = self.legs.keys();
        let named = |key: &PeerKey| self.legs.get(*key).is_some_and(|leg| leg.spec.name == name);
        let Some(peer) = keys.into_iter().find(named) else {
            return false;
        };
        // Closing its sockets takes them out of the poller as well.
        self.legs.remove(peer);
        cx.actions.push(Action::Gone { peer });
        true
    }
}

impl Leg {
    fn info(&self) -> LegInfo {
        LegInfo {
            spec: self.spec.clone(),
            local: self.sockets.rtp.local_addr(),
            stream: self.stream,
            received: self.received,
            sent: self.sent,
        }
    }

    /// Where RTCP of a peer with this RTP address goes.
    fn rtcp_address(&self, rtp: SocketAddr) -> SocketAddr {
        match self.spec.rtcp {
            RtcpPort::Mux => rtp,
            RtcpPort::Next => SocketAddr::new(rtp.ip(), rtp.port().saturating_add(1)),
        }
    }
}

impl Port for LegPort {
    fn name(&self) -> &'static str {
        "leg"
    }

    fn is_trusted(&self) -> bool {
        true
    }

    fn start(&mut self, _: &mut Context<'_>) -> io::Result<()> {
        Ok(())
    }

    fn ready(&mut self, token: u32, cx: &mut Context<'_>) {
        self.receive(token / 2, token % 2 == 1, cx);
    }

    fn woken(&mut self, cx: &mut Context<'_>) {
        while let Ok(command) = self.commands.try_recv() {
            // Whoever asked may have given up waiting: then nobody takes the answer.
            match command {
                LegCommand::Add(spec, answer) => {
                    let _ = answer.send(self.add(*spec, cx));
                }
                LegCommand::Remove(name, answer) => {
                    let _ = answer.send(self.remove(&name, cx));
                }
                LegCommand::List(answer) => {
                    let legs = self.legs.keys().into_iter();
                    let infos = legs.filter_map(|key| self.legs.get(key)).map(Leg::info);
                    let _ = answer.send(infos.collect());
                }
            }
        }
    }

    fn deliver(&mut self, burst: &[Packet], peers: &[PeerKey], _: &mut Context<'_>) -> Delivery {
        let mut done = Delivery {
            peers: peers.len(),
            ..Delivery::default()
        };
        for peer in peers {
            self.send(*peer, burst, &mut done);
        }
        done
    }

    fn tell(&mut self, peer: PeerKey, message: Message, cx: &mut Context<'_>) {
        let Some(leg) = self.legs.get_mut(peer) else {
            return;
        };
        match message {
            Message::Published { stream, .. } => leg.stream = Some(stream),
            Message::Announce { stream, media, .. } => {
                leg.rates.insert(stream, media.clock_rate);
            }
            Message::Retire { stream } => {
                leg.sending.retain(|(_, known)| *known != stream);
                leg.rates.remove(&stream);
            }
            Message::Refused { reason, .. } => {
                tracing::warn!(leg = leg.spec.name, %reason, "the broker refuses a leg's wish");
                cx.actions.push(Action::Gone { peer });
                self.legs.remove(peer);
            }
            _ => {}
        }
    }

    fn room(&self, _: PeerKey) -> usize {
        usize::MAX
    }

    fn feedback(&mut self, peer: PeerKey, packet: &Packet, _: &mut Context<'_>) {
        if !self.send_feedback(peer, packet) {
            self.counters.dropped(DropReason::FeedbackNoWay);
        }
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn timeout(&mut self, _: &mut Context<'_>) {}

    fn peers(&self) -> usize {
        self.legs.len()
    }

    fn close(&mut self, _: &mut Context<'_>) {}
}
