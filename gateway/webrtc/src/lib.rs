//! The WebRTC gateway: browsers, OBS, GStreamer and FFmpeg in the broker's delivery shards.
//!
//! [`WebRtc`] is the handle. A broker hosts it as a [`sangam_io::port::Gateway`]: each shard gets a
//! port of it, with sockets of its own on the one public number (UDP, and TCP where UDP does not
//! pass). Whoever speaks HTTP hands offers to [`WebRtc::join`] and gets answers: WHIP (RFC 9725) to
//! publish, WHEP to play.
//!
//! A packet's way in: `inbound` finds the peer (STUN requests name its shard, see `credentials`;
//! other packets are known by their address, see `table`, and handshakes may be `early`), `peer`
//! drives the library's machine for it, `ingest` makes events, also of lost sound that came with
//! what followed (`recovery`). Its way out: the shard hands a burst to `port`, `egress` puts it
//! into the right medium (`slot`) of each receiver with the numbers of `rewrite` and the layer that
//! `layers` chooses, and sound with the packet before for who wants it (`redundancy`), the library
//! encrypts, and `outbox` sends for all peers together. `tcp` carries the same in units of
//! connections.
//!
//! `signalling` answers offers in the thread of whoever asks: a shard only ever sees peers that
//! are ready.

mod clock;
mod counts;
mod credentials;
mod early;
mod egress;
mod end;
mod gateway;
mod inbound;
mod ingest;
mod item;
mod layers;
mod offer;
mod outbox;
mod peer;
mod places;
mod port;
mod recovery;
mod redundancy;
mod rewrite;
mod shown;
mod signalling;
mod slot;
mod table;
mod tcp;

pub use gateway::{Counted, Settings, WebRtc};
pub use offer::{OFFER_LEN_MAX, OfferError};
pub use shown::{SHOWN_MAX, SHOWN_MEDIA_MAX, Shown};
pub use signalling::{Description, Join, JoinError, Joined, PeerId, Wish};
