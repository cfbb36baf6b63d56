//! The UDP sockets of a broker.

use std::net::SocketAddr;

use sangam_io::udp::{UdpOptions, UdpSocket};

use crate::broker::StartError;
use crate::config::{BrokerConfig, Queuing};

/// What every socket is opened with.
pub(crate) fn options(config: &BrokerConfig) -> UdpOptions {
    UdpOptions {
        recv_buffer: config.socket_buffer,
        send_buffer: config.socket_buffer,
        gro: true,
        overflow_count: true,
        path_mtu_discovery: true,
        ..UdpOptions::default()
    }
}

/// Opens a socket for a transport.
///
/// # Errors
/// With transport and address.
pub(crate) fn bind(
    transport: &'static str,
    address: SocketAddr,
    options: &UdpOptions,
) -> Result<UdpSocket, StartError> {
    UdpSocket::bind(address, options).map_err(|source| StartError::Bind {
        transport,
        address,
        source,
    })
}

/// The public UDP sockets: one for each address family, with one port number.
///
/// # Errors
/// An address cannot be bound, or there are none or too many.
pub(crate) fn public_sockets(config: &BrokerConfig) -> Result<Vec<UdpSocket>, StartError> {
    let v6 = config
        .udp
        .iter()
        .filter(|address| address.is_ipv6())
        .count();
    let v4 = config.udp.len() - v6;
    if v4 > 1 || v6 > 1 || v4 + v6 == 0 {
        let rule = "a broker has one UDP address for IPv4, IPv6 or each";
        return Err(StartError::Config(rule));
    }
    let options = UdpOptions {
        // Where a round takes one packet, what the kernel joins would be many.
        gro: config.queuing == Queuing::Double,
        ..options(config)
    };
    let mut sockets: Vec<UdpSocket> = Vec::new();
    for address in &config.udp {
        let mut address = *address;
        if let Some(first) = sockets.first()
            && address.port() == 0
        {
            // One port number for both families, so that a host name is enough for callers.
            address.set_port(first.local_addr().port());
        }
        match bind("udp", address, &options) {
            Ok(socket) => sockets.push(socket),
            Err(StartError::Bind { .. }) if lacks_family(address) => {
                tracing::warn!(%address, "this host has no IPv6; going on without");
            }
            Err(error) => return Err(error),
        }
    }
    let port = |socket: &UdpSocket| socket.local_addr().port();
    match sockets.first() {
        None => Err(StartError::Config(
            "this host has none of the configured address families",
        )),
        Some(first) if sockets.iter().any(|socket| port(socket) != port(first)) => Err(
            StartError::Config("all UDP addresses of a broker share one port number"),
        ),
        Some(_) => Ok(sockets),
    }
}

/// Whether binding failed only as the host knows no IPv6, and all of it was meant.
pub(crate) fn lacks_family(address: SocketAddr) -> bool {
    let all_v6 = SocketAddr::from(([0_u16; 8], 0));
    address.is_ipv6() && address.ip().is_unspecified() && std::net::UdpSocket::bind(all_v6).is_err()
}
