//! How many whose address is not confirmed are answered.

use std::net::{IpAddr, SocketAddr};

use sangam_model::{Time, hash};

use crate::bucket::Bucket;

/// Groups of networks that have a share of their own.
const SHARES: usize = 256;

/// An answer costs a hash and a send, and nothing that stays; but all of them wait in the lane, so
/// their number is bounded: so many each second for whoever comes first, and once these are gone
/// as many again in equal shares, one for each group of networks. Who floods from some networks
/// keeps no others out. Who forges addresses of all of them does, by datagrams: there is no
/// telling a stranger from another.
#[derive(Debug)]
pub(super) struct Strangers {
    all: Bucket,
    shares: Box<[Bucket]>,
    key: u64,
    per_second: u32,
}

impl Strangers {
    /// `seed` is secret, so that nobody knows with whom it shares.
    pub(super) fn new(per_second: u32, seed: u64) -> Self {
        Self {
            all: Bucket::default(),
            shares: (0..SHARES).map(|_| Bucket::default()).collect(),
            key: hash::fold(seed, hash::KEY),
            per_second,
        }
    }

    /// Whether one more from there is answered now.
    pub(super) fn admits(&mut self, now: Time, from: SocketAddr) -> bool {
        if self.all.admits(now, self.per_second) {
            return true;
        }
        let share = hash::fold(network(from.ip()), self.key) as usize % SHARES;
        let most = (self.per_second / SHARES as u32).max(1);
        self.shares[share].admits(now, most)
    }
}

/// The first 24 bits of an IPv4 address and 48 of an IPv6 address: what one site has.
fn network(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => u64::from(address.to_bits() >> 8),
        IpAddr::V6(address) => (address.to_bits() >> 80) as u64 | 1 << 63,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(5_000);

    #[test]
    fn who_floods_from_some_networks_keeps_nobody_else_out() {
        let mut strangers = Strangers::new(1_000, 7);
        let mut admits = |address: &str| strangers.admits(NOW, address.parse().expect("one"));
        let answered = (0..10_000_u32).filter(|port| {
            let floods = [
                format!("192.0.2.{}:{port}", port % 250),
                format!("[2001:db8::{port:x}]:9"),
            ];
            floods.map(|from| admits(&from)).contains(&true)
        });
        assert!((500..=1_010).contains(&answered.count()));
        assert!(admits("198.51.100.1:9"));
        assert!(admits("[2001:db8:1::1]:9"));
    }

    #[test]
    fn answers_are_bounded_whoever_asks() {
        let mut strangers = Strangers::new(1_000, 7);
        let all = (0..1_u32 << 16).map(|network| IpAddr::from((network << 8).to_be_bytes()));
        let answered = all.filter(|from| strangers.admits(NOW, (*from, 9).into()));
        assert!(answered.count() <= 2_000);
    }
}
