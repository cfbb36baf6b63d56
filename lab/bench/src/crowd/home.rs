//! Where a thread's participants live: their addresses, and the network these belong to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use sangam_emulator::Site;
use sangam_io::udp::{UdpOptions, UdpSocket};

use crate::loopback;

/// Addresses of a site for one thread of participants.
const SITE_REGION: u32 = 16_000;
/// Threads of listeners that a site has addresses for.
const SITE_LISTENERS: u32 = 2;

/// A block of addresses, one for each participant.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    first: Ipv4Addr,
    site: Option<Site>,
}

impl Home {
    /// A region of 127.0.0.0/8, or, where a site is given, the like of it there: listeners are
    /// the first regions, measured receivers and publishers the last.
    pub(crate) fn new(region: u32, site: Option<&Site>) -> Self {
        let first = match site {
            None => loopback::address(region, 0),
            Some(site) => {
                let place = match region {
                    loopback::PROBES => SITE_LISTENERS,
                    loopback::PUBLISHERS => SITE_LISTENERS + 1,
                    listeners => listeners,
                };
                // The site's own address is its broker's.
                site.host((place * SITE_REGION) as usize + 1)
            }
        };
        Self {
            first,
            site: site.cloned(),
        }
    }

    /// Threads of listeners that there are addresses for, in a site or on loopback.
    pub(crate) fn listeners_max(site: Option<&Site>) -> usize {
        site.map_or(loopback::LISTENERS_MAX, |_| SITE_LISTENERS as usize)
    }

    /// Whether it is in this site, or on loopback as `site` is not given.
    pub(crate) fn is_at(&self, site: Option<&Site>) -> bool {
        self.site.as_ref().map(Site::number) == site.map(Site::number)
    }

    /// The address of a participant.
    pub(crate) fn address(&self, number: u32) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.first) + number)
    }

    /// The participant that has an address; a number beyond all participants for a foreign one.
    pub(crate) fn number(&self, address: Option<IpAddr>) -> usize {
        match address {
            Some(IpAddr::V4(v4)) => u32::from(v4).wrapping_sub(self.first.into()) as usize,
            _ => usize::MAX,
        }
    }

    /// A number that no other home has, to make seeds from.
    pub(crate) fn seed(&self) -> u64 {
        u64::from(u32::from(self.first)) << 32
    }

    /// Opens a socket in the home's network.
    ///
    /// # Errors
    /// Those of [`UdpSocket::bind`].
    pub(super) fn open(&self, address: Ipv4Addr, options: &UdpOptions) -> io::Result<UdpSocket> {
        let bind = || UdpSocket::bind(SocketAddr::from((address, 0)), options);
        match &self.site {
            None => bind(),
            Some(site) => site.enter(bind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn participants_have_one_address_each() {
        for region in [0, 1, loopback::PROBES, loopback::PUBLISHERS] {
            let home = Home::new(region, None);
            assert_eq!(home.number(Some(home.address(9).into())), 9);
            assert!(home.number(Some(Ipv4Addr::LOCALHOST.into())) > 1 << 20);
        }
    }
}
