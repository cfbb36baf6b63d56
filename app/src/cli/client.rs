//! Options of the commands that are clients of a broker.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sangam_client::{Address, ProxyAddress, Token};
use sangam_jitter::Kind;
use sangam_model::{Filter, Topic};

use crate::config::MediaSpec;

pub(super) const LOCAL: &str = "udp://127.0.0.1:4600";

/// How a client reaches its broker.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Peer {
    /// Use TCP where the address says nothing else
    #[arg(long, global = true)]
    pub(crate) tcp: bool,
    /// How long to try to reach the broker, in seconds, for each address
    #[arg(long, value_name = "SECONDS", default_value_t = 5, global = true)]
    pub(crate) connect_timeout: u64,
    /// Authority that issued the broker's certificate (PEM) [default: what the system trusts]
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) ca: Option<PathBuf>,
    /// Name the broker's certificate must have [default: the host of the address]
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) server_name: Option<String>,
    /// Take any certificate; only for a broker on this machine
    #[arg(long, conflicts_with = "ca", global = true)]
    pub(crate) insecure: bool,
    /// Proxy for tcp, tls, ws and wss: http://[USER:PASSWORD@]HOST:PORT [default: HTTPS_PROXY
    /// without the hosts of NO_PROXY]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) proxy: Option<ProxyAddress>,
    /// Token for brokers that ask for one; others on this machine may see it here, so prefer
    /// the variable or a file
    #[arg(
        long,
        value_name = "TOKEN",
        env = "SANGAM_TOKEN",
        hide_env_values = true
    )]
    pub(crate) token: Option<Token>,
    /// File with the token; when it changes, the newer token is shown without a gap
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Options of `sangam publish`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["rtp", "file", "reliable"]))]
pub(crate) struct PublishArgs {
    /// Broker to publish through: HOST:PORT, or with quic://, tcp://, tls://, ws:// or
    /// wss:// in front; repeat it for other ways to the same broker, best first
    #[arg(long, visible_alias = "broker", value_name = "ADDRESS", default_value = LOCAL)]
    pub(crate) to: Vec<Address>,
    #[command(flatten)]
    pub(crate) peer: Peer,
    /// Topic; a file's streams become TOPIC/audio and TOPIC/video
    #[arg(long, value_parser = Topic::new)]
    pub(crate) topic: Topic,
    /// Take raw RTP on this address (RTCP on the same port or the next)
    #[arg(long, value_name = "ADDR:PORT", requires = "media")]
    pub(crate) rtp: Option<SocketAddr>,
    /// What comes in there: opus, h264, vp8, ... or in SDP's words: "96 H264/90000 fmtp"
    #[arg(long, value_name = "MEDIA", requires = "rtp")]
    pub(crate) media: Option<MediaSpec>,
    /// Play this file in real time (through FFmpeg, as H.264 and Opus)
    #[arg(long, value_name = "CLIP")]
    pub(crate) file: Option<PathBuf>,
    /// Publish the lines of standard input on a reliable topic: each comes once and in order,
    /// whatever fails; ends once the network holds them
    #[arg(long)]
    pub(crate) reliable: bool,
    /// Send the file's streams as they are, without encoding
    #[arg(long, requires = "file")]
    pub(crate) copy: bool,
    /// Begin again at the end of the file
    #[arg(long = "loop", requires = "file")]
    pub(crate) repeat: bool,
    /// Stop after so many seconds
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
}

