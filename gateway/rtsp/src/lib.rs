//! The RTSP gateway: recordings of an archive and what is published now, for FFmpeg, GStreamer, VLC
//! and whatever else plays `rtsp://` (RFC 2326, RFC 7826), by UDP or within the connection, which
//! may be encrypted; and what cameras and encoders publish.
//!
//! [`Rtsp`] is the handle of one thread with epoll. `accept` has the listeners, `connection` is one
//! client's TCP connection, `wire` what lies on its socket,
//! `message` finds requests in it, `signalling` answers them, `transport` and `sdp` are the parts
//! of answers that have a form of their own. `session` is who plays what, `player` when each packet
//! of a recording is due, `egress` gives packets the numbers of one clean stream and reports on it.
//!
//! The thread never waits for a disk: `reading` has threads that open recordings and read ahead,
//! a second of film at a time, and hand over what they read.
//!
//! `live` is a client of a broker in the same thread: one subscription for each topic that somebody
//! watches, whose events go to all who do. Nobody waits for a player that does not read: it loses
//! pictures up to the next key frame.
//!
//! `deliver` sends films by datagrams, from this node or from all nodes of an archive, in a thread
//! of its own.
//!
//! `ingest` is another client of the broker, by which things are published. `features` and `notify`
//! are what RTSP 2.0 has beyond 1.0.
//!
//! All bounds stand in [`Settings`] and `limits`; whoever is refused is counted ([`Rtsp::counts`]).

mod accept;
mod auth;
mod connection;
mod counts;
mod datagrams;
mod date;
mod deliver;
mod egress;
mod features;
mod film;
mod ingest;
mod limits;
mod live;
mod md5;
mod message;
mod notify;
mod pace;
mod path;
mod play;
mod player;
mod range;
mod reading;
mod sdp;
mod server;
mod session;
mod setup;
mod signalling;
mod sweep;
mod token;
mod transport;
mod turn;
mod wind;
mod wire;

pub use auth::{Algorithm, Credentials};
pub use counts::{Counted, Metric};
pub use server::{Links, Rtsp, Settings, Standing};
