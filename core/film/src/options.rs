//! How a film is to be played.

use core::time::Duration;
use std::net::SocketAddr;

use crate::digest::Credentials;

/// By which curve the server sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// Each packet when the film's clock says so; the buffer is measured in time.
    Clock,
    /// At the film's mean rate; the buffer is measured in bytes.
    #[default]
    Average,
    /// The smoothest that a buffer of so many bytes allows.
    Smooth(u64),
}

/// How to play.
#[derive(Clone, Debug)]
pub struct Options {
    /// What: `rtsp://HOST[:PORT]/archive/FILM`.
    pub url: String,
    /// Where packets are taken: RTP and RTCP.
    pub ports: (u16, u16),
    /// Where in the film to begin.
    pub from: Duration,
    /// By which curve the server sends.
    pub pace: Pace,
    /// The buffer, in seconds of the film's mean rate.
    pub buffer: Duration,
    /// How much of it is filled before playing begins, 0 to 1.
    pub begin: f64,
    /// Thresholds of the flow control; `None`: the server's pace stays as it is.
    pub thresholds: Option<usize>,
    /// Whether to ask for what is lost.
    pub repair: bool,
    /// Whether to ask for packets from the nodes themselves; else all come by one.
    pub direct: bool,
    /// Who asks, where a server wants to know.
    pub login: Option<Credentials>,
    /// Nodes by which the film goes on if the one that was asked fails, besides those that it tells
    /// of.
    pub fronts: Vec<SocketAddr>,
}
