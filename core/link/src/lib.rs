//! One link between two endpoints: how it comes up, stays up, is measured and ends.
//!
//! Pure: time is given, randomness comes from a seed, bytes are borrowed. The same code runs in
//! the broker's shards, in native clients, in the load generator and under a fuzzer.
//!
//! # A link's life
//! 1. The [`Dialer`] sends a hello. The acceptor judges it by [`Acceptor::judge`], without any
//!    memory of it: it asks for a cookie ([`Verdict::Retry`]), refuses, or accepts.
//! 2. On [`Verdict::Accept`] the acceptor draws a session number, sends the welcome and makes a
//!    [`Session`]. The dialer makes its own when the welcome arrives ([`DialOutput::Up`]).
//! 3. The two sessions carry control messages in order and once, watch that the peer lives, and
//!    measure round trip and clock offset.
//! 4. [`Output::Down`] ends a session. The dialer dials again, with growing pauses.
//!
//! # How to drive it
//! After each `handle` call `poll(now)` until it returns `None`; call it again at `deadline()`.
//! Everything is bounded, so a caller that polls late loses nothing but time. Several
//! [`Input::Send`] before one round of polls leave in as few frames as hold them.
//!
//! # What is also here
//! [`fragment()`] and [`Reassembler`] carry events over links whose datagrams are too small for
//! them; [`ReceiverStats`] measures what arrives of a stream, as RFC 3550 does.

mod acceptor;
mod attempt;
mod channel;
mod clock;
mod cookie;
mod dialer;
mod fragment;
mod ladder;
mod liveness;
mod losses;
mod measure;
mod pacer;
mod path;
mod quiet;
mod rate;
mod reassemble;
mod receive;
mod rtt;
mod session;
mod stats;
mod timing;
mod uptake;

pub use acceptor::{Acceptor, Verdict};
pub use clock::ClockOffset;
pub use cookie::{Caller, CookieJar};
pub use dialer::{DialInput, DialOutput, Dialer, DialerConfig};
pub use fragment::{FragmentError, Fragments, fragment};
pub use ladder::{Ladder, LadderConfig};
pub use losses::{Losses, Segments};
pub use measure::Sample;
pub use pacer::Pacer;
pub use quiet::Lively;
pub use rate::{AckFeed, Mode, RateController};
pub use reassemble::{Reassembler, ReassemblyCounters};
pub use session::{Asks, Counters, Input, Output, Session, SessionConfig};
pub use stats::{Arrival, ReceiverStats};
pub use timing::{Backoff, Timing};
pub use uptake::Uptake;
