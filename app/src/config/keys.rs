//! Every key there is; from this table come the names of variables and the advice on typing
//! mistakes.

/// What a variable's text is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// As it stands.
    Text,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Switch,
    /// Texts with commas between.
    Texts,
    /// Texts with commas between, each one table with this key.
    Tables,
    /// Not to be given by a variable.
    File,
}

/// All keys with dots between; tables in arrays (`link`, `leg`) stand without an index.
pub(super) const KEYS: [(&str, Kind); 122] = [
    ("broker.name", Kind::Text),
    ("broker.region", Kind::Text),
    ("broker.data_dir", Kind::Text),
    ("broker.shards", Kind::Number),
    ("broker.queuing", Kind::Text),
    ("broker.pool_small", Kind::Number),
    ("broker.pool_large", Kind::Number),
    ("broker.keepalive_ms", Kind::Number),
    ("listen.udp", Kind::Texts),
    ("listen.tcp", Kind::Texts),
    ("listen.tls", Kind::Texts),
    ("listen.ws", Kind::Texts),
    ("listen.wss", Kind::Texts),
    ("listen.ws_origins", Kind::Texts),
    ("listen.quic", Kind::Texts),
    ("listen.quic_links", Kind::Texts),
    ("listen.webrtc", Kind::Texts),
    ("listen.http", Kind::Text),
    ("listen.public", Kind::Text),
    ("listen.public_links", Kind::Texts),
    ("listen.socket_buffer", Kind::Number),
    ("listen.datagram_max", Kind::Number),
    ("tls.certificate", Kind::Text),
    ("tls.key", Kind::Text),
    ("tls.ca", Kind::Text),
    ("links.accept", Kind::Texts),
    ("links.join", Kind::Texts),
    ("links.weights", Kind::Texts),
    ("links.forbid", Kind::Texts),
    ("links.proxy", Kind::Text),
    ("routing.method", Kind::Text),
    ("link.address", Kind::Tables),
    ("link.fallback", Kind::File),
    ("leg.name", Kind::File),
    ("leg.topic", Kind::File),
    ("leg.receive", Kind::File),
    ("leg.send", Kind::File),
    ("leg.rtcp", Kind::File),
    ("leg.media", Kind::File),
    ("leg.media.encoding", Kind::File),
    ("leg.media.payload_type", Kind::File),
    ("leg.media.clock_rate", Kind::File),
    ("leg.media.channels", Kind::File),
    ("leg.media.fmtp", Kind::File),
    ("leg.media.class", Kind::File),
    ("threshold.measure", Kind::File),
    ("threshold.above", Kind::File),
    ("threshold.below", Kind::File),
    ("threshold.clear", Kind::File),
    ("threshold.for", Kind::File),
    ("threshold.action", Kind::File),
    ("threshold.url", Kind::File),
    ("api.token", Kind::Text),
    ("api.legs_allow", Kind::Texts),
    ("webrtc.public", Kind::Texts),
    ("webrtc.turn", Kind::Texts),
    ("webrtc.turn_secret", Kind::Text),
    ("webrtc.turn_seconds", Kind::Number),
    ("rtsp.listen", Kind::Texts),
    ("rtsp.listen_tls", Kind::Texts),
    ("rtsp.http", Kind::Text),
    ("rtsp.brokers", Kind::Texts),
    ("rtsp.credentials", Kind::Text),
    ("rtsp.ingest", Kind::Switch),
    ("rtsp.ingest_credentials", Kind::Text),
    ("rtsp.players", Kind::Number),
    ("rtsp.players_per_address", Kind::Number),
    ("rtsp.bandwidth", Kind::Number),
    ("rtsp.admission", Kind::Switch),
    ("auth.required", Kind::Switch),
    ("auth.keys", Kind::Texts),
    ("auth.keys.kid", Kind::File),
    ("auth.keys.file", Kind::File),
    ("auth.keys.secret", Kind::File),
    ("auth.issuer", Kind::Text),
    ("auth.audience", Kind::Text),
    ("auth.leeway_s", Kind::Number),
    ("sessions.enabled", Kind::Switch),
    ("sessions.key", Kind::Text),
    ("sessions.tenant", Kind::Text),
    ("sessions.link", Kind::Text),
    ("sessions.limit", Kind::Number),
    ("sessions.ways.label", Kind::File),
    ("sessions.ways.uri", Kind::File),
    ("sessions.archive", Kind::Text),
    ("sessions.url", Kind::Text),
    ("sessions.etcd", Kind::Texts),
    ("sessions.etcd_prefix", Kind::Text),
    ("sessions.etcd_ca", Kind::Text),
    ("sessions.etcd_user", Kind::Text),
    ("sessions.etcd_password", Kind::Text),
    ("sessions.webhooks", Kind::Texts),
    ("sessions.webhook_secret", Kind::Text),
    ("login.issuer", Kind::Text),
    ("login.client_id", Kind::Text),
    ("login.client_secret", Kind::Text),
    ("login.url", Kind::Text),
    ("login.scopes", Kind::Texts),
    ("login.claim", Kind::Text),
    ("login.chairs", Kind::Texts),
    ("login.hours", Kind::Number),
    ("page.folder", Kind::Text),
    ("page.brokers", Kind::Texts),
    ("limits.clients", Kind::Number),
    ("limits.clients_per_address", Kind::Number),
    ("limits.publisher_packets_per_s", Kind::Number),
    ("limits.webrtc_peers", Kind::Number),
    ("reliable.keep", Kind::Switch),
    ("reliable.durable", Kind::Switch),
    ("reliable.keep_events", Kind::Number),
    ("reliable.keep_seconds", Kind::Number),
    ("reliable.topic_mib", Kind::Number),
    ("reliable.memory_mib", Kind::Number),
    ("reliable.topics", Kind::Number),
    ("reliable.gap_seconds", Kind::Number),
    ("multicast.interface", Kind::Text),
    ("multicast.groups", Kind::Texts),
    ("multicast.port", Kind::Number),
    ("multicast.ttl", Kind::Number),
    ("multicast.clients", Kind::Number),
    ("multicast.topics", Kind::Texts),
    ("multicast.links", Kind::Switch),
];

