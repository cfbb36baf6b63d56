//! What `sangam archive serve` serves by RTSP.

use std::net::SocketAddr;
use std::path::PathBuf;

use sangam_client::Address;
use serde::{Deserialize, Serialize};

/// Where it listens, for whom, and how many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Rtsp {
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) listen_tls: Vec<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http: Option<SocketAddr>,
    pub(crate) brokers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) credentials: Option<PathBuf>,
    pub(crate) ingest: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ingest_credentials: Option<PathBuf>,
    pub(crate) players: usize,
    pub(crate) players_per_address: usize,
    /// Mbit in a second; 0: as many as processor and disks carry.
    pub(crate) bandwidth: u64,
    pub(crate) admission: bool,
}

impl Default for Rtsp {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 8_554))],
            listen_tls: Vec::new(),
            http: None,
            brokers: Vec::new(),
            credentials: None,
            ingest: false,
            ingest_credentials: None,
            players: 1_024,
            players_per_address: 256,
            bandwidth: 0,
            admission: true,
        }
    }
}

impl Rtsp {
    /// The broker's addresses, best first; those that are none are faults.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        let all = self.brokers.iter();
        all.filter_map(|text| text.parse().ok()).collect()
    }

    /// Everything that does not fit, as (name of the key, what to do).
    pub(crate) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        for text in &self.brokers {
            if let Err(error) = text.parse::<Address>() {
                faults.push(("brokers", format!("{text:?}: {error}")));
            }
        }
        if self.ingest && self.brokers.is_empty() {
            let rule = "name the broker to which what comes in is published".to_owned();
            faults.push(("brokers", rule));
        }
        if self.players == 0 || self.players_per_address == 0 {
            faults.push(("players", "at least one player".to_owned()));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_named() {
        let wrong = Rtsp {
            brokers: vec!["gopher://a".to_owned()],
            players: 0,
            ..Rtsp::default()
        };
        let keys: Vec<_> = wrong.faults().iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, ["brokers", "players"]);
        let alone = Rtsp {
            ingest: true,
            ..Rtsp::default()
        };
        assert_eq!(alone.faults().len(), 1);
        assert_eq!(Rtsp::default().faults(), []);
    }
}
