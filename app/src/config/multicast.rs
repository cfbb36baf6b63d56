//! Delivery by groups to clients and neighbours on one segment.

use std::net::SocketAddr;

use sangam_model::{Filter, limits};
use sangam_node::holds_near_only;
use serde::{Deserialize, Serialize};

use crate::network::Network;

/// Routers beyond which no group is meant to go.
const TTL_MAX: u8 = 32;

/// Whether there is any, and how it works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Multicast {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interface: Option<String>,
    pub(crate) groups: Vec<Network>,
    pub(crate) port: u16,
    pub(crate) ttl: u8,
    pub(crate) clients: usize,
    pub(crate) topics: Vec<String>,
    pub(crate) links: bool,
}

impl Default for Multicast {
    fn default() -> Self {
        let groups = ["239.192.46.0/24", "ff15:4600::/120"];
        Self {
            interface: None,
            groups: groups.iter().filter_map(|text| text.parse().ok()).collect(),
            port: 4_620,
            ttl: 1,
            clients: 2,
            topics: vec!["#".to_owned()],
            links: false,
        }
    }
}

impl Multicast {
    /// Everything that does not fit, if it is on, as (name of the key, what to do).
    pub(super) fn faults(&self, udp: &[SocketAddr]) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if self.interface.is_none() {
            return faults;
        }
        for range in &self.groups {
            if !holds_near_only(&range.0) {
                let rule = "groups stay within an organisation: a part of 239.192.0.0/14, \
                            239.255.0.0/16, or of an IPv6 range such as ff15:4600::/120";
                faults.push(("groups", format!("{range}: {rule}")));
            }
        }
        let v6 = self.groups.iter().filter(|range| range.0.address.is_ipv6());
        let v6 = v6.count();
        if self.groups.is_empty() || v6 > 1 || self.groups.len() - v6 > 1 {
            let rule = "one range of groups for IPv4, IPv6 or each";
            faults.push(("groups", rule.to_owned()));
        }
        if self.port == 0 || udp.iter().any(|address| address.port() == self.port) {
            let rule = "a port of its own, neither 0 nor that of listen.udp";
            faults.push(("port", rule.to_owned()));
        }
        if !(1..=TTL_MAX).contains(&self.ttl) {
            let rule = format!("between 1, which stays on the segment, and {TTL_MAX}");
            faults.push(("ttl", rule));
        }
        if !(2..=limits::CLIENTS_PER_BROKER).contains(&self.clients) {
            let rule = "at least 2: one client has its own copy".to_owned();
            faults.push(("clients", rule));
        }
        for topic in &self.topics {
            if let Err(error) = Filter::new(topic) {
                faults.push(("topics", format!("{topic:?}: {error}")));
            }
        }
        faults
    }

    /// In the broker's words; `None` if there is none.
    ///
    /// # Errors
    /// What [`Self::faults`] would have said.
    pub(crate) fn config(&self) -> Result<Option<sangam_node::Multicast>, String> {
        let Some(interface) = &self.interface else {
            return Ok(None);
        };
        let topics: Result<_, _> = self.topics.iter().map(|text| Filter::new(text)).collect();
        Ok(Some(sangam_node::Multicast {
            interface: interface.clone(),
            groups: self.groups.iter().map(|range| range.0).collect(),
            port: self.port,
            ttl: self.ttl,
            clients: self.clients,
            topics: topics.map_err(|error| format!("multicast.topics: {error}"))?,
            links: self.links,
        }))
    }
}
