//! What a broker is told: a TOML file, `SANGAM_*` variables and options, in rising order.

mod auth;
mod check;
mod example;
mod keys;
mod load;
mod login;
mod media;
mod multicast;
mod neighbour;
mod page;
mod reliable;
mod routing;
mod rtsp;
mod rules;
mod sessions;
mod threshold;
mod webrtc;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use sangam_model::limits;
use serde::{Deserialize, Serialize};

use crate::network::Network;

pub(crate) use auth::{Auth, AuthKey, NamedKey, SECRET_LEN_MIN};
pub(crate) use check::{advice, check, check_leg, check_name};
pub(crate) use example::EXAMPLE;
pub(crate) use load::{ConfigError, Problem, load};
pub(crate) use login::Login;
pub(crate) use media::MediaSpec;
pub(crate) use multicast::Multicast;
pub(crate) use neighbour::{LinkAddress, Neighbour, Proxy, by_host};
pub(crate) use page::Page;
pub(crate) use reliable::Reliable;
pub(crate) use routing::Routing;
pub(crate) use rtsp::Rtsp;
pub(crate) use rules::{Id, Weight};
pub(crate) use sessions::Sessions;
pub(crate) use threshold::Threshold;
pub(crate) use webrtc::WebRtc;

/// The port of UDP and TCP unless told otherwise.
pub(crate) const PORT: u16 = 4_600;
/// How far WebRTC's port lies above it where only that one is given.
const WEBRTC_ABOVE: u16 = 10;

/// The whole configuration. `sangam config example` explains every key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Config {
    pub(crate) broker: Broker,
    pub(crate) listen: Listen,
    pub(crate) tls: Tls,
    pub(crate) links: Links,
    pub(crate) routing: Routing,
    pub(crate) api: Api,
    pub(crate) webrtc: WebRtc,
    pub(crate) rtsp: Rtsp,
    pub(crate) auth: Auth,
    pub(crate) sessions: Sessions,
    pub(crate) login: Login,
    pub(crate) page: Page,
    pub(crate) limits: Limits,
    pub(crate) reliable: Reliable,
    pub(crate) multicast: Multicast,
    #[serde(rename = "link", skip_serializing_if = "Vec::is_empty")]
    pub(crate) neighbours: Vec<Neighbour>,
    #[serde(rename = "leg", skip_serializing_if = "Vec::is_empty")]
    pub(crate) legs: Vec<Leg>,
    #[serde(rename = "threshold", skip_serializing_if = "Vec::is_empty")]
    pub(crate) thresholds: Vec<Threshold>,
}

/// The broker itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Broker {
    pub(crate) name: String,
    pub(crate) region: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) shards: u16,
    pub(crate) queuing: Queuing,
    pub(crate) pool_small: usize,
    pub(crate) pool_large: usize,
    pub(crate) keepalive_ms: u16,
}

/// How relay and delivery share the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Queuing {
    /// Neighbours have their own thread; nothing local delays them.
    Double,
    /// The papers' baseline: one thread, first come first served.
    Single,
}

/// Where the broker listens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Listen {
    pub(crate) udp: Vec<SocketAddr>,
    pub(crate) tcp: Vec<SocketAddr>,
    pub(crate) tls: Vec<SocketAddr>,
    pub(crate) ws: Vec<SocketAddr>,
    pub(crate) wss: Vec<SocketAddr>,
    pub(crate) ws_origins: Vec<String>,
    pub(crate) quic: Vec<SocketAddr>,
    pub(crate) quic_links: Vec<SocketAddr>,
    pub(crate) webrtc: Vec<SocketAddr>,
    pub(crate) http: SocketAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) public: Option<SocketAddr>,
    pub(crate) public_links: Vec<LinkAddress>,
    pub(crate) socket_buffer: usize,
    pub(crate) datagram_max: u16,
}

/// What the broker shows, and whom it believes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Tls {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<PathBuf>,
}

/// Who may dial as a neighbour, whom to join, what holds for links with certain brokers, and by
/// which proxy streams reach them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Links {
    pub(crate) accept: Vec<Network>,
    pub(crate) join: Vec<LinkAddress>,
    pub(crate) weights: Vec<Weight>,
    pub(crate) forbid: Vec<Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) proxy: Option<Proxy>,
}

/// A raw RTP endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Leg {
    pub(crate) name: String,
    pub(crate) topic: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) media: Option<MediaSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) receive: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) send: Option<SocketAddr>,
    pub(crate) rtcp: Rtcp,
}

/// Where a leg's RTCP goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Rtcp {
    /// One port above RTP (RFC 3550 section 11).
    #[default]
    NextPort,
    /// The same port as RTP (RFC 5761).
    Mux,
}

/// Who may use the HTTP API.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Api {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
    pub(crate) legs_allow: Vec<Network>,
}

/// Bounds that may be lowered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Limits {
    pub(crate) clients: usize,
    pub(crate) clients_per_address: usize,
    pub(crate) publisher_packets_per_s: u32,
    pub(crate) webrtc_peers: usize,
}

