//! How a client plays a stored film: what it says to its server, what it holds, which rate it
//! asks for, and which packets it asks for again. `docs/spec/film-delivery.md` is what both
//! ends keep to.
//!
//! [`Session`] is all of it, without a socket: bytes of the RTSP connection and datagrams go in,
//! bytes and datagrams come out. It is made of
//!
//! - [`Dialog`], the client's half of RTSP, which answers challenges;
//! - [`Order`], packets by their global sequence numbers until each is played, and when that is;
//! - [`Losses`], what each node's local sequence numbers say is lost, and when to ask for it;
//! - [`Flow`], multi-threshold flow control.
//!
//! If the node that was asked, the front, fails, the session wants a connection to another one
//! ([`Session::wants`]) and goes on there with the first packet that it lacks, while what it holds
//! is played.
//!
//! Nothing here reads a clock: time is given. A session for which nothing comes costs nothing but a
//! look at [`Session::tick`] each [`TICK`].

mod answers;
mod dialog;
mod digest;
mod failure;
mod flow;
mod fronts;
mod losses;
mod nack;
mod numbers;
mod options;
mod order;
mod session;

pub use answers::{Node, Place, Setup};
pub use dialog::{Answer, Dialog, DialogError, Said, at_front, split_login};
pub use digest::{Algorithm, Credentials, Hash};
pub use failure::Failure;
pub use flow::{Flow, RATE_MAX, RATE_MIN, THRESHOLDS, THRESHOLDS_MAX};
pub use losses::{Ask, Losses};
pub use numbers::{Numbers, extend};
pub use options::{Options, Pace};
pub use order::{Held, Order, Played};
pub use session::{Counts, Session, Stage, TICK};
