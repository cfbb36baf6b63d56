//! By which ways a broker may be dialled, as it says on the map and as others read it.

use std::net::SocketAddr;

use sangam_broker::Description;
use sangam_io::quic::broker_of;
use sangam_io::stream::WebSocket;
use sangam_model::BrokerId;
use sangam_wire::{LinkState, WAY_LEN_MAX, WAYS_MAX};

use crate::config::{BrokerConfig, LinkWay, Neighbour, Network, StreamWay, Transport};

const QUIC: &str = "quic";
/// Where a WebSocket is opened at every broker.
const PATH: &str = "/v1/connect";
/// Every broker's certificate is for its id in this domain, besides what others dial.
const DOMAIN: &str = "sangam.internal";

/// Which ways a broker can and may go to those it knows from the map alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Means {
    /// It shows a certificate that is its own, and knows an authority for others'.
    proves: bool,
    quic: bool,
    trusted: Vec<Network>,
}

impl Means {
    pub(crate) fn of(config: &BrokerConfig) -> Self {
        let ways = || config.listed().flat_map(|neighbour| &neighbour.ways);
        let dials = ways().any(|way| matches!(way, LinkWay::Quic { .. }));
        Self {
            proves: proves(config),
            quic: dials || !config.quic_links.is_empty(),
            trusted: config.accept_links.clone(),
        }
    }

    /// Whoever can prove who it is goes unproved only where it lets others in unproved: else who
    /// stops QUIC and TLS on the way would have everything in the clear.
    fn allow(&self, way: &LinkWay) -> bool {
        let trusted = |ip| self.trusted.iter().any(|network| network.contains(ip));
        match way {
            LinkWay::Quic { .. } => self.proves && self.quic,
            _ if way.is_encrypted() => self.proves,
            _ => !self.proves || trusted(way.address().ip()),
        }
    }

    /// How to dial a broker that tells this of itself; `None` if there is no way.
    pub(super) fn to(&self, state: &LinkState) -> Option<Neighbour> {
        let mut ways = ways_of(state);
        ways.retain(|way| self.allow(way));
        (!ways.is_empty()).then_some(Neighbour { ways })
    }
}

/// Every way that a broker tells of itself, as far as it is understood.
pub(super) fn ways_of(state: &LinkState) -> Vec<LinkWay> {
    match state.ways.is_empty() {
        true => read(&state.address, state.version.origin)
            .into_iter()
            .collect(),
        false => {
            let read = |text: &String| read(text, state.version.origin);
            state.ways.iter().filter_map(read).collect()
        }
    }
}

/// Where the broker listens, ports as the kernel gave them: by datagrams, by QUIC for neighbours,
/// and by streams.
type Listeners<'a> = (
    &'a [SocketAddr],
    &'a [SocketAddr],
    &'a [(Transport, SocketAddr)],
);

/// What the broker says of itself on the map.
pub(crate) fn description(config: &BrokerConfig, listeners: Listeners<'_>) -> Description {
    let address = public_address(config, listeners.0);
    let bare = address.map(|address| address.to_string());
    let mut ways = announced(config, address, listeners);
    ways.retain(|way| way.len() <= WAY_LEN_MAX);
    ways.truncate(WAYS_MAX);
    if ways.iter().eq(&bare) {
        // That is what none means.
        ways.clear();
    }
    Description {
        region: config.region.clone(),
        address: bare.unwrap_or_default(),
        ways,
        keeps: config.reliable.keep,
        organises: !config.join.is_empty(),
        ..Description::default()
    }
}

/// Where other brokers may dial this one: as configured, or where it listens if that is one place.
fn public_address(config: &BrokerConfig, udp: &[SocketAddr]) -> Option<SocketAddr> {
    let listened = udp.iter().find(|address| !address.ip().is_unspecified());
    config.public_address.or(listened.copied())
}

/// Ways in text, those with certificates first; datagrams where others are let in by them.
fn announced(
    config: &BrokerConfig,
    address: Option<SocketAddr>,
    (_, quic, streams): Listeners<'_>,
) -> Vec<String> {
    if !config.public_ways.is_empty() {
        return config.public_ways.iter().map(text).collect();
    }
    let proves = proves(config);
    let encrypted = [Transport::Tls, Transport::Wss]
        .into_iter()
        .flat_map(|one| {
            let streams = streams.iter();
            streams.filter(move |(transport, _)| *transport == one)
        });
    let encrypted = encrypted.map(|(transport, at)| (transport.name(), *at));
    // With none of its own the broker only dials from there.
    let quic = quic.iter().map(|at| (QUIC, *at));
    let quic = quic.filter(|_| !config.quic_links.is_empty());
    let proved = quic.chain(encrypted).filter(|_| proves);
    let mut ways: Vec<String> = proved
        .filter_map(|(scheme, at)| Some(format!("{scheme}://{}", seen(at, address)?)))
        .collect();
    let plain = !config.accept_links.is_empty() || ways.is_empty();
    ways.extend(address.filter(|_| plain).map(|address| address.to_string()));
    ways
}

