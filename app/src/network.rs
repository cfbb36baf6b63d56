//! Address prefixes (`127.0.0.0/8`) for lists of who may do what.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// All addresses that share a prefix. A plain address is a prefix of full length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Network(pub(crate) sangam_node::Network);

/// Whether any of `networks` holds `address`.
pub(crate) fn any_contains(networks: &[Network], address: IpAddr) -> bool {
    networks.iter().any(|network| network.0.contains(address))
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no network; write 192.0.2.0/24, 2001:db8::/32 or ::1");
        let (address, bits) = text.split_once('/').unwrap_or((text, ""));
        let address = address.parse::<IpAddr>().map_err(|_| wrong())?;
        let prefix_max = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match (bits, text.contains('/')) {
            ("", false) => prefix_max,
            (bits, _) => bits.parse().map_err(|_| wrong())?,
        };
        if prefix > prefix_max {
            return Err(wrong());
        }
        Ok(Self(sangam_node::Network { address, prefix }))
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0.address, self.0.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(network: &str, address: &str) -> bool {
        let network: Network = network.parse().unwrap();
        network.0.contains(address.parse().unwrap())
    }

    #[test]
    fn a_prefix_holds_its_addresses_and_no_others() {
        assert!(holds("127.0.0.0/8", "127.200.1.2"));
        assert!(!holds("127.0.0.0/8", "128.0.0.1"));
        assert!(holds("2001:db8::/32", "2001:db8:1::7"));
        assert!(!holds("2001:db8::/32", "2001:db9::1"));
        assert!(holds("192.0.2.7", "192.0.2.7"));
        assert!(!holds("192.0.2.7", "192.0.2.8"));
    }

    #[test]
    fn a_prefix_of_zero_bits_holds_its_whole_family_only() {
        assert!(holds("0.0.0.0/0", "203.0.113.9"));
        assert!(!holds("0.0.0.0/0", "2001:db8::1"));
        assert!(holds("::/0", "2001:db8::1"));
        assert!(!holds("::/0", "203.0.113.9"));
    }

    #[test]
    fn ipv4_in_ipv6_clothes_counts_as_ipv4() {
        assert!(holds("127.0.0.0/8", "::ffff:127.0.0.1"));
    }

    #[test]
    fn nonsense_is_refused_with_an_example() {
        for text in [
            "",
            "banana",
            "127.0.0.1/33",
            "::1/129",
            "10.0.0.0/",
            "10.0.0.0/x",
        ] {
            let error = text.parse::<Network>().unwrap_err();
            assert!(error.contains("192.0.2.0/24"), "{text}: {error}");
        }
    }
}
