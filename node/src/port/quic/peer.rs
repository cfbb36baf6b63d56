//! One client over QUIC.

use crate::port::client::Client;
use crate::shedders::Shedders;

/// A connection.
pub(super) struct Peer {
    pub(super) client: Client,
    pub(super) shedders: Shedders,
}

impl Peer {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            shedders: Shedders::default(),
        }
    }
}
