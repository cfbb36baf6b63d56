//! Publish and subscribe, the same way in process and over a link.
//!
//! ```no_run
//! use std::time::Duration;
//! use sangam_client::{Client, ClientOptions, Outgoing, Received, Target};
//! use sangam_model::{Filter, MediaInfo, Topic};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let target = Target::Udp("127.0.0.1:7400".parse()?);
//! let mut client = Client::connect(target, ClientOptions::default())?;
//! client.wait_up(Duration::from_secs(5))?;
//!
//! client.subscribe(&Filter::new("demo/#")?)?;
//! let topic = Topic::new("demo/hello")?;
//! let mut hello = client.publish(&topic, MediaInfo::data(), Duration::from_secs(5))?;
//! hello.send(Outgoing::new(b"hello"))?;
//! while let Some(received) = client.recv(Duration::from_secs(1)) {
//!     if let Received::Event(packet) = received {
//!         println!("{} bytes", packet.len());
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Two halves
//! A [`Client`] receives and asks; each [`Publisher`] sends one stream and may live in another
//! thread. Neither ever waits for the network, except where a method takes a timeout.
//!
//! # Many ways
//! [`Target`] says how the broker is reached: by datagrams, by a byte stream (TCP, TLS, WebSocket),
//! or through a door in the same process. Over a network one thread for each client (`driver/`)
//! keeps the link; the client itself only knows the door between them.
//!
//! Of several [`Address`]es the first that works is used. On a lower one the driver tries a better
//! one from time to time and moves over: the new link is up and everything is restored there
//! before the old one ends, and what comes by both is handed on once.
//!
//! # When the link dies
//! The driver dials again, with growing pauses, and restores every subscription and publication;
//! [`Received::Down`] and [`Received::Up`] tell of it. A publisher goes on by itself under a new
//! stream id; what it sends in between is dropped and counted. After `Up` the broker announces
//! its streams anew: what it does not announce is gone.
//!
//! # What a client may do
//! A broker may ask for a [`Token`]; see [`ClientOptions::token`]. When its time is over, or it is
//! refused, [`Received::Token`] tells so and what was asked for rests, until
//! [`Client::set_token`] brings a newer one; one that comes in time goes on without a gap.
//!
//! # In time
//! Events come as the network delivers them. [`Playout`] hands on the RTP packets of a stream in
//! order and evenly, by a receiver of `core/jitter`.
//!
//! # When somebody is too slow
//! Every queue is bounded. A client that does not read loses video first, by whole frames until
//! the next key frame, then everything else but control messages; see [`Client::counters`].
//!
//! # Reliable topics
//! [`Client::publish_reliable`] and [`Client::subscribe_reliable`] are for data that must come:
//! chat, whiteboards, session control. Each event comes once and in the order of its publisher,
//! over reconnections as well. They need somebody to receive: acknowledgements and repetitions are
//! done by [`Client::recv`] and [`Client::try_recv`].
//!
//! # Order
//! An announcement comes before the events of its stream unless its datagram was lost on the
//! way: an event of an unknown stream is no error, its announcement follows.

mod address;
mod client;
mod counters;
mod driver;
mod error;
mod incoming;
mod options;
mod pass;
mod playout;
mod publisher;
mod received;
mod reliable;
mod shared;
mod state;
mod way;

pub use address::{Address, AddressError, ProxyAddress, Scheme};
pub use client::Client;
pub use counters::ClientCounters;
pub use error::{ClientError, SendError};
pub use options::{Buffers, ClientOptions, StreamOptions, Target, Token, TokenError};
pub use playout::Playout;
pub use publisher::{Numbering, Outgoing, Publisher};
pub use received::{Received, UpInfo};
pub use reliable::{ReliableError, ReliableEvent, ReliablePublisher};
