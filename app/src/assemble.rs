//! From the configuration to what the broker is started with.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use sangam_client::{Address, ProxyAddress, Scheme};
use sangam_io::quic::broker_of;
use sangam_io::stream::{Proxy, WebSocket};
use sangam_io::tls::{self, Roots, TlsError};
use sangam_model::{Filter, Topic};
use sangam_node::{
    Authority, BrokerConfig, LegReceive, LegSend, LegSpec, LinkWay, Neighbour, Queuing, RtcpPort,
    StreamWay, Transport,
};
use sangam_webrtc::{Settings, WebRtc};

use crate::auth::Tokens;
use crate::config::{self, Config, HostPort, Leg, LinkAddress, Listen, Rtcp, Tls, by_host};
use crate::exit::{Exit, Failure, io};
use crate::identity::Identity;

/// The broker's part of a checked configuration.
///
/// # Errors
/// A neighbour's name is unknown, or the system gives no randomness.
pub(crate) fn broker(
    config: &Config,
    identity: &Identity,
    tokens: Option<Arc<Tokens>>,
) -> Result<BrokerConfig, Failure> {
    let mut secret = [0; 16];
    aws_lc_rs::rand::fill(&mut secret)
        .map_err(|_| Failure::new(Exit::Failure, "the system gives no random numbers"))?;
    let (neighbours, join) = neighbours(config)?;
    let legs: Result<_, _> = config.legs.iter().map(leg).collect();
    let reliable = config.reliable.config(config.broker.data_dir.as_ref());
    let wrong = |message: String| Failure::new(Exit::Configuration, message);
    let (shown, authorities) = certificate(&config.tls)?;
    let mut dialled = neighbours.iter().chain(&join).flat_map(|one| &one.ways);
    if !config.listen.quic_links.is_empty() || dialled.any(LinkWay::is_encrypted) {
        own_key(shown.as_ref(), identity)?;
    }
    let fallback = BrokerConfig::default();
    Ok(BrokerConfig {
        id: identity.id,
        incarnation: identity.incarnation,
        secret,
        udp: config.listen.udp.clone(),
        tcp: config.listen.tcp.clone(),
        streams: streams(&config.listen),
        ws_origins: config.listen.ws_origins.clone(),
        identity: shown.map(Arc::new),
        authorities,
        links: Vec::new(),
        neighbours,
        join,
        region: config.broker.region.clone(),
        public_address: config.listen.public,
        public_ways: public_ways(config)?,
        quic: config.listen.quic.clone(),
        quic_links: config.listen.quic_links.clone(),
        accept_links: config
            .links
            .accept
            .iter()
            .map(|network| network.0)
            .collect(),
        rules: config.link_rules(),
        multicast: config.multicast.config().map_err(wrong)?,
        legs: legs.map_err(wrong)?,
        reliable: reliable.map_err(wrong)?,
        gateways: Vec::new(),
        shards: match config.broker.shards {
            0 => fallback.shards,
            shards => shards.into(),
        },
        queuing: match config.broker.queuing {
            config::Queuing::Double => Queuing::Double,
            config::Queuing::Single => Queuing::Single,
        },
        pool_small: config.broker.pool_small,
        pool_large: config.broker.pool_large,
        socket_buffer: config.listen.socket_buffer,
        clients_max: config.limits.clients,
        clients_per_address: config.limits.clients_per_address,
        authority: tokens.map(|tokens| tokens as Arc<dyn Authority>),
        publisher_packets_per_s: config.limits.publisher_packets_per_s,
        hellos_per_s: fallback.hellos_per_s,
        keepalive_ms: config.broker.keepalive_ms,
        datagram_max: config.listen.datagram_max,
    })
}

/// The WebRTC gateway, if the configuration has an address for it.
///
/// # Errors
/// No certificate can be made for it.
pub(crate) fn webrtc(config: &Config) -> Result<Option<Arc<WebRtc>>, Failure> {
    if config.listen.webrtc.is_empty() {
        return Ok(None);
    }
    let gateway = WebRtc::new(Settings {
        listen: config.listen.webrtc.clone(),
        public: config.webrtc.public.clone(),
        peers_max: config.limits.webrtc_peers,
        socket_buffer: config.listen.socket_buffer,
        ..Settings::default()
    });
    let gateway = gateway.map_err(io("WebRTC"))?;
    Ok(Some(Arc::new(gateway)))
}

/// Whose tokens the broker believes; `None` if clients need none.
///
/// # Errors
/// Clients need tokens, and there is no key to verify them with.
pub(crate) fn tokens(config: &Config) -> Result<Option<Arc<Tokens>>, Failure> {
    let auth = &config.auth;
    if !auth.required && !auth.keys.is_empty() {
        tracing::warn!("auth.required is false: auth.keys are not used, and everybody may come in");
    }
    let advice = match auth.keys.is_empty() {
        true => {
            "make a key with `sangam token key --out tokens` and name tokens.pub in auth.keys; or \
             say --no-auth (auth.required = false) where everybody who reaches this broker may do \
             everything. --dev does so"
        }
        false => "see [auth] in `sangam config example`",
    };
    let tokens = Tokens::of(auth)
        .map_err(|error| Failure::new(Exit::Configuration, error.to_string()).hint(advice))?;
    Ok(tokens.map(Arc::new))
}

