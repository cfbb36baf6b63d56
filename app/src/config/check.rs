//! What no type can say: values that must fit together.

use std::collections::HashSet;
use std::net::SocketAddr;

use sangam_control::monitor::threshold::RULES_MAX;
use sangam_model::{Filter, Topic, limits};
use sangam_wire::{REGION_LEN_MAX, WAY_LEN_MAX, WAYS_MAX};

use super::{Config, Leg, Limits, LinkAddress, Listen, Threshold};

/// Shards one broker may have; a subscription mask has one bit for each.
const SHARDS_MAX: u16 = 64;
/// Buffers below which a broker cannot hold one batch for each thread.
const POOL_SMALL_MIN: usize = 1_024;
/// Large buffers below which one reassembly per link would not fit.
const POOL_LARGE_MIN: usize = 16;
/// Kernel buffers of a socket: one batch of full datagrams at least, 1 GiB at most.
const BUFFER_MIN: usize = 65_536;
const BUFFER_MAX: usize = 1 << 30;
/// What IPv4 and UDP leave of a packet.
const DATAGRAM_MAX: u16 = 65_507;
/// A clock that is further off is better set right.
const LEEWAY_MAX_S: u16 = 600;
/// Length of names in logs, metrics and URLs.
const NAME_LEN_MAX: usize = 64;

/// Everything that does not fit, as (path of the key, what to do).
pub(crate) fn check(config: &Config) -> Vec<(String, String)> {
    let mut wrong = Wrong(Vec::new());
    broker(config, &mut wrong);
    bounds(&config.limits, &mut wrong);
    thresholds(&config.thresholds, &mut wrong);
    for (key, fault) in config.links.faults() {
        wrong.add(format!("links.{key}"), fault);
    }
    for (key, fault) in config.reliable.faults() {
        wrong.add(format!("reliable.{key}"), fault);
    }
    for (key, fault) in config.multicast.faults(&config.listen.udp) {
        wrong.add(format!("multicast.{key}"), fault);
    }
    for (i, key) in config.auth.keys.iter().enumerate() {
        if let Some(fault) = key.fault() {
            wrong.add(format!("auth.keys[{i}]"), fault);
        }
    }
    for (key, fault) in config.webrtc.faults() {
        wrong.add(format!("webrtc.{key}"), fault);
    }
    for (key, fault) in config.rtsp.faults() {
        wrong.add(format!("rtsp.{key}"), fault);
    }
    for (key, fault) in config.page.faults() {
        wrong.add(format!("page.{key}"), fault);
    }
    for (key, fault) in config.sessions.faults() {
        wrong.add(format!("sessions.{key}"), fault);
    }
    for (key, fault) in config.login.faults() {
        wrong.add(format!("login.{key}"), fault);
    }
    if config.auth.leeway_s > LEEWAY_MAX_S {
        wrong.add("auth.leeway_s", format!("at most {LEEWAY_MAX_S} seconds"));
    }
    let mut names = HashSet::new();
    for (i, one) in config.legs.iter().enumerate() {
        leg(&format!("leg[{i}]"), one, &mut wrong);
        if !names.insert(one.name.as_str()) {
            wrong.add(
                format!("leg[{i}].name"),
                format!("two legs are named {:?}", one.name),
            );
        }
    }
    wrong.0
}

/// What is wrong with one leg, as one sentence per fault.
pub(crate) fn check_leg(one: &Leg) -> Vec<String> {
    let mut wrong = Wrong(Vec::new());
    leg("", one, &mut wrong);
    wrong.0.into_iter().map(|(_, message)| message).collect()
}

/// Whether a text may be a name.
///
/// # Errors
/// The rule for names.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if is_name(name) {
        Ok(())
    } else {
        Err(name_rule(name))
    }
}

struct Wrong(Vec<(String, String)>);

impl Wrong {
    fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push((path.into(), message.into()));
    }
}

