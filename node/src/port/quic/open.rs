//! The sockets of all shards on one QUIC port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use sangam_io::quic::{Config, Endpoint};
use sangam_io::udp::UdpOptions;
use sangam_io::wake::Waker;
use sangam_link::Acceptor;

use super::{Group, Handover, QuicPort};
use crate::broker::StartError;
use crate::certificate::Certificate;
use crate::config::BrokerConfig;
use crate::counters::Counters;
use crate::sockets;
use crate::welcome::Greeting;

/// Packets of clients that moved which may wait for a shard.
const HANDOVERS: usize = 1_024;
/// Connections of one shard.
const CONNECTIONS: usize = 8_192;
/// A client that is not heard for so many of its keep-alive intervals is gone.
const INTERVALS: u32 = 3;

/// The ports of one address, one for each shard, until they are handed out.
pub(crate) struct Opening {
    /// With the port number that the first socket settled.
    pub(crate) address: SocketAddr,
    group: Group,
    arrivals: Vec<Receiver<Handover>>,
}

impl Opening {
    /// Prepares for shards with these wakers.
    ///
    /// # Errors
    /// Another program has the port.
    pub(crate) fn new(address: SocketAddr, wakers: &[Waker]) -> Result<Self, StartError> {
        // The shards' sockets share the port, and so could another process of the same user.
        sockets::bind("quic", address, &UdpOptions::default())?;
        let (mut senders, mut arrivals) = (Vec::new(), Vec::new());
        for waker in wakers {
            let (sender, receiver) = sync_channel(HANDOVERS);
            senders.push((sender, waker.clone()));
            arrivals.push(receiver);
        }
        // Handed out from the end.
        arrivals.reverse();
        let group = Group(senders);
        Ok(Self {
            address,
            group,
            arrivals,
        })
    }

    /// The port of the next shard, beginning with number 0.
    ///
    /// # Errors
    /// The socket or the certificate cannot be used.
    pub(crate) fn port(
        &mut self,
        number: u16,
        config: &BrokerConfig,
        (acceptor, greeting): (Acceptor, Greeting),
        (certificate, counters): (Certificate, Arc<Counters>),
    ) -> Result<QuicPort, StartError> {
        let Some(tls) = certificate.quic() else {
            return Err(StartError::Config("a QUIC port needs a certificate"));
        };
        let options = UdpOptions {
            reuse_port: true,
            ..sockets::options(config)
        };
        let socket = sockets::bind("quic", self.address, &options)?;
        self.address = socket.local_addr();
        let arrivals = self
            .arrivals
            .pop()
            .ok_or(StartError::Config("more QUIC ports than shards"))?;
        let settings = Config {
            server: Some(tls),
            client: None,
            datagram_max: config.datagram_max,
            idle: greeting.keepalive() * INTERVALS,
            connections_max: CONNECTIONS,
            strangers_per_s: config.hellos_per_s / config.shards.max(1) as u32,
            member: number as u8,
        };
        let endpoint = Endpoint::new(socket, &settings).map_err(StartError::Quic)?;
        let queued_max = config.pool_small / (4 * config.shards.max(1) * config.quic.len().max(1));
        Ok(QuicPort::new(
            endpoint,
            certificate,
            (self.group.clone(), arrivals),
            (acceptor, greeting),
            (queued_max, counters),
        ))
    }
}
