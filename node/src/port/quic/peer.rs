//! One client over QUIC.

use std::net::IpAddr;

use sangam_link::Session;

use crate::shedders::Shedders;

/// A connection.
pub(super) struct Peer {
    /// Whence it came; it may have moved since.
    pub(super) address: IpAddr,
    /// Its address has all the clients it may have.
    pub(super) surplus: bool,
    /// None until the hello.
    pub(super) session: Option<Session>,
    pub(super) shedders: Shedders,
}

impl Peer {
    pub(super) fn new(address: IpAddr, surplus: bool) -> Self {
        Self {
            address,
            surplus,
            session: None,
            shedders: Shedders::default(),
        }
    }
}