fn broker(config: &Config, wrong: &mut Wrong) {
    let broker = &config.broker;
    if !is_name(&broker.name) {
        wrong.add("broker.name", name_rule(&broker.name));
    }
    if broker.region.len() > REGION_LEN_MAX || broker.region.chars().any(char::is_control) {
        wrong.add(
            "broker.region",
            format!("at most {REGION_LEN_MAX} bytes, without control characters"),
        );
    }
    if broker.shards > SHARDS_MAX {
        wrong.add(
            "broker.shards",
            format!("at most {SHARDS_MAX} shards; 0 takes one per core"),
        );
    }
    if broker.pool_small < POOL_SMALL_MIN {
        wrong.add(
            "broker.pool_small",
            format!("at least {POOL_SMALL_MIN} buffers"),
        );
    }
    if broker.pool_large < POOL_LARGE_MIN {
        wrong.add(
            "broker.pool_large",
            format!("at least {POOL_LARGE_MIN} buffers"),
        );
    }
    if !(1_000..=20_000).contains(&broker.keepalive_ms) {
        wrong.add("broker.keepalive_ms", "between 1000 and 20000 milliseconds");
    }
    listen(&config.listen, wrong);
    ports(&config.listen, wrong);
    tls(config, wrong);
    if config
        .api
        .token
        .as_deref()
        .is_some_and(|token| token.len() < 16)
    {
        wrong.add(
            "api.token",
            "a token has at least 16 characters; try `openssl rand -hex 16`",
        );
    }
}

fn listen(listen: &Listen, wrong: &mut Wrong) {
    if listen.udp.is_empty() {
        wrong.add(
            "listen.udp",
            "at least one address, such as \"0.0.0.0:4600\"",
        );
    }
    let all = listen.datagrams();
    for (key, addresses) in all.into_iter().chain(listen.streams()) {
        let v4 = addresses.iter().filter(|address| address.is_ipv4()).count();
        if v4 > 1 || addresses.len() - v4 > 1 {
            let rule = "one address each for IPv4 and IPv6 at most; 0.0.0.0 and [::] take all";
            wrong.add(format!("listen.{key}"), rule);
        }
    }
    if !(BUFFER_MIN..=BUFFER_MAX).contains(&listen.socket_buffer) {
        let rule = format!("between {BUFFER_MIN} and {BUFFER_MAX} bytes");
        wrong.add("listen.socket_buffer", rule);
    }
    let least = limits::DATAGRAM_LEN_SAFE as u16;
    if !(least..=DATAGRAM_MAX).contains(&listen.datagram_max) {
        let rule = format!(
            "between {least} bytes, which every path carries, and {DATAGRAM_MAX}, the most that \
             UDP takes"
        );
        wrong.add("listen.datagram_max", rule);
    }
}

/// Two listeners at one address would share their callers at random.
fn ports(listen: &Listen, wrong: &mut Wrong) {
    let http = [("http", std::slice::from_ref(&listen.http))];
    apart(http.into_iter().chain(listen.streams()), wrong);
    apart(listen.datagrams().into_iter(), wrong);
}

fn apart<'a>(all: impl Iterator<Item = (&'static str, &'a [SocketAddr])>, wrong: &mut Wrong) {
    let mut taken: Vec<(&str, SocketAddr)> = Vec::new();
    for (key, addresses) in all {
        for address in addresses.iter().filter(|address| address.port() != 0) {
            match taken.iter().find(|(_, other)| overlap(*other, *address)) {
                Some((other, _)) => wrong.add(
                    format!("listen.{key}"),
                    format!("{address} is taken by listen.{other}; give each its own port"),
                ),
                None => taken.push((key, *address)),
            }
        }
    }
}

fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let any = a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() == b.port() && a.is_ipv4() == b.is_ipv4() && (any || a.ip() == b.ip())
}

