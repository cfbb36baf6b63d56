//! UDP as the kernel offers it, and the ports of the configuration.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::Duration;

use sangam_io::interfaces::{self, Interface};
use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::udp::{Address, Fanout, RecvBatch, SendReport, UdpOptions, UdpSocket};

use super::Check;
use crate::config::{Config, Multicast};

const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);
/// How long a packet may take over the loopback device before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(1);
const BURST: usize = 3;
const ROOM: usize = 65_535;

pub(super) fn checks(config: &Config) -> Vec<Check> {
    let mut checks = vec![segmentation(), joining(), ipv6()];
    checks.extend(multicast(&config.multicast));
    checks.extend(buffers(config.listen.socket_buffer));
    checks.extend(ports(config));
    checks
}

fn open(options: &UdpOptions) -> io::Result<UdpSocket> {
    UdpSocket::bind(SocketAddr::from(LOOPBACK), options)
}

/// Sends a burst in one message and counts what arrives.
fn segmentation() -> Check {
    const NAME: &str = "UDP_SEGMENT";
    const ADVICE: &str = "video will cost several times the CPU; Linux has it since 4.18";
    match send_burst() {
        Ok((1, BURST)) => Check::good(NAME, "works"),
        Ok((messages, packets)) => {
            let found = format!("{messages} messages for {BURST} packets, {packets} arrived");
            Check::poor(NAME, found, ADVICE)
        }
        Err(error) => Check::poor(NAME, error.to_string(), ADVICE),
    }
}

/// Messages sent and packets that arrived.
fn send_burst() -> io::Result<(u64, usize)> {
    let (from, to) = (open(&UdpOptions::default())?, open(&UdpOptions::default())?);
    let packet = [0; 100];
    let mut report = SendReport::default();
    let to_address = [Address::from(to.local_addr())];
    Fanout::new().send(&from, &[&packet[..]; BURST], &to_address, &mut report);
    let poller = Poller::new()?;
    poller.add(to.fd(), 0, Interest::Read)?;
    let (mut events, mut batch) = (Events::with_capacity(1), RecvBatch::new(8, ROOM));
    let mut arrived = 0;
    while arrived < BURST && poller.wait(&mut events, Some(PATIENCE))? > 0 {
        to.recv(&mut batch)?;
        arrived += batch.datagrams().count();
    }
    Ok((report.messages, arrived))
}

fn joining() -> Check {
    const NAME: &str = "UDP_GRO";
    const ADVICE: &str = "links will cost more CPU; Linux has it since 5.0";
    match open(&UdpOptions {
        gro: true,
        ..UdpOptions::default()
    }) {
        Ok(socket) if socket.gro() => Check::good(NAME, "works"),
        Ok(_) => Check::poor(NAME, "missing", ADVICE),
        Err(error) => Check::poor(NAME, error.to_string(), ADVICE),
    }
}

fn ipv6() -> Check {
    let any = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 0));
    match UdpSocket::bind(any, &UdpOptions::default()) {
        Ok(_) => Check::good("IPv6", "works"),
        Err(error) => Check::poor(
            "IPv6",
            error.to_string(),
            "listen on 0.0.0.0 instead of [::], or switch IPv6 on",
        ),
    }
}

/// Whether the configured interface can have groups; whether the network passes them on, only
/// those who listen can tell.
fn multicast(config: &Multicast) -> Option<Check> {
    const NAME: &str = "multicast";
    const ADVICE: &str = "name the interface of the segment in multicast.interface, and see \
        `ip maddress` and `ip link`";
    let name = config.interface.as_ref()?;
    let tried = interfaces::named(name).and_then(|interface| {
        if !(interface.up && interface.multicast) {
            return Err(io::Error::other(format!(
                "{name} is down or without multicast"
            )));
        }
        let families = config.groups.iter().map(|range| range.0.address);
        let joined = families
            .map(|group| join(group, &interface))
            .collect::<io::Result<Vec<_>>>();
        joined.map(|joined| joined.into_iter().flatten().count())
    });
    Some(match tried {
        Ok(0) => Check::bad(NAME, format!("{name} has no address for any group"), ADVICE),
        Ok(_) => Check::good(
            NAME,
            format!("{name} joins groups; /metrics tells by sangam_group_listeners who hears them"),
        ),
        Err(error) => Check::bad(NAME, error.to_string(), ADVICE),
    })
}

/// Joins a group for a moment; `None` if the interface has no address of its family.
fn join(group: IpAddr, interface: &Interface) -> io::Result<Option<()>> {
    let mut own = interface.networks.iter().map(|(address, _)| *address);
    let Some(own) = own.find(|address| address.is_ipv6() == group.is_ipv6()) else {
        return Ok(None);
    };
    let socket = UdpSocket::for_groups(0, group.is_ipv6(), 0)?;
    socket.join(group, own, interface.index).map(Some)
}

/// The kernel grants twice what it is asked for, up to twice its limit (socket(7)).
fn buffers(wanted: usize) -> Vec<Check> {
    const RECV: &str = "a burst may be lost before it is read: `sysctl -w \
        net.core.rmem_max=8388608`, or lower listen.socket_buffer";
    const SEND: &str = "a burst may be lost before it leaves: `sysctl -w \
        net.core.wmem_max=8388608`, or lower listen.socket_buffer";
    let options = UdpOptions {
        recv_buffer: wanted,
        send_buffer: wanted,
        ..UdpOptions::default()
    };
    let granted = open(&options)
        .and_then(|socket| Ok([socket.recv_buffer()? / 2, socket.send_buffer()? / 2]));
    let Ok([recv, send]) = granted else {
        return vec![Check::bad(
            "socket buffers",
            "no socket at all",
            "see the limits of the user",
        )];
    };
    let judge = |name, granted: usize, advice| {
        let found = format!("{granted} of {wanted} bytes");
        if granted >= wanted {
            Check::good(name, found)
        } else {
            Check::poor(name, found, advice)
        }
    };
    vec![
        judge("receive buffer", recv, RECV),
        judge("send buffer", send, SEND),
    ]
}

fn ports(config: &Config) -> Vec<Check> {
    const ADVICE: &str = "if that is no broker of yours, `ss -lunpt` names who has it; or choose \
        another port in [listen]";
    let mut checks = Vec::new();
    let mut judge = |name, address: SocketAddr, bound: io::Result<()>| match bound {
        Ok(()) => checks.push(Check::good(name, format!("{address} is free"))),
        Err(error) => checks.push(Check::poor(name, format!("{address}: {error}"), ADVICE)),
    };
    for address in &config.listen.udp {
        let options = UdpOptions {
            v6_only: false,
            ..UdpOptions::default()
        };
        let bound = std::net::UdpSocket::bind(address).and_then(|socket| {
            drop(socket);
            UdpSocket::bind(*address, &options)
        });
        judge("UDP port", *address, bound.map(|_| ()));
    }
    for address in config.listen.streams().iter().flat_map(|(_, all)| *all) {
        judge("TCP port", *address, TcpListener::bind(address).map(|_| ()));
    }
    let http = config.listen.http;
    judge("HTTP port", http, TcpListener::bind(http).map(|_| ()));
    checks
}
