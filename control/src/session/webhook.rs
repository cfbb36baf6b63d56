//! Tells other programs what happens: signed, and never waited for.

use aws_lc_rs::hmac;
use sangam_session::{Event, Record, SessionId};
use serde_json::json;

use super::server::unix_ms;
use crate::monitor::webhook::{Url, Webhooks};

/// Where changes are posted, and the secret that signs them.
#[derive(Clone)]
pub struct Hooks {
    webhooks: Webhooks,
    urls: Vec<Url>,
    key: hmac::Key,
}

impl Hooks {
    /// Posts to these URLs, signed with a secret that their owners know.
    #[must_use]
    pub fn new(webhooks: Webhooks, urls: Vec<Url>, secret: &[u8]) -> Self {
        Self {
            webhooks,
            urls,
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
        }
    }

    /// Posts what others want to know of these records; what people say is not of it.
    pub fn post(&self, id: &SessionId, records: &[Record]) {
        if self.urls.is_empty() {
            return;
        }
        for record in records.iter().filter(|record| is_news(&record.event)) {
            let body = json!({ "session": id, "record": record }).to_string();
            let signature = self.sign(unix_ms() / 1_000, &body);
            for url in &self.urls {
                self.webhooks
                    .post_signed(url, body.clone(), signature.clone());
            }
        }
    }

    /// The value of the header `Sangam-Signature`: when, and HMAC-SHA256 over `WHEN.BODY`, so that
    /// an old one cannot be sent again later.
    fn sign(&self, at_s: u64, body: &str) -> String {
        let tag = hmac::sign(&self.key, format!("{at_s}.{body}").as_bytes());
        let hex: String = tag
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("t={at_s},v1={hex}")
    }
}

const fn is_news(event: &Event) -> bool {
    !matches!(
        event,
        Event::Keyed { .. }
            | Event::Fenced
            | Event::Chat { .. }
            | Event::Reacted { .. }
            | Event::Annotated { .. }
            | Event::Recalled { .. }
            | Event::Kept { .. }
            | Event::Hand { .. }
            | Event::Requested { .. }
            | Event::Withdrawn { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::webhook::webhooks;

    #[test]
    fn a_signature_covers_the_time_and_every_byte_and_needs_the_secret() {
        let hooks = |secret: &[u8]| Hooks::new(webhooks().0, Vec::new(), secret);
        let good = hooks(b"secret").sign(1_700_000_000, "{\"a\":1}");
        assert_eq!(
            good,
            "t=1700000000,v1=49f24e537407743fa4a0242bb63b94b9a47ee99cbbe071ccd8a22550ae411686",
            "computed by openssl dgst"
        );
        assert_ne!(hooks(b"secret").sign(1_700_000_000, "{\"a\":2}"), good);
        assert_ne!(hooks(b"other").sign(1_700_000_000, "{\"a\":1}"), good);
    }
}