fn tls(config: &Config, wrong: &mut Wrong) {
    let (tls, listen) = (&config.tls, &config.listen);
    match (&tls.certificate, &tls.key) {
        (Some(_), None) => wrong.add("tls.key", "name the file with the certificate's key"),
        (None, Some(_)) => wrong.add(
            "tls.certificate",
            "name the file with the key's certificate",
        ),
        (None, None) => {
            let shown = [
                &listen.tls,
                &listen.wss,
                &listen.quic,
                &config.rtsp.listen_tls,
            ];
            if shown.iter().any(|addresses| !addresses.is_empty()) {
                let rule = "listen.tls, listen.wss, listen.quic and rtsp.listen_tls need a \
                            certificate: name its file here, and its key's in tls.key; `sangam \
                            ca` makes one";
                wrong.add("tls.certificate", rule);
            }
        }
        _ => {}
    }
    for (index, origin) in listen.ws_origins.iter().enumerate() {
        // RFC 6454 section 7: scheme, host and port, and nothing behind them.
        let host = origin.split_once("://").map(|(_, host)| host);
        if !host.is_some_and(|host| !host.is_empty() && !host.contains('/')) {
            let rule = "an origin is scheme and host as browsers name them, without a path, such \
                        as https://meet.example.org";
            wrong.add(format!("listen.ws_origins[{index}]"), rule);
        }
    }
    links(config, wrong);
}

/// What a valid configuration may leave out by mistake, as one sentence.
pub(crate) fn advice(config: &Config) -> Option<&'static str> {
    let Listen {
        udp,
        public,
        public_links,
        ..
    } = &config.listen;
    let everywhere = udp.iter().all(|address| address.ip().is_unspecified());
    let hidden = everywhere && public.is_none() && public_links.is_empty();
    let joins = !config.links.join.is_empty() || !config.broker.region.is_empty();
    let hidden = (hidden && joins).then_some(
        "no other broker will dial this one: it listens on all addresses, and listen.public does \
         not say at which it is reached",
    );
    let alone = !config.sessions.etcd.is_empty() && config.page.brokers.is_empty();
    let alone = alone.then_some(
        "pages will not go on at another session server when this one dies: page.brokers names \
         none",
    );
    let shut = config.login.issuer.is_some() && !config.sessions.enabled;
    let shut = shut.then_some(
        "nobody will log in: login.issuer is for brokers that host sessions, and sessions.enabled \
         is false",
    );
    hidden.or(alone).or(shut)
}

/// What is announced to all brokers has its bounds.
fn public_links(all: &[LinkAddress], wrong: &mut Wrong) {
    if all.len() > WAYS_MAX {
        let rule = format!("at most {WAYS_MAX} ways, best first");
        wrong.add("listen.public_links", rule);
    }
    // What stands there besides the name: scheme, address and port.
    let room = WAY_LEN_MAX - "quic://[]:65535#".len() - 39;
    for (index, one) in all.iter().enumerate() {
        if one.0.host.len() > room {
            let rule = format!("a name of at most {room} bytes");
            wrong.add(format!("listen.public_links[{index}]"), rule);
        }
    }
}

/// Encrypted links need certificates at both ends.
fn links(config: &Config, wrong: &mut Wrong) {
    public_links(&config.listen.public_links, wrong);
    let tls = &config.tls;
    let encrypted = |way: &LinkAddress| way.0.scheme.is_encrypted();
    let dialled = config
        .neighbours
        .iter()
        .any(|one| one.ways().any(|way| encrypted(&way)));
    let told = config.links.join.iter().chain(&config.listen.public_links);
    let joined = told.into_iter().any(encrypted);
    let wanted = !config.listen.quic_links.is_empty() || dialled || joined;
    if wanted && (tls.certificate.is_none() || tls.ca.is_none()) {
        let rule = "links by quic://, tls:// and wss:// need tls.certificate, tls.key and tls.ca: \
                    every broker's certificate holds its own key and is signed by the authority; \
                    see `sangam ca`";
        wrong.add("tls.ca", rule);
    }
}

fn bounds(given: &Limits, wrong: &mut Wrong) {
    let all = [
        ("clients", given.clients, limits::CLIENTS_PER_BROKER),
        (
            "webrtc_peers",
            given.webrtc_peers,
            limits::WEBRTC_PEERS_PER_BROKER,
        ),
        (
            "clients_per_address",
            given.clients_per_address,
            limits::CLIENTS_PER_BROKER,
        ),
        (
            "publisher_packets_per_s",
            given.publisher_packets_per_s as usize,
            limits::PUBLISHER_PACKETS_PER_S as usize,
        ),
    ];
    for (key, value, max) in all {
        if value == 0 || value > max {
            wrong.add(
                format!("limits.{key}"),
                format!("a limit lies between 1 and {max}"),
            );
        }
    }
}

