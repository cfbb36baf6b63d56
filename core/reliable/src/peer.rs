//! With whom a keeper speaks.

use sangam_model::BrokerId;

/// A client of this broker, by a number that is its own while it is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// Who says or is told something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// Another broker.
    Broker(BrokerId),
    /// A client of this broker.
    Client(ClientId),
}
