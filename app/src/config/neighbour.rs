//! Neighbours to dial, and the ways to them.

use std::fmt;
use std::str::FromStr;

use sangam_client::{Address, ProxyAddress, Scheme};
use serde::{Deserialize, Serialize};

use super::HostPort;

/// A neighbour broker that this one dials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Neighbour {
    #[serde(with = "one_or_more")]
    pub(crate) address: Vec<LinkAddress>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fallback: Option<HostPort>,
}

/// One way to a neighbour: `host:port` for datagrams, else as clients write addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct LinkAddress(pub(crate) Address);

/// A proxy for links by streams: `http://[user:password@]host:port`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Proxy(pub(crate) ProxyAddress);

impl Neighbour {
    /// All ways, best first.
    pub(crate) fn ways(&self) -> impl Iterator<Item = LinkAddress> + use<'_> {
        let fallback = self.fallback.iter().cloned().map(LinkAddress::from);
        self.address.iter().cloned().chain(fallback)
    }
}

/// Addresses as brokers: those of one host that are spoken to differently are ways to one.
pub(crate) fn by_host(addresses: &[LinkAddress]) -> Vec<Vec<LinkAddress>> {
    let mut brokers: Vec<Vec<LinkAddress>> = Vec::new();
    for address in addresses {
        let same = |broker: &&mut Vec<LinkAddress>| {
            let same_host = broker[0].0.host == address.0.host;
            same_host && broker.iter().all(|way| way.0.scheme != address.0.scheme)
        };
        match brokers.iter_mut().find(same) {
            Some(broker) => broker.push(address.clone()),
            None => brokers.push(vec![address.clone()]),
        }
    }
    brokers
}

impl From<HostPort> for LinkAddress {
    fn from(HostPort { host, port }: HostPort) -> Self {
        let (scheme, path) = (Scheme::Udp, String::new());
        Self(Address {
            scheme,
            host,
            port,
            path,
        })
    }
}

impl FromStr for LinkAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |text: &str| text.parse::<HostPort>().map(Self::from);
        match text.split_once("://") {
            None => plain(text),
            Some(("udp", rest)) => plain(rest),
            Some(_) => match text.parse() {
                Ok(address) => Ok(Self(address)),
                Err(error) => Err(format!("{error}; a link is host:port or one of these")),
            },
        }
    }
}

impl FromStr for Proxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse()
            .map(Self)
            .map_err(|error: sangam_client::AddressError| error.to_string())
    }
}

impl fmt::Display for LinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.scheme {
            Scheme::Udp => f.write_str(&self.0.authority()),
            _ => self.0.fmt(f),
        }
    }
}

impl TryFrom<String> for LinkAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<LinkAddress> for String {
    fn from(address: LinkAddress) -> Self {
        address.to_string()
    }
}

impl TryFrom<String> for Proxy {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Proxy> for String {
    fn from(Proxy(proxy): Proxy) -> Self {
        let authority = format!("{}:{}", proxy.host, proxy.port);
        match proxy.credentials {
            Some(credentials) => format!("http://{credentials}@{authority}"),
            None => format!("http://{authority}"),
        }
    }
}

/// A text, or an array of texts.
mod one_or_more {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::LinkAddress;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        One(String),
        More(Vec<String>),
    }

    pub(super) fn serialize<S: Serializer>(all: &[LinkAddress], to: S) -> Result<S::Ok, S::Error> {
        match all {
            [one] => one.serialize(to),
            all => all.serialize(to),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<LinkAddress>, D::Error> {
        let texts = match Given::deserialize(from)? {
            Given::One(text) => vec![text],
            Given::More(texts) => texts,
        };
        let all: Result<Vec<_>, String> = texts.iter().map(|text| text.parse()).collect();
        let all = all.map_err(serde::de::Error::custom)?;
        match all.is_empty() {
            true => Err(serde::de::Error::custom(
                "a link has an address, or several",
            )),
            false => Ok(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<LinkAddress> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn addresses_of_one_host_are_ways_to_one_broker() {
        let all = addresses(&[
            "a",
            "a:4700",
            "quic://b:4603",
            "wss://a",
            "b:4600",
            "tcp://c:4600",
        ]);
        let brokers = by_host(&all);
        let texts: Vec<Vec<String>> = brokers
            .iter()
            .map(|ways| ways.iter().map(ToString::to_string).collect())
            .collect();
        assert_eq!(
            texts,
            [
                vec!["a:4600", "wss://a:443/v1/connect"],
                vec!["a:4700"],
                vec!["quic://b:4603", "b:4600"],
                vec!["tcp://c:4600"],
            ]
        );
    }

    #[test]
    fn a_link_has_one_address_or_several() {
        let one: Neighbour = toml::from_str("address = \"a:1\"").unwrap();
        assert_eq!(one.address, addresses(&["a:1"]));
        let several = "address = [\"quic://a:1\", \"tls://a:2\"]\nfallback = \"a:3\"";
        let several: Neighbour = toml::from_str(several).unwrap();
        let ways: Vec<_> = several.ways().collect();
        assert_eq!(ways, addresses(&["quic://a:1", "tls://a:2", "a:3"]));
        let again: Neighbour = toml::from_str(&toml::to_string(&several).unwrap()).unwrap();
        assert_eq!(again, several);
        toml::from_str::<Neighbour>("address = []").unwrap_err();
    }
}