fn thresholds(all: &[Threshold], wrong: &mut Wrong) {
    if all.len() > RULES_MAX {
        wrong.add("threshold", format!("at most {RULES_MAX} thresholds"));
    }
    for (i, one) in all.iter().enumerate() {
        if let Err((key, message)) = one.rule() {
            wrong.add(format!("threshold[{i}].{key}"), message);
        }
    }
}

fn leg(path: &str, leg: &Leg, wrong: &mut Wrong) {
    let at = |key: &str| format!("{path}.{key}");
    if !is_name(&leg.name) {
        wrong.add(at("name"), name_rule(&leg.name));
    }
    let topic = match leg.receive {
        Some(_) => Topic::new(&leg.topic).map(|_| ()),
        None => Filter::new(&leg.topic).map(|_| ()),
    };
    if let Err(error) = topic {
        wrong.add(at("topic"), format!("{:?}: {error}", leg.topic));
    }
    if leg.receive.is_none() && leg.send.is_none() {
        wrong.add(at("receive"), "a leg needs `receive`, `send` or both");
    }
    match &leg.media {
        Some(media) => {
            if let Err(error) = media.info() {
                wrong.add(at("media"), error);
            }
        }
        None if leg.receive.is_some() => {
            wrong.add(
                at("media"),
                "say by `media` what `receive` takes, such as H264 at 90000",
            );
        }
        None => {}
    }
    if leg
        .send
        .is_some_and(|send| send.port() == 0 || send.ip().is_unspecified())
    {
        wrong.add(at("send"), "say to which address and port RTP is sent");
    }
}

fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= NAME_LEN_MAX && name.chars().all(good)
}

fn name_rule(name: &str) -> String {
    format!("{name:?}: a name has 1 to {NAME_LEN_MAX} letters, digits, '-', '_' or '.'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_joins_from_behind_all_addresses_is_told_that_nobody_will_dial() {
        let config = |text: &str| -> Config { toml::from_str(text).unwrap() };
        let joins = "[broker]\nregion = \"asia\"\n[listen]\nudp = [\"0.0.0.0:4600\"]\n";
        assert!(advice(&config(joins)).is_some());
        for key in [
            "public = \"192.0.2.1:4600\"",
            "public_links = [\"quic://a:4603\"]",
        ] {
            assert_eq!(advice(&config(&format!("{joins}{key}"))), None);
        }
        assert_eq!(advice(&config("[listen]\nudp = [\"0.0.0.0:4600\"]")), None);
    }

    #[test]
    fn who_shares_sessions_is_told_that_pages_know_no_other_server() {
        let config = |text: &str| -> Config { toml::from_str(text).unwrap() };
        let shared = "[sessions]\netcd = [\"http://10.0.0.1:2379\"]\n";
        assert!(advice(&config(shared)).is_some());
        let named = format!("{shared}[page]\nbrokers = [\"https://b.example.org\"]");
        assert_eq!(advice(&config(&named)), None);
    }

    #[test]
    fn ways_that_are_told_have_bounds() {
        let links = |all: &[String]| {
            let all: Vec<LinkAddress> = all.iter().map(|one| one.parse().unwrap()).collect();
            let mut wrong = Wrong(Vec::new());
            public_links(&all, &mut wrong);
            wrong.0.len()
        };
        let ways = |count: u16| (0..count).map(|n| format!("192.0.2.1:{}", 4_600 + n));
        assert_eq!(links(&ways(5).collect::<Vec<_>>()), 0);
        assert_eq!(links(&ways(6).collect::<Vec<_>>()), 1);
        assert_eq!(links(&[format!("quic://{}:4603", "a".repeat(60))]), 1);
    }
}
