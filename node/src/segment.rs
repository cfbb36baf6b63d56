//! The segment on which events go to groups: one interface, and who is a neighbour there.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use sangam_io::interfaces::{self, Interface};
use sangam_io::udp::{UdpSocket, is_near};
use sangam_model::Filter;
use sangam_wire::{Capabilities, Hello};

use crate::broker::StartError;
use crate::config::{BrokerConfig, Network};

/// Groups one broker uses, whatever the ranges hold.
pub(crate) const GROUPS_MAX: usize = 256;

/// Delivery by IP multicast to clients, and if wanted to neighbour brokers, on one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multicast {
    /// Name of the interface.
    pub interface: String,
    /// Ranges of groups, at most one per address family; the first 256 of each are used.
    pub groups: Vec<Network>,
    /// UDP port of all groups.
    pub port: u16,
    /// Networks a datagram may cross; with 1 it stays on the segment.
    pub ttl: u8,
    /// Clients of one stream from which on it has a group, at least 2.
    pub clients: usize,
    /// What may go to groups.
    pub topics: Vec<Filter>,
    /// Whether neighbours on the segment have groups, too.
    pub links: bool,
}

/// Groups of a range that are kept for neighbours, the last ones, where links share a segment; at
/// most half of it.
const GROUPS_OF_LINKS: usize = 16;

/// The interface of a [`Multicast`] as it was found.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) config: Multicast,
    interface: Interface,
}

/// What one socket sends to groups by.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) free: VecDeque<IpAddr>,
    /// The address datagrams come from.
    pub(crate) source: IpAddr,
}

impl Segment {
    /// `None` if nothing is configured.
    ///
    /// # Errors
    /// [`StartError::Multicast`] with what to do.
    pub(crate) fn open(config: &BrokerConfig) -> Result<Option<Arc<Self>>, StartError> {
        let Some(multicast) = &config.multicast else {
            return Ok(None);
        };
        let wrong = |what: String| Err(StartError::Multicast(what));
        if config.authority.is_some() {
            let what = "nobody can be kept from listening to a group, so tokens mean nothing; \
                        set auth.required to false (--no-auth) on a segment where everybody may \
                        hear everything, or leave [multicast] out";
            return wrong(what.to_owned());
        }
        if let Some(range) = multicast
            .groups
            .iter()
            .find(|range| !holds_near_only(range))
        {
            return wrong(format!(
                "{}/{} leaves the organisation",
                range.address, range.prefix
            ));
        }
        let interface = match interfaces::named(&multicast.interface) {
            Ok(interface) => interface,
            Err(error) => return wrong(error.to_string()),
        };
        let name = &multicast.interface;
        if !interface.up {
            return wrong(format!("{name} is down; `ip link set {name} up`"));
        }
        if !interface.multicast {
            let advice = "`ip link set multicast on` switches it on where the device can";
            return wrong(format!("{name} takes no part in multicast; {advice}"));
        }
        let segment = Self::of(multicast.clone(), interface);
        let mut ranges = segment.config.groups.iter();
        if !ranges.any(|range| segment.has_family(range.address)) {
            return wrong(format!("{name} has no address of the groups' family"));
        }
        Ok(Some(Arc::new(segment)))
    }

    pub(crate) const fn of(config: Multicast, interface: Interface) -> Self {
        Self { config, interface }
    }

    /// Whether this client may hear groups: it can, and it is a neighbour or groups go further.
    pub(crate) fn holds(&self, hello: &Hello, client: SocketAddr) -> bool {
        self.reaches(client.ip()) && hello.capabilities.contains(Capabilities::MULTICAST)
    }

    /// Whether groups reach this address: it is of a neighbour, or groups go further.
    pub(crate) fn reaches(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let near = |&(address, prefix): &(IpAddr, u8)| Network { address, prefix }.contains(ip);
        let is_near = self.config.ttl > 1 || self.interface.networks.iter().any(near);
        is_near && self.has_family(ip) && self.range(ip).is_some()
    }

    /// The number of the interface.
    pub(crate) const fn index(&self) -> u32 {
        self.interface.index
    }

