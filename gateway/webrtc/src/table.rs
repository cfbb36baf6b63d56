//! Whose an address is, and the ways between the shards of one broker.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use sangam_io::pool::Packet;
use sangam_io::port::PeerKey;
use sangam_io::wake::Waker;
use sangam_model::Time;

use crate::signalling::Command;
use crate::tcp::Moved;

/// Addresses that one shard remembers; beyond, those not confirmed for a while make room.
const ADDRESSES: usize = 65_536;
/// RFC 7675 section 5.1: consent that is not renewed ends after 30 s, and with it the claim to an
/// address.
const CLAIM: Duration = Duration::from_secs(30);

/// Where the peer at an address lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// In this shard.
    Here(PeerKey),
    /// In another one.
    Shard(u16),
}

/// Addresses that have proved to belong to a peer.
#[derive(Debug, Default)]
pub(crate) struct Table {
    homes: HashMap<SocketAddr, (Home, Time)>,
}

impl Table {
    pub(crate) fn home(&self, address: SocketAddr) -> Option<Home> {
        self.homes.get(&address).map(|(home, _)| *home)
    }

    /// The peer at `home` has signed from this address; false if it is another's, or if there are
    /// too many. Without that anybody who forges addresses could turn a peer's packets away.
    pub(crate) fn claim(&mut self, address: SocketAddr, home: Home, now: Time) -> bool {
        if let Some((known, since)) = self.homes.get_mut(&address) {
            if *known != home && now - *since < CLAIM {
                return false;
            }
            (*known, *since) = (home, now);
            return true;
        }
        if self.homes.len() >= ADDRESSES {
            self.homes.retain(|_, (_, since)| now - *since < CLAIM);
        }
        if self.homes.len() >= ADDRESSES {
            return false;
        }
        self.homes.insert(address, (home, now));
        true
    }

    pub(crate) fn forget(&mut self, address: SocketAddr) {
        self.homes.remove(&address);
    }
}

/// What one shard tells another.
pub(crate) enum Note {
    /// A datagram for a peer of yours.
    Datagram {
        packet: Packet,
        from: SocketAddr,
        to: SocketAddr,
        via: u16,
    },
    /// What comes to you from this address is mine.
    Owner { from: SocketAddr, shard: u16 },
    /// It is nobody's any more.
    Gone(SocketAddr),
    /// A connection whose first unit names a peer of yours.
    Connection(Box<Moved>),
}

/// A way to one shard.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) commands: SyncSender<Command>,
    pub(crate) notes: SyncSender<Note>,
    pub(crate) waker: Waker,
}

/// All shards, and how many peers they have together. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    ways: Arc<[Way]>,
    peers: Arc<AtomicUsize>,
}

impl Group {
    pub(crate) fn new(ways: Vec<Way>) -> Self {
        Self {
            ways: ways.into(),
            peers: Arc::default(),
        }
    }

    /// How many shards there are.
    pub(crate) fn len(&self) -> usize {
        self.ways.len()
    }

    /// Tells a shard something; false if it cannot take it now, or does not exist.
    pub(crate) fn tell(&self, shard: u16, note: Note) -> bool {
        let Some(way) = self.ways.get(usize::from(shard)) else {
            return false;
        };
        let told = way.notes.try_send(note).is_ok();
        way.waker.wake();
        told
    }

    /// Asks a shard something; false if it has stopped or does not exist. Blocks while it is busy.
    pub(crate) fn ask(&self, shard: u16, command: Command) -> bool {
        let Some(way) = self.ways.get(usize::from(shard)) else {
            return false;
        };
        let asked = way.commands.send(command).is_ok();
        way.waker.wake();
        asked
    }

    /// One more peer, if there may be one more than `most` less one.
    pub(crate) fn enters(&self, most: usize) -> bool {
        let more = |peers: usize| (peers < most).then_some(peers + 1);
        self.peers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// One peer less.
    pub(crate) fn left(&self) {
        self.peers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Peers in all shards.
    pub(crate) fn peers(&self) -> usize {
        self.peers.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn an_address_stays_whose_it_is_until_the_claim_is_old() {
        let mut table = Table::default();
        let (first, second) = (Home::Here(1), Home::Shard(3));
        assert!(table.claim(address(9), first, Time::ZERO));
        assert!(!table.claim(address(9), second, Time::from_millis(29_999)));
        assert_eq!(table.home(address(9)), Some(first));
        assert!(table.claim(address(9), second, Time::from_millis(30_000)));
        assert_eq!(table.home(address(9)), Some(second));
        table.forget(address(9));
        assert_eq!(table.home(address(9)), None);
    }

    #[test]
    fn a_full_table_lets_go_of_old_claims_only() {
        let mut table = Table::default();
        let at = |n: usize| SocketAddr::from(([10, (n >> 16) as u8, 0, 1], n as u16));
        for n in 0..ADDRESSES {
            assert!(table.claim(at(n), Home::Shard(0), Time::ZERO));
        }
        assert!(!table.claim(at(ADDRESSES), Home::Shard(0), Time::from_millis(1)));
        assert!(table.claim(at(ADDRESSES), Home::Shard(0), Time::from_millis(30_000)));
        assert_eq!(table.homes.len(), 1);
    }
}