/// Neighbours to dial, and brokers to join a network by.
fn neighbours(config: &Config) -> Result<(Vec<Neighbour>, Vec<Neighbour>), Failure> {
    let proxy = config.links.proxy.as_ref().map(|proxy| &proxy.0);
    let neighbour = |ways: Vec<LinkAddress>| -> Result<Neighbour, Failure> {
        let ways: Result<_, _> = ways.iter().map(|one| way(&one.0, proxy)).collect();
        Ok(Neighbour { ways: ways? })
    };
    let listed = config.neighbours.iter().map(|one| one.ways().collect());
    let listed: Result<_, Failure> = listed.map(neighbour).collect();
    let join: Result<_, Failure> = by_host(&config.links.join)
        .into_iter()
        .map(neighbour)
        .collect();
    Ok((listed?, join?))
}

/// By which ways neighbours may dial this broker, where the configuration says so.
fn public_ways(config: &Config) -> Result<Vec<LinkWay>, Failure> {
    let ways = config.listen.public_links.iter();
    ways.map(|one| way(&one.0, None)).collect()
}

/// One way to a neighbour; streams may go through a proxy, which resolves the name.
fn way(to: &Address, proxy: Option<&ProxyAddress>) -> Result<LinkWay, Failure> {
    let at = |host: &str, port| {
        let host = host.to_owned();
        resolve(&HostPort { host, port })
    };
    let transport = match to.scheme {
        Scheme::Udp => return Ok(LinkWay::Udp(at(&to.host, to.port)?)),
        Scheme::Quic => {
            let name = to.host.clone();
            let address = at(&to.host, to.port)?;
            return Ok(LinkWay::Quic { address, name });
        }
        Scheme::Tcp => Transport::Tcp,
        Scheme::Tls => Transport::Tls,
        Scheme::Ws => Transport::Ws,
        Scheme::Wss => Transport::Wss,
        _ => {
            let message = format!("{to}: links do not speak that");
            return Err(Failure::new(Exit::Configuration, message));
        }
    };
    let address = match proxy {
        Some(proxy) => at(&proxy.host, proxy.port)?,
        None => at(&to.host, to.port)?,
    };
    Ok(LinkWay::Stream(StreamWay {
        transport,
        address,
        proxy: proxy.map(|proxy| Proxy {
            authority: to.authority(),
            credentials: proxy.credentials.clone(),
        }),
        name: to.host.clone(),
        websocket: to.scheme.is_websocket().then(|| WebSocket {
            authority: to.authority(),
            path: to.path.clone(),
        }),
    }))
}

/// Neighbours take a broker for who its certificate's key says.
fn own_key(shown: Option<&tls::Identity>, identity: &Identity) -> Result<(), Failure> {
    let certificate = shown.and_then(|shown| shown.chain().first());
    if certificate.and_then(broker_of) == Some(identity.id) {
        return Ok(());
    }
    let message =
        "encrypted links: the certificate in tls.certificate does not hold this broker's key";
    Err(Failure::new(Exit::Configuration, message)
        .hint("have it issued for broker.key in broker.data_dir; see `sangam ca`"))
}

/// What the broker shows, and whose certificates it believes.
///
/// # Errors
/// A file cannot be used, with what to do.
pub(crate) fn certificate(tls: &Tls) -> Result<(Option<tls::Identity>, Option<Roots>), Failure> {
    let wrong = |error: TlsError| Failure::new(Exit::Configuration, error.to_string());
    let identity = match (&tls.certificate, &tls.key) {
        (Some(certificate), Some(key)) => {
            Some(tls::Identity::load(certificate, key).map_err(wrong)?)
        }
        _ => None,
    };
    let authorities = tls.ca.as_deref().map(Roots::load);
    Ok((identity, authorities.transpose().map_err(wrong)?))
}

fn streams(listen: &Listen) -> Vec<(Transport, SocketAddr)> {
    let of = |transport: Transport| {
        let mut all = listen.streams().into_iter();
        let found = all.find(|(key, _)| *key == transport.name());
        let addresses = found.map_or(&[][..], |(_, addresses)| addresses);
        addresses.iter().map(move |address| (transport, *address))
    };
    [Transport::Tls, Transport::Ws, Transport::Wss]
        .into_iter()
        .flat_map(of)
        .collect()
}

/// A checked leg in the broker's words.
///
/// # Errors
/// What [`config::check_leg`] would have said.
pub(crate) fn leg(leg: &Leg) -> Result<LegSpec, String> {
    let receive = match (leg.receive, &leg.media) {
        (Some(listen), Some(media)) => {
            let topic = Topic::new(&leg.topic).map_err(|error| error.to_string())?;
            Some(LegReceive {
                listen,
                topic,
                media: media.info()?,
            })
        }
        (Some(_), None) => return Err("say by `media` what `receive` takes".to_owned()),
        (None, _) => None,
    };
    let send = match leg.send {
        Some(to) => {
            let filter = Filter::new(&leg.topic).map_err(|error| error.to_string())?;
            Some(LegSend { to, filter })
        }
        None => None,
    };
    let rtcp = match leg.rtcp {
        Rtcp::Mux => RtcpPort::Mux,
        Rtcp::NextPort => RtcpPort::Next,
    };
    Ok(LegSpec {
        name: leg.name.clone(),
        receive,
        send,
        rtcp,
    })
}

/// The first address of a name.
///
/// # Errors
/// The name is unknown.
pub(crate) fn resolve(address: &HostPort) -> Result<SocketAddr, Failure> {
    let unknown = |why: String| {
        Failure::new(Exit::Unreachable, format!("{address}: {why}"))
            .hint("check the name, or give an address such as 192.0.2.1:4600")
    };
    let found = (address.host.as_str(), address.port).to_socket_addrs();
    let mut found = found.map_err(|error| unknown(error.to_string()))?;
    found
        .next()
        .ok_or_else(|| unknown("has no address".to_owned()))
}