    /// Lets a socket send to groups; `None` if none are of its family.
    ///
    /// # Errors
    /// [`StartError::Multicast`].
    pub(crate) fn prepare(&self, socket: &UdpSocket) -> Result<Option<Sources>, StartError> {
        let Some(range) = self.range(socket.local_addr().ip()) else {
            return Ok(None);
        };
        let free = match self.config.links {
            true => addresses(range).take(len(range) - of_links(range)),
            false => addresses(range).take(len(range)),
        };
        self.prepare_for(socket, range, free.collect())
    }

    /// The same for the groups of neighbours.
    ///
    /// # Errors
    /// [`StartError::Multicast`].
    pub(crate) fn prepare_links(&self, socket: &UdpSocket) -> Result<Option<Sources>, StartError> {
        let Some(range) = self.range(socket.local_addr().ip()) else {
            return Ok(None);
        };
        let free = addresses(range).take(len(range));
        let free = free.skip(len(range) - of_links(range));
        self.prepare_for(socket, range, free.collect())
    }

    fn prepare_for(
        &self,
        socket: &UdpSocket,
        range: &Network,
        free: VecDeque<IpAddr>,
    ) -> Result<Option<Sources>, StartError> {
        let interface = self.interface.index;
        if !self.has_family(range.address) {
            let name = &self.config.interface;
            tracing::warn!(name, group = %range.address, "no address of this family: no groups");
            return Ok(None);
        }
        let first = SocketAddr::new(range.address, self.config.port);
        let found = socket
            .send_groups_by(interface, self.config.ttl)
            .and_then(|()| socket.group_source(first, interface));
        let source = found.map_err(|error| {
            let name = &self.config.interface;
            StartError::Multicast(format!("{first} cannot be reached by {name}: {error}"))
        })?;
        Ok(Some(Sources { free, source }))
    }

    fn has_family(&self, ip: IpAddr) -> bool {
        let mut networks = self.interface.networks.iter();
        networks.any(|(own, _)| own.is_ipv6() == ip.is_ipv6())
    }

    fn range(&self, family: IpAddr) -> Option<&Network> {
        let mut ranges = self.config.groups.iter();
        ranges.find(|range| range.address.is_ipv6() == family.is_ipv6())
    }
}

/// Whether all groups of a range are of those that stay near.
#[must_use]
pub fn holds_near_only(range: &Network) -> bool {
    // The scopes that stay near are prefixes of 14 and 16 bits; a longer range lies within one.
    range.prefix >= 16 && is_near(range.address)
}

/// How many groups of a range are used.
fn len(range: &Network) -> usize {
    addresses(range).take(GROUPS_MAX).count()
}

/// How many of these are for neighbours where links share a segment.
fn of_links(range: &Network) -> usize {
    (len(range) / 2).min(GROUPS_OF_LINKS)
}

/// The addresses of a range, in order.
fn addresses(range: &Network) -> impl Iterator<Item = IpAddr> {
    let (first, bits) = match range.address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let room = u32::from(bits - range.prefix).min(16);
    let first = first >> room << room;
    (first..first + (1 << room)).map(move |address| match bits {
        32 => Ipv4Addr::from_bits(address as u32).into(),
        _ => Ipv6Addr::from_bits(address).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(address: &str, prefix: u8) -> Network {
        let address = address.parse().unwrap();
        Network { address, prefix }
    }

    #[test]
    fn a_range_is_walked_from_its_first_address_to_its_last() {
        let all: Vec<_> = addresses(&range("239.192.3.6", 30)).collect();
        let expected = ["239.192.3.4", "239.192.3.5", "239.192.3.6", "239.192.3.7"];
        assert_eq!(all, expected.map(|text| text.parse::<IpAddr>().unwrap()));
        let all: Vec<_> = addresses(&range("ff15:4600::8", 128)).collect();
        assert_eq!(all, ["ff15:4600::8".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn a_wide_range_that_reaches_beyond_the_organisation_is_refused() {
        assert!(holds_near_only(&range("239.192.0.0", 24)));
        assert!(holds_near_only(&range("ff15:4600::", 120)));
        assert!(!holds_near_only(&range("239.192.0.0", 8)));
        assert!(!holds_near_only(&range("224.0.0.0", 24)));
    }
}