/// How others see a listener: behind the public address if it listens everywhere.
fn seen(listener: SocketAddr, public: Option<SocketAddr>) -> Option<SocketAddr> {
    match listener.ip().is_unspecified() {
        false => Some(listener),
        true => Some((public?.ip(), listener.port()).into()),
    }
}

/// Whether the broker's certificate holds its own key, as links need it.
fn proves(config: &BrokerConfig) -> bool {
    let shown = config.identity.as_ref();
    let key = shown.and_then(|shown| shown.chain().first());
    config.authorities.is_some() && key.and_then(broker_of) == Some(config.id)
}

/// A way as it stands on the map: with a name, if the certificate is for another than the id.
fn text(way: &LinkWay) -> String {
    let (scheme, address) = match way {
        LinkWay::Udp(address) => return address.to_string(),
        LinkWay::Quic { address, .. } => (QUIC, address),
        LinkWay::Stream(way) => (way.transport.name(), &way.address),
    };
    match way.name() {
        Some(name) if name != address.ip().to_string() => format!("{scheme}://{address}#{name}"),
        _ => format!("{scheme}://{address}"),
    }
}

/// A way to a broker from the map; `None` if it is none that is known here.
fn read(text: &str, to: BrokerId) -> Option<LinkWay> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.parse().ok().map(LinkWay::Udp);
    };
    let (address, name) = rest.split_once('#').unwrap_or((rest, ""));
    let address: SocketAddr = address.parse().ok()?;
    let name = match name {
        "" => format!("{to}.{DOMAIN}"),
        name => name.to_owned(),
    };
    if scheme == QUIC {
        return Some(LinkWay::Quic { address, name });
    }
    let transport = Transport::ALL
        .into_iter()
        .find(|one| one.name() == scheme)?;
    let websocket = matches!(transport, Transport::Ws | Transport::Wss).then(|| WebSocket {
        authority: address.to_string(),
        path: PATH.to_owned(),
    });
    Some(LinkWay::Stream(StreamWay {
        transport,
        address,
        proxy: None,
        name,
        websocket,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(text: &str) -> Option<LinkWay> {
        read(text, BrokerId(0x1f2e_3d4c))
    }

    #[test]
    fn a_way_is_read_as_it_was_written() {
        let texts = [
            "192.0.2.1:4600",
            "[2001:db8::1]:4600",
            "quic://192.0.2.1:4603#1f2e3d4c.sangam.internal",
            "quic://[2001:db8::1]:4603#a.example.org",
            "tls://192.0.2.1:4604#a.example.org",
            "wss://192.0.2.1:443#a.example.org",
        ];
        for one in texts {
            assert_eq!(way(one).as_ref().map(text).as_deref(), Some(one));
        }
        let unnamed = way("quic://192.0.2.1:4603");
        assert_eq!(unnamed, way(texts[2]));
    }

    #[test]
    fn what_is_no_way_is_passed_over() {
        for one in [
            "",
            "a.example.org:4600",
            "quic://a.example.org:4603",
            "http://192.0.2.1:80",
            "quic://192.0.2.1",
            "quic://#name",
        ] {
            assert_eq!(way(one), None, "{one}");
        }
    }

    #[test]
    fn who_listens_everywhere_is_dialled_at_its_public_address() {
        let config = BrokerConfig {
            public_address: Some(([192, 0, 2, 1], 4_600).into()),
            ..BrokerConfig::default()
        };
        let tls = (Transport::Tls, ([0, 0, 0, 0], 4_604).into());
        let udp = ([0, 0, 0, 0], 4_600).into();
        let own = description(&config, (&[udp], &[], &[tls]));
        assert_eq!(own.address, "192.0.2.1:4600");
        // It has no certificate that neighbours believe.
        assert_eq!(own.ways, [] as [&str; 0]);
    }

    #[test]
    fn who_can_prove_itself_goes_in_the_clear_only_where_it_lets_others_in_so() {
        let near = Network {
            address: [10, 0, 0, 0].into(),
            prefix: 8,
        };
        let means = Means {
            proves: true,
            quic: true,
            trusted: vec![near],
        };
        let allowed = |text: &str| way(text).is_some_and(|way| means.allow(&way));
        assert!(allowed("quic://192.0.2.1:4603") && allowed("10.1.1.1:4600"));
        assert!(!allowed("192.0.2.1:4600") && !allowed("tcp://192.0.2.1:4601"));
        let plain = Means::default();
        assert!(way("192.0.2.1:4600").is_some_and(|way| plain.allow(&way)));
        assert!(way("tls://192.0.2.1:1").is_some_and(|way| !plain.allow(&way)));
    }
}
