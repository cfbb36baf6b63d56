//! Names that stand in certificates.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use rcgen::{CidrSubnet, GeneralSubtree, SanType};
use sangam_model::BrokerId;

use super::CaError;

/// Under which every broker has a name that follows from its key, so that a peer that knows the
/// broker's id can ask for just that one. `internal` is kept free of public names by ICANN.
pub(crate) const BROKER_DOMAIN: &str = "sangam.internal";

/// A host name or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A host name, in lower case.
    Host(String),
    /// An address.
    Address(IpAddr),
}

/// The name that a broker has by its key.
fn broker_name(broker: BrokerId) -> String {
    format!("{broker}.{BROKER_DOMAIN}")
}

/// These names and the broker's own; others under the brokers' domain are left out, as no broker
/// may pass for another.
pub(super) fn with_broker(names: Vec<Name>, broker: BrokerId) -> Vec<Name> {
    let foreign = |name: &Name| match name {
        Name::Host(host) => {
            let rest = host.strip_suffix(BROKER_DOMAIN);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        }
        Name::Address(_) => false,
    };
    let mut all: Vec<_> = names.into_iter().filter(|name| !foreign(name)).collect();
    all.push(Name::Host(broker_name(broker)));
    all
}

impl Name {
    pub(super) fn subject(&self) -> Result<SanType, CaError> {
        Ok(match self {
            Self::Host(host) => {
                let text = host.as_str().try_into();
                SanType::DnsName(text.map_err(|_| CaError::Name(host.clone()))?)
            }
            Self::Address(address) => SanType::IpAddress(*address),
        })
    }

    pub(super) fn subtree(&self) -> GeneralSubtree {
        match self {
            Self::Host(host) => GeneralSubtree::DnsName(host.clone()),
            Self::Address(address) => {
                let bits = if address.is_ipv4() { 32 } else { 128 };
                GeneralSubtree::IpAddress(CidrSubnet::from_addr_prefix(*address, bits))
            }
        }
    }
}

impl FromStr for Name {
    type Err = CaError;

    /// RFC 1123 section 2.1: letters, digits and hyphens between dots.
    fn from_str(text: &str) -> Result<Self, CaError> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let label = |label: &str| {
            let plain = label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-');
            plain
                && (1..64).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // The last label of a host name is never a number: an address with a slip is none.
        let number = text
            .rsplit('.')
            .next()
            .is_some_and(|last| last.parse::<u64>().is_ok());
        if text.len() > 253 || number || !text.split('.').all(label) {
            return Err(CaError::Name(text.to_owned()));
        }
        Ok(Self::Host(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => f.write_str(host),
            Self::Address(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_and_addresses_are_told_apart_and_others_refused() {
        assert_eq!(
            "A.Example.org".parse::<Name>().unwrap().to_string(),
            "a.example.org"
        );
        assert!(matches!("192.0.2.1".parse(), Ok(Name::Address(_))));
        assert!(matches!("2001:db8::1".parse(), Ok(Name::Address(_))));
        for text in [
            "",
            "a..b",
            "-a",
            "a b",
            "192.0.2.300",
            "*.example.org",
            "https://a",
        ] {
            assert!(text.parse::<Name>().is_err(), "{text}");
        }
    }

    #[test]
    fn no_broker_is_given_the_name_of_another() {
        let asked = ["b.example.org", "00000002.sangam.internal"].map(|name| name.parse().unwrap());
        let names = with_broker(asked.into(), BrokerId(1));
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["b.example.org", "00000001.sangam.internal"]);
    }
}
