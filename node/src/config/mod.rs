//! What a broker is started with.

mod neighbour;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use sangam_io::port::Gateway;
use sangam_io::tls::{Identity, Roots};
use sangam_model::{BrokerId, Filter, Incarnation, MediaInfo, Topic, limits};
use sangam_reliable::Limits;

use crate::{Authority, LinkRules, Multicast};

pub use neighbour::{LinkWay, Neighbour, StreamWay};

/// How events wait for delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queuing {
    /// Uyar & Fox, section 3.1: relaying and delivery have queues and threads of their own.
    #[default]
    Double,
    /// Uyar & Fox, section 3: one thread, first come first served, neighbours first within each
    /// packet. The baseline of the `double-queue` experiment.
    Single,
}

/// What is spoken at a listener for streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Units as they are, for trusted networks.
    Tcp,
    /// The same through TLS.
    Tls,
    /// Messages of a WebSocket, for trusted networks or behind a proxy that does TLS.
    Ws,
    /// The same through TLS.
    Wss,
}

impl Transport {
    /// Every one there is.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Tls, Self::Ws, Self::Wss];

    /// As in configurations, addresses and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    /// Whether a certificate is shown.
    #[must_use]
    pub const fn is_encrypted(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }
}

/// A range of addresses, for example 10.0.0.0/8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Any address of the range.
    pub address: std::net::IpAddr,
    /// Leading bits that count, at most 32 or 128.
    pub prefix: u8,
}

impl Network {
    /// Whether `ip` lies in the range; IPv4-mapped IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(&self, ip: std::net::IpAddr) -> bool {
        use std::net::IpAddr::{V4, V6};
        match (self.address, ip.to_canonical()) {
            (V4(own), V4(ip)) => same_bits(&own.octets(), &ip.octets(), self.prefix),
            (V6(own), V6(ip)) => same_bits(&own.octets(), &ip.octets(), self.prefix),
            _ => false,
        }
    }
}

fn same_bits(a: &[u8], b: &[u8], prefix: u8) -> bool {
    let whole = usize::from(prefix / 8);
    let Some(mask) = 0xff_u8.checked_shl(8 - u32::from(prefix % 8)) else {
        return a[..whole] == b[..whole];
    };
    a[..whole] == b[..whole] && (prefix.is_multiple_of(8) || a[whole] & mask == b[whole] & mask)
}

/// Where RTCP goes beside RTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RtcpPort {
    /// RFC 5761: the same port.
    #[default]
    Mux,
    /// RFC 3550 section 11: the next higher port.
    Next,
}

/// A raw RTP endpoint that knows nothing of Sangam (the papers' RTPLink).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegSpec {
    /// Unique in the broker.
    pub name: String,
    /// RTP from the endpoint is taken at this address and published under the topic.
    pub receive: Option<LegReceive>,
    /// What the filter selects is sent as RTP to this address.
    pub send: Option<LegSend>,
    /// Where RTCP travels.
    pub rtcp: RtcpPort,
}

/// The half of a leg that brings media in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegReceive {
    /// Local address; port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// Where it is published.
    pub topic: Topic,
    /// What it carries.
    pub media: MediaInfo,
}

/// The half of a leg that takes media out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegSend {
    /// Where RTP is sent.
    pub to: SocketAddr,
    /// What is sent.
    pub filter: Filter,
}

/// Reliable topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReliableConfig {
    /// The broker keeps topics for the network; if not, its clients use others that do.
    pub keep: bool,
    /// How much is kept.
    pub limits: Limits,
    /// Where records are written, so that they survive this process; `None`: nowhere.
    pub store: Option<PathBuf>,
}

impl Default for ReliableConfig {
    fn default() -> Self {
        Self {
            keep: true,
            limits: Limits::default(),
            store: None,
        }
    }
}