/// Options of `sangam play`.
#[derive(Args, Debug)]
pub(crate) struct PlayArgs {
    /// Broker to receive from: HOST:PORT, or with quic://, tcp://, tls://, ws:// or wss:// in
    /// front; repeat it for other ways to the same broker, best first
    #[arg(long, visible_alias = "broker", value_name = "ADDRESS", default_value = LOCAL)]
    pub(crate) from: Vec<Address>,
    #[command(flatten)]
    pub(crate) peer: Peer,
    /// Topic or filter, such as 'demo/#'; may be repeated
    #[arg(
        long,
        value_name = "FILTER",
        value_parser = Filter::new,
        required_unless_present = "film"
    )]
    pub(crate) topic: Vec<Filter>,
    /// Play a film of an archive instead: rtsp://HOST:8554/archive/FILM, each block from the node
    /// that has it; --out FILE takes the transport stream as it is, --out - gives it to a pipe
    #[arg(
        long,
        value_name = "URL",
        conflicts_with_all = ["topic", "reliable", "rtp", "sdp", "max_latency"]
    )]
    pub(crate) film: Option<String>,
    /// Begin at this second of the film
    #[arg(long, value_name = "SECONDS", default_value_t = 0, requires = "film")]
    pub(crate) start: u64,
    /// By which curve the film is sent
    #[arg(long, value_enum, default_value_t, requires = "film")]
    pub(crate) pace: FilmPace,
    /// The film's buffer, in seconds of its mean rate
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 4,
        value_parser = clap::value_parser!(u8).range(1..=120),
        requires = "film"
    )]
    pub(crate) buffer: u8,
    /// Let one node send all of the film, as ordinary players do
    #[arg(long, requires = "film")]
    pub(crate) relay: bool,
    /// Another node by which the film goes on if the URL's fails, besides those that it tells of;
    /// may be repeated
    #[arg(long, value_name = "HOST:PORT", requires = "film")]
    pub(crate) front: Vec<String>,
    /// File with NAME:PASSWORD in its first line, for a server of films that wants to know who
    /// plays; or write them into the URL: rtsp://NAME:PASSWORD@HOST/...
    #[arg(long, value_name = "FILE", requires = "film")]
    pub(crate) credentials: Option<PathBuf>,
    /// Print the events of reliable topics, each as a line
    #[arg(long, conflicts_with_all = ["rtp", "sdp", "out", "max_loss", "max_latency"])]
    pub(crate) reliable: bool,
    /// Begin with up to so many of the latest events that are kept
    #[arg(long, value_name = "N", default_value_t = 0, requires = "reliable")]
    pub(crate) replay: u32,
    /// End after so many events; with exit code 10 if fewer come
    #[arg(long, value_name = "N", requires = "reliable")]
    pub(crate) events: Option<u64>,
    /// Send RTP to this address: the first stream to PORT, the next to PORT+2, and so on
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) rtp: Option<SocketAddr>,
    /// Write an SDP file that players can open
    #[arg(long, value_name = "FILE")]
    pub(crate) sdp: Option<PathBuf>,
    /// Record to a file that players can open (through FFmpeg), such as live.mkv
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// What evens out jitter and order: ours, wmjitter, neteq or fixed (four packets)
    #[arg(long, value_name = "RECEIVER", value_enum, default_value_t)]
    pub(crate) jitter: Jitter,
    /// Stop after so many seconds
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
    /// End with exit code 10 if more than so many percent of the packets are lost
    #[arg(long, value_name = "PERCENT")]
    pub(crate) max_loss: Option<f64>,
    /// End with exit code 10 if the 99th percentile of the latency exceeds so many milliseconds
    #[arg(long, value_name = "MS")]
    pub(crate) max_latency: Option<f64>,
}

/// How fast a film comes before its client asks for more or for less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FilmPace {
    /// As its own clock says
    #[default]
    Clock,
    /// Evenly, at its mean rate: wants a buffer that is deep enough for its longest rich scene
    Average,
}

/// Receivers for live media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Jitter {
    /// Waits for what is missing as long as that pays
    #[default]
    Ours,
    /// Watermarks
    Wmjitter,
    /// As WebRTC does
    Neteq,
    /// Four packets
    Fixed,
}

impl Jitter {
    /// The receiver of `core/jitter`.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Ours => Kind::Ours,
            Self::Wmjitter => Kind::WmJitter,
            Self::Neteq => Kind::NetEq,
            Self::Fixed => Kind::Fixed,
        }
    }
}

/// Options of `sangam demo`.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// A meeting instead: two brokers, two guests, and a link for your browser
    #[arg(long)]
    pub(crate) meeting: bool,
    /// How long to run, in seconds [default: 20; a meeting on a terminal: until ctrl-c]
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
    /// Folder for the clip, the SDP and the recording
    #[arg(long, value_name = "DIR", default_value = "out")]
    pub(crate) out: PathBuf,
    /// Clip to show instead of the generated one
    #[arg(long, value_name = "CLIP")]
    pub(crate) clip: Option<PathBuf>,
}
