//! Reliable topics: ordered for each publisher, without loss or duplicates, whatever links and
//! brokers do. `docs/spec/reliable.md` tells what is promised and what is not.
//!
//! # Who keeps what
//! Records are numbered by their publishers and never change, so logs of one topic can always be
//! put together: there is no leader to elect and nothing to agree on. Each topic has two **homes**,
//! found by hashing its session's name. A publisher's broker passes what it pushes to the first
//! home; the homes feed each other, and once both hold a record its publisher hears so. Brokers
//! with subscribers attach to a home and keep a copy of what it keeps, from which they feed their
//! clients. All attach in one way: behind what they have, so whoever was away or changes homes goes
//! on where it stood.
//!
//! # What is here
//! - [`Keeper`]: a broker's part, with a [`replica`](crate) of each topic that concerns it.
//! - [`Member`]: a client's part: its publishers' windows and its subscriptions.
//!
//! Both share one contract: `handle` what happened, `poll` until `None`, come again at `deadline`.

mod counters;
mod feed;
mod keeper;
pub mod limits;
mod log;
mod member;
mod peer;
mod publisher;
mod replica;
mod subscription;
mod upstream;
mod ways;
mod writes;

pub use counters::Counters;
pub use keeper::{Homes, Input, Keeper, KeeperConfig, Output};
pub use limits::Limits;
pub use member::{Event, Member, MemberError};
pub use peer::{ClientId, Peer};
pub use ways::Way;
pub use writes::Change;
