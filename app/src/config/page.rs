//! The meeting page that this broker serves.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Brokers that a page is told of; each costs it a header's worth of bytes.
const BROKERS_MAX: usize = 16;

/// Where the page is, and where it may go on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Page {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) folder: Option<PathBuf>,
    pub(crate) brokers: Vec<String>,
}

impl Page {
    /// Everything that does not fit, as (name of the key, what to do).
    pub(super) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if self.brokers.len() > BROKERS_MAX {
            faults.push(("brokers", format!("name at most {BROKERS_MAX}")));
        }
        for origin in self.brokers.iter().filter(|origin| !is_origin(origin)) {
            let wrong = format!("{origin:?}: write an origin such as https://b.example.org");
            faults.push(("brokers", wrong));
        }
        faults
    }
}

/// RFC 6454 section 6.2, as browsers write it; what stands here goes into a header as it is.
fn is_origin(text: &str) -> bool {
    let host = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let good =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-:[]".contains(&byte);
    host.is_some_and(|host| !host.is_empty() && host.bytes().all(good))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_origins_are_told_to_a_page() {
        for (origin, good) in [
            ("https://b.example.org", true),
            ("http://127.0.0.1:4681", true),
            ("http://[::1]:4681", true),
            ("https://b.example.org/", false),
            ("b.example.org", false),
            ("https://*; script-src *", false),
            ("http://", false),
        ] {
            assert_eq!(is_origin(origin), good, "{origin}");
        }
    }
}
