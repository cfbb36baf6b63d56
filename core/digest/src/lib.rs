//! Many brokers' figures in few bytes: what monitoring costs the links of the network.
//!
//! A [`Digest`] is what one broker measured, without names where they are known already. A
//! [`Merger`] hears digests, of one broker or of a cell of them (`sangam_route::cells`), and
//! writes events for those who want the whole: never more bytes than its budget, what changed
//! before what did not, and of what did not the oldest first. [`decode`] reads them.
//!
//! Moments are carried as ages, so clocks need not agree; each link has its own.
//!
//! ```
//! use sangam_digest::{Budget, Digest, Merger, Row, decode};
//! use sangam_model::{BrokerId, Time};
//!
//! let mut head = Merger::new(Budget { bytes_per_s: 1_000, brokers: 2 });
//! for broker in [7, 8] {
//!     head.hear(Time::from_millis(500), Row::Digest(Digest::new(BrokerId(broker), Time::ZERO)));
//! }
//! let event = head.next(Time::from_millis(1_000)).unwrap();
//! let heard = decode(Time::from_millis(5_000), &event).unwrap();
//! // Who lives, and a digest of each.
//! assert_eq!((heard.brokers, heard.rows.len()), (2, 3));
//! ```
//!

mod code;
mod digest;
mod merger;
mod news;

pub use code::{DecodeError, EVENT_LEN_MAX, Merged, brokers, decode, encode};
pub use digest::{
    BEAT_MAX, BROKER, Digest, LINK, LINKS_MAX, Link, Names, Row, WORD_MAX, broker, link,
};
pub use merger::{Budget, EVENT_HEADERS, FORGET_AFTER, MEMBERS_MAX, Merger, beat_every};
