//! How WebRTC peers find the broker, and by which relays where nothing else passes.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::SECRET_LEN_MIN;

/// Relays that peers are told; each one costs a peer's ICE a round of its own.
const RELAYS_MAX: usize = 8;
/// How long a relay's credentials are good, in seconds: some checks of ICE at least, a day at most.
const SECONDS: std::ops::RangeInclusive<u64> = 60..=86_400;

/// Addresses of the broker, and relays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct WebRtc {
    pub(crate) public: Vec<IpAddr>,
    pub(crate) turn: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn_secret: Option<String>,
    pub(crate) turn_seconds: u64,
}

impl Default for WebRtc {
    /// No relay; credentials would be good for ten minutes: members' tokens live for two, and who
    /// has an allocation keeps it.
    fn default() -> Self {
        Self {
            public: Vec::new(),
            turn: Vec::new(),
            turn_secret: None,
            turn_seconds: 600,
        }
    }
}

impl WebRtc {
    /// Everything that does not fit, as (name of the key, what to do).
    pub(super) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if self.turn.len() > RELAYS_MAX {
            faults.push(("turn", format!("name at most {RELAYS_MAX}")));
        }
        for url in self.turn.iter().filter(|url| !is_relay(url)) {
            let wrong = format!("{url:?}: write turn:HOST:3478 or turns:HOST:5349?transport=tcp");
            faults.push(("turn", wrong));
        }
        let secret = self.turn_secret.as_deref().unwrap_or_default();
        if !self.turn.is_empty() && secret.len() < SECRET_LEN_MIN {
            let wrong = format!(
                "relays take credentials made with a secret, coturn's static-auth-secret: at \
                 least {SECRET_LEN_MIN} characters"
            );
            faults.push(("turn_secret", wrong));
        }
        if !SECONDS.contains(&self.turn_seconds) {
            let (least, most) = SECONDS.into_inner();
            faults.push((
                "turn_seconds",
                format!("between {least} and {most} seconds"),
            ));
        }
        faults
    }
}

/// RFC 7065 section 3.1; what stands here goes into a header as it is.
fn is_relay(url: &str) -> bool {
    let rest = url
        .strip_prefix("turn:")
        .or_else(|| url.strip_prefix("turns:"));
    let Some(rest) = rest else { return false };
    let (host, transport) = match rest.split_once("?transport=") {
        Some((host, transport)) => (host, Some(transport)),
        None => (rest, None),
    };
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    !host.is_empty() && host.bytes().all(good) && matches!(transport, None | Some("udp" | "tcp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_relays_are_told_to_peers() {
        for (url, good) in [
            ("turn:turn.example.org", true),
            ("turn:192.0.2.1:3478?transport=udp", true),
            ("turns:[2001:db8::1]:5349?transport=tcp", true),
            ("stun:stun.example.org", false),
            ("turn:", false),
            ("turn:a>; rel=\"x\"", false),
            ("turn:a?transport=sctp", false),
            ("https://turn.example.org", false),
        ] {
            assert_eq!(is_relay(url), good, "{url}");
        }
    }

    #[test]
    fn relays_need_a_secret() {
        let mut config = WebRtc {
            turn: vec!["turn:turn.example.org".to_owned()],
            ..WebRtc::default()
        };
        let keys = |config: &WebRtc| -> Vec<_> {
            config.faults().into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(keys(&config), ["turn_secret"]);
        config.turn_secret = Some("0123456789abcdef0123456789abcdef".to_owned());
        assert_eq!(keys(&config), [""; 0]);
        config.turn_seconds = 5;
        assert_eq!(keys(&config), ["turn_seconds"]);
    }
}
