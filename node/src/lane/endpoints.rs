//! The lane's QUIC endpoints: where neighbours dial, and whence they are dialled.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use sangam_broker::LinkId;
use sangam_io::poll::{Interest, Poller};
use sangam_io::quic::{Config, Endpoint, Key, broker_of};
use sangam_io::tls::Secret;
use sangam_model::limits::LINKS_PER_BROKER;
use sangam_model::{BrokerId, Time};

use super::links::LinkTable;
use crate::broker::StartError;
use crate::certificate::Certificate;
use crate::config::{BrokerConfig, LinkWay};
use crate::sockets;

/// A neighbour that does not finish a handshake in time; sessions notice silence much earlier.
const IDLE: Duration = Duration::from_secs(5);
/// Connections at once: some are being closed while their successors are made.
const CONNECTIONS: usize = 4 * LINKS_PER_BROKER;

/// How often to look for another certificate.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const UNPROVED: &str =
    "links by QUIC, TLS and wss need a certificate and the authority of the neighbours'";

/// A connection of one of the lane's endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) endpoint: usize,
    pub(super) key: Key,
}

/// The lane's endpoints, at most one for each address family.
#[derive(Debug, Default)]
pub(crate) struct QuicEnds {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) links: HashMap<Place, LinkId>,
    /// When to look for another certificate.
    look_at: Time,
}

impl QuicEnds {
    /// Opens what the configuration needs; nothing without links by QUIC.
    ///
    /// # Errors
    /// An address or a certificate cannot be used.
    pub(crate) fn open(
        config: &BrokerConfig,
        certificate: &Certificate,
    ) -> Result<Self, StartError> {
        let mut endpoints = Vec::new();
        let mut ways = config.listed().flat_map(|neighbour| &neighbour.ways);
        let shown = certificate.quic_links();
        if shown.is_none() && ways.any(LinkWay::is_encrypted) {
            return Err(StartError::Config(UNPROVED));
        }
        let addresses = addresses(config);
        if addresses.is_empty() {
            return Ok(Self::default());
        }
        let (server, client) = shown.ok_or(StartError::Config(UNPROVED))?;
        for address in addresses {
            let socket = sockets::bind("quic", address, &sockets::options(config))?;
            let settings = Config {
                server: Some(server.clone()),
                client: Some(client.clone()),
                datagram_max: config.datagram_max,
                idle: IDLE,
                connections_max: CONNECTIONS,
                strangers_per_s: config.hellos_per_s,
                member: 0,
            };
            endpoints.push(Endpoint::new(socket, &settings).map_err(StartError::Quic)?);
        }
        Ok(Self {
            endpoints,
            links: HashMap::new(),
            look_at: Time::ZERO,
        })
    }

    /// Where neighbours may dial.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.endpoints.iter().map(Endpoint::local_addr).collect()
    }

    pub(super) fn register(&self, poller: &Poller, first: u64) -> io::Result<()> {
        for (token, endpoint) in (first..).zip(&self.endpoints) {
            poller.add(endpoint.fd(), token, Interest::Read)?;
        }
        Ok(())
    }

    /// Shows another certificate, if there is one since.
    pub(super) fn look_at(&mut self, certificate: &Certificate, now: Time) {
        if self.endpoints.is_empty() || now < self.look_at {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        let Some((server, client)) = certificate.quic_links() else {
            return;
        };
        for endpoint in &mut self.endpoints {
            let shown = endpoint
                .show(&server)
                .and_then(|()| endpoint.call_with(&client));
            if let Err(error) = shown {
                tracing::warn!(%error, "the new certificate is no use for links by QUIC");
            }
        }
    }

    /// Two links have changed their ways.
    pub(super) fn exchanged(&mut self, links: &LinkTable, ids: [LinkId; 2]) {
        for id in ids {
            let way = links.get(id).and_then(|link| link.quic());
            if let Some(at) = way.and_then(|way| way.connection) {
                self.links.insert(at, id);
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.endpoints.iter().filter_map(Endpoint::deadline).min()
    }

    pub(super) fn peer(&self, at: Place) -> Option<SocketAddr> {
        self.endpoints.get(at.endpoint)?.peer(at.key)
    }

    /// The broker whose key the peer has proved to hold.
    pub(super) fn identity(&self, at: Place) -> Option<BrokerId> {
        let certificate = self.endpoints.get(at.endpoint)?.certificate(at.key)?;
        broker_of(&certificate)
    }

    /// A secret of ours and the peer's.
    pub(super) fn secret(&self, at: Place, purpose: &[u8]) -> Option<Secret> {
        self.endpoints.get(at.endpoint)?.secret(at.key, purpose)
    }

    pub(super) fn send_frame(&mut self, at: Place, frame: &[u8]) -> bool {
        let endpoint = self.endpoints.get_mut(at.endpoint);
        endpoint.is_some_and(|endpoint| endpoint.send_frame(at.key, frame).is_ok())
    }

    pub(super) fn close(&mut self, at: Place, now: Time, reason: &str) {
        self.links.remove(&at);
        if let Some(endpoint) = self.endpoints.get_mut(at.endpoint) {
            endpoint.close(at.key, now, reason);
        }
    }
}

/// Where to listen, and a port of the kernel's choice for each family that is only dialled.
fn addresses(config: &BrokerConfig) -> Vec<SocketAddr> {
    let mut addresses = config.quic_links.clone();
    for way in config.listed().flat_map(|neighbour| &neighbour.ways) {
        let LinkWay::Quic { address, .. } = way else {
            continue;
        };
        let v6 = address.is_ipv6();
        if !addresses.iter().any(|address| address.is_ipv6() == v6) {
            addresses.push(match v6 {
                true => (Ipv6Addr::UNSPECIFIED, 0).into(),
                false => (Ipv4Addr::UNSPECIFIED, 0).into(),
            });
        }
    }
    addresses
}
