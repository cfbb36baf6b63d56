//! Where peers find the gateway, and which of its addresses a packet belongs to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sangam_io::interfaces;
use str0m::Candidate;
use str0m::net::TcpType;

/// Addresses told to peers; a host has few, and each costs every peer a check.
const TOLD_MAX: usize = 8;

/// The gateway's addresses. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Where the sockets are bound, with the port that the kernel chose.
    bound: Vec<SocketAddr>,
    /// What peers are told.
    told: Vec<SocketAddr>,
    /// What peers are told are addresses of this host, so packets can leave from them.
    own: bool,
}

impl Places {
    /// `bound` are the sockets; peers are told `public`, or if that is empty the addresses of this
    /// host that the sockets listen at.
    ///
    /// # Errors
    /// The kernel does not tell this host's addresses, or there are none.
    pub(crate) fn new(bound: Vec<SocketAddr>, public: &[IpAddr]) -> io::Result<Self> {
        let own = public.is_empty();
        let hosts = match own {
            true => interfaces::addresses()?,
            false => public.to_vec(),
        };
        let at = |socket: &SocketAddr| {
            let (ip, port) = (socket.ip(), socket.port());
            let listens = move |host: &IpAddr| host.is_ipv4() == ip.is_ipv4();
            let hosts: Vec<_> = match own && !ip.is_unspecified() {
                // This host's, or it would not be bound: all of 127.0.0.0/8, for instance, of
                // which interfaces name one.
                true => vec![ip],
                false => hosts.iter().copied().filter(listens).collect(),
            };
            // Who listens at all addresses is mostly meant from elsewhere, but not by tests.
            let (near, far): (Vec<_>, Vec<_>) = hosts.into_iter().partition(IpAddr::is_loopback);
            far.into_iter()
                .chain(near)
                .map(move |host| SocketAddr::new(host, port))
        };
        let mut told: Vec<SocketAddr> = bound.iter().flat_map(at).collect();
        told.truncate(TOLD_MAX);
        if told.is_empty() {
            let message = "WebRTC: none of this host's addresses fits webrtc.listen; name the \
                           public ones in webrtc.public";
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, message));
        }
        Ok(Self(Arc::new(Inner { bound, told, own })))
    }

    /// Where the sockets are bound.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = SocketAddr> {
        self.0.bound.iter().copied()
    }

    /// What an answer tells the peer.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let udp = self.0.told.iter();
        let udp = udp.filter_map(|told| Candidate::host(*told, "udp").ok());
        let tcp = self.0.told.iter().filter_map(|told| {
            let builder = Candidate::builder().tcp().host(*told);
            builder.tcptype(TcpType::Passive).build().ok()
        });
        udp.chain(tcp).collect()
    }

    /// The candidate that a packet was sent to, which arrived at `socket` for `local`.
    pub(crate) fn told(&self, socket: SocketAddr, local: Option<IpAddr>) -> SocketAddr {
        let mut fitting = self.0.told.iter();
        let wanted = local.unwrap_or(socket.ip());
        let exact = fitting.find(|told| told.ip() == wanted && told.port() == socket.port());
        let family = || {
            let mut told = self.0.told.iter();
            told.find(|told| told.is_ipv4() == socket.is_ipv4())
        };
        exact.or_else(family).copied().unwrap_or(socket)
    }

    /// Which socket reaches `destination`.
    pub(crate) fn socket_for(&self, destination: SocketAddr) -> Option<usize> {
        let mut sockets = self.0.bound.iter();
        sockets.position(|socket| socket.is_ipv4() == destination.is_ipv4())
    }

    /// The local address to send from, if the route may not decide.
    pub(crate) fn source(&self, told: IpAddr) -> Option<IpAddr> {
        let family = |socket: &&SocketAddr| socket.is_ipv4() == told.is_ipv4();
        let socket = self.0.bound.iter().find(family)?;
        (self.0.own && socket.ip().is_unspecified()).then_some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_socket_at_one_address_is_told_as_it_is() {
        // No interface has this one, and it is this host's all the same.
        let bound = address("127.0.0.2:4610");
        let places = Places::new(vec![bound], &[]).unwrap();
        assert_eq!(places.told(bound, None), bound);
        assert_eq!(places.source(bound.ip()), None, "there is no choice");
        let lines: Vec<_> = places
            .candidates()
            .iter()
            .map(Candidate::to_sdp_string)
            .collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[1].contains("tcptype passive"), "{lines:?}");
    }

    #[test]
    fn a_socket_at_all_addresses_is_told_by_each_and_answers_from_there() {
        let bound = address("0.0.0.0:4610");
        let places = Places::new(vec![bound], &[]).unwrap();
        let local = "127.0.0.1".parse().unwrap();
        assert_eq!(places.told(bound, Some(local)), address("127.0.0.1:4610"));
        assert_eq!(places.source(local), Some(local));
    }

    #[test]
    fn behind_a_translator_only_its_address_is_told() {
        let bound = address("0.0.0.0:4610");
        let public = "192.0.2.7".parse().unwrap();
        let places = Places::new(vec![bound], &[public]).unwrap();
        let inside = "10.0.0.5".parse().unwrap();
        assert_eq!(places.told(bound, Some(inside)), address("192.0.2.7:4610"));
        assert_eq!(places.source(public), None, "no address of this host");
        assert_eq!(places.socket_for(address("[::1]:9")), None);
    }
}