/// Everything a broker needs to know. Identities and addresses are checked by the caller.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// Hash of the broker's key.
    pub id: BrokerId,
    /// Which of its lives.
    pub incarnation: Incarnation,
    /// A secret drawn at random, for cookies and hashing.
    pub secret: [u8; 16],
    /// Public UDP addresses: at most one per address family; port 0 lets the kernel choose.
    pub udp: Vec<SocketAddr>,
    /// TCP addresses, at most one per address family.
    pub tcp: Vec<SocketAddr>,
    /// QUIC addresses, at most one per address family.
    pub quic: Vec<SocketAddr>,
    /// Addresses for streams of the other kinds; at most one per kind and address family.
    pub streams: Vec<(Transport, SocketAddr)>,
    /// Whose pages may open WebSockets, such as `https://meet.example.org`; everybody's if empty.
    pub ws_origins: Vec<String>,
    /// The certificate shown at encrypted ones. Where links are encrypted it holds, as the
    /// neighbours' do, the Ed25519 key that the broker's id is the hash of.
    pub identity: Option<Arc<Identity>>,
    /// Whose certificates count if a client shows one; nobody has to, but neighbours.
    pub authorities: Option<Roots>,
    /// Neighbour brokers to dial by datagrams alone.
    pub links: Vec<SocketAddr>,
    /// Neighbour brokers to dial by other ways as well.
    pub neighbours: Vec<Neighbour>,
    /// Where neighbours may dial by QUIC, at most one address per family; port 0 lets the kernel
    /// choose. By streams they dial where clients do.
    pub quic_links: Vec<SocketAddr>,
    /// Brokers by which to join a network: links are then made, and given up, as the map asks for
    /// it. With none the broker keeps to its neighbours, if it has any, and else does the same once
    /// the map names a broker that joined.
    pub join: Vec<Neighbour>,
    /// Delivery by groups to clients on one segment.
    pub multicast: Option<Multicast>,
    /// Where the broker stands, as its operator calls the place; at most 32 bytes.
    pub region: String,
    /// Where other brokers may dial this one, if not where it listens.
    pub public_address: Option<SocketAddr>,
    /// By which ways they may, best first, at most five; if empty, those that follow from the
    /// listeners and `public_address`.
    pub public_ways: Vec<LinkWay>,
    /// Networks from which neighbour brokers may dial.
    pub accept_links: Vec<Network>,
    /// What holds for links with certain brokers.
    pub rules: LinkRules,
    /// Legs that exist from the start.
    pub legs: Vec<LegSpec>,
    /// Reliable topics.
    pub reliable: ReliableConfig,
    /// Protocols whose peers the shards host beside the broker's own clients.
    pub gateways: Vec<Arc<dyn Gateway>>,
    /// Delivery shards, `1..=64`.
    pub shards: usize,
    /// Queues and threads.
    pub queuing: Queuing,
    /// Pool buffers of 2 KiB.
    pub pool_small: usize,
    /// Pool buffers of 16 KiB.
    pub pool_large: usize,
    /// Bytes of the kernel's receive and send buffer for each socket.
    pub socket_buffer: usize,
    /// Native clients, in all shards together.
    pub clients_max: usize,
    /// Native clients from one IPv4 address or one /64 network of IPv6.
    pub clients_per_address: usize,
    /// Who says what clients may do; `None` if everybody may do everything.
    pub authority: Option<Arc<dyn Authority>>,
    /// Packets of one publisher each second.
    pub publisher_packets_per_s: u32,
    /// Hellos of strangers answered each second, at about 3 us each; those with a good cookie are
    /// not counted. A flood beyond costs no more than its reading.
    pub hellos_per_s: u32,
    /// How often clients must be heard, in milliseconds.
    pub keepalive_ms: u16,
    /// Largest UDP payload sent to anybody, in bytes; the path's own limit applies as well.
    pub datagram_max: u16,
}

impl BrokerConfig {
    /// A number from the secret.
    pub(crate) fn seed(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.secret;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    /// All listeners for streams.
    pub(crate) fn stream_listeners(&self) -> Vec<(Transport, SocketAddr)> {
        let plain = self.tcp.iter().map(|address| (Transport::Tcp, *address));
        plain.chain(self.streams.iter().copied()).collect()
    }

    /// Whether there are neighbours to dial.
    pub(crate) fn dials(&self) -> bool {
        !self.links.is_empty() || self.listed().next().is_some()
    }

    /// Neighbours with lists of ways, those to join by included.
    pub(crate) fn listed(&self) -> impl Iterator<Item = &Neighbour> {
        self.neighbours.iter().chain(&self.join)
    }
}

impl Default for BrokerConfig {
    /// Loopback, kernel-chosen ports, one shard per core.
    fn default() -> Self {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            id: BrokerId(1),
            incarnation: Incarnation(0),
            secret: [0; 16],
            udp: vec![loopback],
            tcp: vec![loopback],
            quic: Vec::new(),
            streams: Vec::new(),
            ws_origins: Vec::new(),
            identity: None,
            authorities: None,
            links: Vec::new(),
            neighbours: Vec::new(),
            quic_links: Vec::new(),
            join: Vec::new(),
            multicast: None,
            region: String::new(),
            public_address: None,
            public_ways: Vec::new(),
            accept_links: vec![Network {
                address: loopback.ip(),
                prefix: 8,
            }],
            rules: LinkRules::default(),
            legs: Vec::new(),
            reliable: ReliableConfig::default(),
            gateways: Vec::new(),
            shards: std::thread::available_parallelism()
                .map_or(1, usize::from)
                .min(64),
            queuing: Queuing::Double,
            pool_small: 32_768,
            pool_large: 256,
            socket_buffer: 4 << 20,
            clients_max: limits::CLIENTS_PER_BROKER,
            clients_per_address: limits::CLIENTS_PER_ADDRESS,
            authority: None,
            publisher_packets_per_s: limits::PUBLISHER_PACKETS_PER_S,
            hellos_per_s: 20_000,
            keepalive_ms: 5_000,
            datagram_max: 1_472,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_what_shares_their_prefix() {
        let ten = Network {
            address: [10, 20, 0, 0].into(),
            prefix: 12,
        };
        assert!(ten.contains([10, 31, 1, 1].into()));
        assert!(!ten.contains([10, 32, 1, 1].into()));
        let all = Network {
            address: [0, 0, 0, 0].into(),
            prefix: 0,
        };
        assert!(all.contains([1, 2, 3, 4].into()));
        let one = Network {
            address: [127, 0, 0, 1].into(),
            prefix: 32,
        };
        assert!(one.contains("::ffff:127.0.0.1".parse().unwrap()));
        assert!(!one.contains("::1".parse().unwrap()));
    }
}
