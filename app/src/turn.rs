//! Credentials for TURN servers (RFC 8656) that share a secret with this broker.
//!
//! draft-uberti-behave-turn-rest-00 section 2.2, which coturn and others take: the name is the
//! second since 1970 at which it ends, a colon, and anything; the password its HMAC-SHA1.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sangam_node::Sample;

use crate::config::WebRtc;

/// The relays that peers are told.
pub(crate) struct Relays {
    /// As RFC 7065 writes them.
    pub(crate) urls: Vec<String>,
    /// How long credentials are good.
    pub(crate) ttl: Duration,
    key: hmac::Key,
    told: AtomicU64,
}

/// What a peer shows to a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) username: String,
    pub(crate) password: String,
}

impl Relays {
    /// What the configuration says; `None` without relays.
    pub(crate) fn of(config: &WebRtc) -> Option<Self> {
        let secret = config.turn_secret.as_ref()?;
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
        let relays = Self {
            urls: config.turn.clone(),
            ttl: Duration::from_secs(config.turn_seconds),
            key,
            told: AtomicU64::new(0),
        };
        (!relays.urls.is_empty()).then_some(relays)
    }

    /// New ones, good from now on; `None` if the system gives no randomness. Relays count by what
    /// stands behind the colon: it is always the same for one holder of tokens, and tells nothing
    /// about whom it is for. Without a holder each is another.
    pub(crate) fn credentials(&self, holder: Option<&str>) -> Option<Credentials> {
        let who = match holder {
            Some(holder) => self.who(holder),
            None => {
                let mut who = [0; 8];
                rand::fill(&mut who).ok()?;
                u64::from_be_bytes(who)
            }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        self.told.fetch_add(1, Ordering::Relaxed);
        Some(self.signed((now + self.ttl).as_secs(), who))
    }

    /// How many were given, for `/metrics`.
    pub(crate) fn sample(&self) -> Sample {
        Sample {
            name: "sangam_relays_told_total",
            help: "Names and passwords for relays that were given to peers",
            counter: true,
            labels: Vec::new(),
            value: self.told.load(Ordering::Relaxed) as f64,
        }
    }

    /// No password: names that are signed for one begin with a digit.
    fn who(&self, holder: &str) -> u64 {
        let code = hmac::sign(&self.key, format!("holder {holder}").as_bytes());
        let bytes = code.as_ref().iter().take(8);
        bytes.fold(0, |who, byte| (who << 8) | u64::from(*byte))
    }

    fn signed(&self, ends_s: u64, who: u64) -> Credentials {
        let username = format!("{ends_s}:{who:016x}");
        let password = STANDARD.encode(hmac::sign(&self.key, username.as_bytes()));
        Credentials { username, password }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relays(secret: &str) -> Relays {
        let config = WebRtc {
            turn: vec!["turn:turn.example.org".to_owned()],
            turn_secret: Some(secret.to_owned()),
            ..WebRtc::default()
        };
        Relays::of(&config).expect("a relay")
    }

    /// `printf 1700000000:0000000000000007 | openssl dgst -sha1 -hmac SECRET -binary | base64`
    #[test]
    fn a_password_is_the_names_code() {
        let credentials = relays("north").signed(1_700_000_000, 7);
        assert_eq!(credentials.username, "1700000000:0000000000000007");
        assert_eq!(credentials.password, "OW5mUp639ZqSk2fAUFRMTpWRsLg=");
    }

    #[test]
    fn everybody_has_a_name_of_its_own() {
        let relays = relays("north");
        let who = |holder| {
            let credentials = relays.credentials(holder).unwrap();
            credentials.username.split_once(':').unwrap().1.to_owned()
        };
        assert_ne!(who(None), who(None));
        assert_eq!(who(Some("acme/anna")), who(Some("acme/anna")));
        assert_ne!(who(Some("acme/anna")), who(Some("acme/bert")));
        assert_eq!(relays.sample().value as u64, 6);
    }

    #[test]
    fn without_relays_there_are_none() {
        assert!(Relays::of(&WebRtc::default()).is_none());
    }
}
