//! What a server's answers say: docs/spec/film-delivery.md.

use core::time::Duration;
use std::net::SocketAddr;

use crate::dialog::Answer;

/// Nodes of an answer that are looked at.
const NODES_MAX: usize = 256;

/// A node that sends blocks of a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number, from 1.
    pub number: u16,
    /// Whence its packets come.
    pub rtp: Option<SocketAddr>,
    /// Where it hears what is lost.
    pub rtcp: Option<SocketAddr>,
    /// Where it can be the front.
    pub rtsp: Option<String>,
    /// The source that stands for its local numbers.
    pub ssrc: u32,
}

/// What SETUP gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// The source of the film's packets, if it was told.
    pub ssrc: Option<u32>,
    /// The server's ports.
    pub server_ports: Option<(u16, u16)>,
    /// Who sends; empty where an ordinary session was set up.
    pub nodes: Vec<Node>,
    /// Datagrams of the film.
    pub datagrams: Option<u64>,
    /// Its length in seconds.
    pub seconds: Option<f64>,
}

/// Where playing begins.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Place {
    /// In the film.
    pub at: Duration,
    /// The number of the first packet: 32 bits where `datagram` is known, else 16.
    pub gsn: Option<u64>,
    /// The datagram that it is.
    pub datagram: Option<u64>,
    /// The RTP timestamp of that moment.
    pub timestamp: Option<u32>,
}

impl Setup {
    /// Reads the answer to SETUP.
    #[must_use]
    pub fn read(answer: &Answer) -> Self {
        let transport = answer.header("Transport").unwrap_or_default();
        let field = |name| find(transport, name);
        let ports = field("server_port").and_then(|ports| {
            let (rtp, rtcp) = ports.split_once('-')?;
            Some((rtp.trim().parse().ok()?, rtcp.trim().parse().ok()?))
        });
        let film = answer.header("Sangam-Film").unwrap_or_default();
        let nodes = answer.header("Sangam-Nodes").unwrap_or_default();
        let nodes = nodes.split(',').take(NODES_MAX).filter_map(Node::read);
        Self {
            ssrc: field("ssrc").and_then(|ssrc| u32::from_str_radix(ssrc, 16).ok()),
            server_ports: ports,
            nodes: nodes.collect(),
            datagrams: find(film, "datagrams").and_then(|count| count.parse().ok()),
            seconds: find(film, "seconds").and_then(seconds),
        }
    }

    /// Bytes of the film in a second, the mean of all of it.
    #[must_use]
    pub fn bytes_per_s(&self, datagram: usize) -> Option<f64> {
        let seconds = self.seconds.filter(|seconds| *seconds > 0.0)?;
        Some(self.datagrams? as f64 * datagram as f64 / seconds)
    }
}

impl Node {
    fn read(text: &str) -> Option<Self> {
        let number = text.split(';').next()?.trim().parse().ok()?;
        let field = |name| find(text, name);
        Some(Self {
            number,
            rtp: field("rtp").and_then(|address| address.parse().ok()),
            rtcp: field("rtcp").and_then(|address| address.parse().ok()),
            rtsp: field("rtsp").map(str::to_owned),
            ssrc: u32::from_str_radix(field("ssrc")?, 16).ok()?,
        })
    }
}

impl Place {
    /// Reads the answer to PLAY.
    #[must_use]
    pub fn read(answer: &Answer) -> Self {
        let range = answer.header("Range").unwrap_or_default();
        let from = range.trim().strip_prefix("npt=");
        let from = from.and_then(|range| seconds(range.split('-').next()?));
        let info = answer.header("RTP-Info").unwrap_or_default();
        let play = answer.header("Sangam-Play").unwrap_or_default();
        let number = |text: &str, name| find(text, name).and_then(|number| number.parse().ok());
        Self {
            at: Duration::try_from_secs_f64(from.unwrap_or(0.0)).unwrap_or_default(),
            gsn: number(play, "gsn").or_else(|| number(info, "seq")),
            datagram: number(play, "datagram"),
            timestamp: find(info, "rtptime").and_then(|time| time.parse().ok()),
        }
    }
}

/// The value of `name=value` among such between semicolons, without its quotes.
fn find<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let fields = text
        .split(';')
        .filter_map(|field| field.trim().split_once('='));
    let mut fields = fields.filter(|(known, _)| known.trim().eq_ignore_ascii_case(name));
    fields
        .next()
        .map(|(_, value)| value.trim().trim_matches('"'))
}

/// A number of seconds that makes sense.
fn seconds(text: &str) -> Option<f64> {
    let seconds: f64 = text.trim().parse().ok()?;
    (0.0..1e9).contains(&seconds).then_some(seconds)
}