/// How the names of all variables begin.
pub(super) const PREFIX: &str = "SANGAM_";

/// Variables that mean something without being a key.
const VARIABLES: [&str; 5] = [
    "SANGAM_ARCHIVE",
    "SANGAM_CONFIG",
    "SANGAM_LOG",
    "SANGAM_LOG_FORMAT",
    "SANGAM_TOKEN",
];

/// Whether `path` is a key, or holds keys.
pub(super) fn is_known(path: &str) -> bool {
    KEYS.iter().any(|(key, _)| {
        key.strip_prefix(path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// The nearest known key or section to an unknown `path`, if one is near.
///
/// First the siblings by their last word, then the same word in any section.
pub(super) fn nearest(path: &str) -> Option<String> {
    let (section, word) = path.rsplit_once('.').unwrap_or(("", path));
    let siblings = children(section);
    if let Some(near) = closest(word, siblings.iter().map(String::as_str)) {
        return Some(near.to_owned());
    }
    let elsewhere = KEYS
        .iter()
        .find(|(key, _)| key.rsplit('.').next() == Some(word));
    elsewhere.map(|(key, _)| (*key).to_owned())
}

/// The keys directly in a section; the sections themselves for "".
pub(super) fn children(section: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (key, _) in KEYS {
        let inner = if section.is_empty() {
            Some(key)
        } else {
            key.strip_prefix(section)
                .and_then(|rest| rest.strip_prefix('.'))
        };
        let child = inner
            .and_then(|inner| inner.split('.').next())
            .map(str::to_owned);
        found.extend(child.filter(|child| !found.contains(child)));
    }
    found
}

/// The name of a key's variable: `broker.shards` is `SANGAM_BROKER_SHARDS`.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

/// The key of a variable, if it has one.
pub(super) fn of_variable(name: &str) -> Option<(&'static str, Kind)> {
    let settable = KEYS.into_iter().filter(|(_, kind)| *kind != Kind::File);
    settable.into_iter().find(|(key, _)| variable(key) == name)
}

/// Whether a variable is one of the command line's own.
pub(super) fn is_option(name: &str) -> bool {
    VARIABLES.contains(&name)
}

/// The nearest known variable to an unknown one, if one is near.
pub(super) fn nearest_variable(name: &str) -> Option<String> {
    let settable = KEYS.iter().filter(|(_, kind)| *kind != Kind::File);
    let names: Vec<String> = settable
        .map(|(key, _)| variable(key))
        .chain(VARIABLES.map(str::to_owned))
        .collect();
    // The common prefix would make every name alike.
    let word = name.trim_start_matches(PREFIX);
    let near = closest(
        word,
        names.iter().map(|name| name.trim_start_matches(PREFIX)),
    );
    near.map(|near| format!("{PREFIX}{near}"))
}

/// The candidate that is most like `word`, if it is alike at all: 0.8 lets `shard`, `shrads`
/// and `quueing` through and keeps `port` from becoming `name`.
fn closest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}