impl Listen {
    /// All addresses for datagrams, by the name of their key.
    pub(crate) fn datagrams(&self) -> [(&'static str, &[SocketAddr]); 4] {
        [
            ("udp", &self.udp),
            ("quic", &self.quic),
            ("quic_links", &self.quic_links),
            ("webrtc", &self.webrtc),
        ]
    }

    /// All addresses for streams, by the name of their key.
    pub(crate) fn streams(&self) -> [(&'static str, &[SocketAddr]); 5] {
        [
            ("tcp", &self.tcp),
            ("tls", &self.tls),
            ("ws", &self.ws),
            ("wss", &self.wss),
            // For those whose network lets no UDP pass.
            ("webrtc", &self.webrtc),
        ]
    }
}

/// `host`, `host:port`, `192.0.2.1:4600` or `[2001:db8::1]:4600`; without a port [`PORT`];
/// names are resolved when dialled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct HostPort {
    /// Name or address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Config {
    /// What `--dev` starts from: this machine only.
    pub(crate) fn dev() -> Self {
        let both = |port| {
            vec![
                local_v4(port),
                SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port)),
            ]
        };
        Self {
            broker: Broker {
                name: "dev".to_owned(),
                ..Broker::default()
            },
            listen: Listen {
                udp: both(PORT),
                tcp: both(PORT),
                webrtc: both(PORT + WEBRTC_ABOVE),
                ..Listen::default()
            },
            auth: Auth {
                required: false,
                ..Auth::default()
            },
            sessions: Sessions {
                enabled: true,
                archive: Some(PathBuf::from("archive")),
                ..Sessions::default()
            },
            ..Self::default()
        }
    }
}

impl Listen {
    /// Moves UDP and TCP to these addresses, and WebRTC beside them if it is served.
    pub(crate) fn move_to(&mut self, addresses: &[SocketAddr]) {
        self.udp = addresses.to_vec();
        self.tcp = addresses.to_vec();
        if self.webrtc.is_empty() {
            return;
        }
        let beside = |address: &SocketAddr| match address.port() {
            0 => *address,
            port => SocketAddr::new(address.ip(), port.saturating_add(WEBRTC_ABOVE)),
        };
        self.webrtc = addresses.iter().map(beside).collect();
    }
}

impl Default for Broker {
    fn default() -> Self {
        Self {
            name: "sangam".to_owned(),
            region: String::new(),
            data_dir: None,
            shards: 0,
            queuing: Queuing::Double,
            pool_small: 32_768,
            pool_large: 256,
            keepalive_ms: 5_000,
        }
    }
}

impl Default for Listen {
    fn default() -> Self {
        let v4 = SocketAddr::from(([0_u8; 4], PORT));
        let v6 = SocketAddr::from(([0_u16; 8], PORT));
        Self {
            udp: vec![v4, v6],
            tcp: vec![v4, v6],
            tls: Vec::new(),
            ws: Vec::new(),
            wss: Vec::new(),
            ws_origins: Vec::new(),
            quic: Vec::new(),
            quic_links: Vec::new(),
            webrtc: Vec::new(),
            http: local_v4(4_680),
            public: None,
            public_links: Vec::new(),
            socket_buffer: 4 << 20,
            datagram_max: 1_472,
        }
    }
}

impl Default for Links {
    fn default() -> Self {
        Self {
            accept: loopback(),
            join: Vec::new(),
            weights: Vec::new(),
            forbid: Vec::new(),
            proxy: None,
        }
    }
}

impl Default for Api {
    fn default() -> Self {
        Self {
            token: None,
            legs_allow: loopback(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: limits::CLIENTS_PER_BROKER,
            clients_per_address: limits::CLIENTS_PER_ADDRESS,
            publisher_packets_per_s: limits::PUBLISHER_PACKETS_PER_S,
            webrtc_peers: limits::WEBRTC_PEERS_PER_BROKER,
        }
    }
}

fn local_v4(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn loopback() -> Vec<Network> {
    ["127.0.0.0/8", "::1"]
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect()
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: write host:port, such as broker.example.org:4600");
        let bare = || (text, None);
        let (host, port) = match text.ends_with(']') {
            true => bare(),
            false => text
                .rsplit_once(':')
                .map_or_else(bare, |(host, port)| (host, Some(port))),
        };
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| wrong()))?;
        let bare_v6 = host.contains(':') && !text.starts_with('[');
        if host.is_empty() || bare_v6 || host.contains(char::is_whitespace) {
            return Err(wrong());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl TryFrom<String> for HostPort {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<HostPort> for String {
    fn from(address: HostPort) -> Self {
        address.to_string()
    }
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

impl FromStr for Rtcp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "mux" => Ok(Self::Mux),
            "next-port" => Ok(Self::NextPort),
            _ => Err(format!("rtcp={text:?}: write mux or next-port")),
        }
    }
}
