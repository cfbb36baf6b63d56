//! Who has which address: a network of each family for each site.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Sites of one emulator: one byte of their addresses, and room for routers of other numbers.
pub const SITES_MAX: usize = 128;
/// Addresses of one site in 10.N.0.0/16; the first is the site's own.
pub const HOSTS_MAX: usize = 65_000;

/// Sites are 10.16.0.0/16, 10.17.0.0/16 and so on.
const FIRST: u8 = 16;
/// fd73:616e:6761:N::/64 (RFC 4193).
const PREFIX: [u16; 3] = [0xfd73, 0x616e, 0x6761];

/// Whence ICMP errors come: of no site, so that no site takes it for its own.
pub(crate) const ROUTER: (Ipv4Addr, Ipv6Addr) = (
    Ipv4Addr::new(10, 0, 0, 1),
    Ipv6Addr::new(PREFIX[0], PREFIX[1], PREFIX[2], 0xffff, 0, 0, 0, 1),
);

/// A site's host, from 0; the first is the site's own address.
pub(crate) fn v4(site: usize, host: usize) -> Ipv4Addr {
    let [high, low] = (host as u16 + 1).to_be_bytes();
    Ipv4Addr::new(10, FIRST + site as u8, high, low)
}

/// The number of a site's host.
pub(crate) fn host(site: usize, address: Ipv4Addr) -> Option<usize> {
    let [10, network, high, low] = address.octets() else {
        return None;
    };
    let host = u16::from_be_bytes([high, low]).checked_sub(1)?;
    (usize::from(network) == usize::from(FIRST) + site).then_some(host.into())
}

/// A site's IPv6 address.
pub(crate) fn v6(site: usize) -> Ipv6Addr {
    Ipv6Addr::new(PREFIX[0], PREFIX[1], PREFIX[2], site as u16, 0, 0, 0, 1)
}

/// The site an address belongs to.
pub(crate) fn site(address: IpAddr) -> Option<usize> {
    match address {
        IpAddr::V4(v4) => match v4.octets() {
            [10, network, ..] => usize::from(network).checked_sub(FIRST.into()),
            _ => None,
        },
        IpAddr::V6(v6) => match v6.segments() {
            [a, b, c, site, ..] if [a, b, c] == PREFIX => Some(site.into()),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_back_to_their_site() {
        for number in [0, 1, SITES_MAX - 1] {
            for index in [0, 255, 256, HOSTS_MAX - 1] {
                let address = v4(number, index);
                assert_eq!(site(address.into()), Some(number));
                assert_eq!(host(number, address), Some(index));
                assert_eq!(host(number + 1, address), None);
            }
            assert_eq!(site(v6(number).into()), Some(number));
        }
    }

    #[test]
    fn routers_and_strangers_belong_to_no_site() {
        let strangers = [
            ROUTER.0.into(),
            IpAddr::from([127, 0, 0, 1]),
            IpAddr::from([224, 0, 0, 1]),
            "fe80::1".parse().unwrap(),
        ];
        for address in strangers {
            assert_eq!(site(address), None, "{address}");
        }
        // Of the right form, and refused as there are not so many sites.
        assert!(site(ROUTER.1.into()) > Some(SITES_MAX));
    }
}
