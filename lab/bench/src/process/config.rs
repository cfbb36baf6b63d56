//! The configuration file of a broker that the bench starts.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use sangam_client::Scheme;
use sangam_emulator::Site;

/// How a broker queues: the papers' baseline or what this project does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Queuing {
    /// Neighbours in their own queue (Uyar & Fox, section 3.1).
    #[default]
    Double,
    /// One first-come-first-served thread (Uyar & Fox, section 3).
    Single,
}

/// What distinguishes one broker of a run from another.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// From 1, in the order of the chain.
    pub(crate) number: usize,
    /// Delivery shards.
    pub(crate) shards: usize,
    /// The kind of queuing.
    pub(crate) queuing: Queuing,
    /// The neighbours to dial.
    pub(crate) neighbours: Vec<SocketAddr>,
    /// What links go by.
    pub(crate) carrier: Carrier,
    /// Another program than the one that the bench was built with.
    pub(crate) program: Option<PathBuf>,
    /// Where clients and neighbours send; 0: the kernel chooses.
    pub(crate) port: u16,
    /// The site it runs in; `None`: on loopback.
    pub(crate) site: Option<Site>,
    /// Whether WebRTC peers are served.
    pub(crate) webrtc: bool,
    /// Whether clients may come by every transport, see [`client_port`].
    pub(crate) clients: bool,
    /// Whether it hosts sessions.
    pub(crate) sessions: bool,
    /// By which ways streams come, if not by the default.
    pub(crate) routing: Option<&'static str>,
}

/// What links between brokers go by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// Plain datagrams.
    #[default]
    Udp,
    /// QUIC, with certificates of an authority that the bench makes.
    Quic,
    /// A byte stream through TLS, with the same.
    Tls,
}

/// Each broker of a network by QUIC has an address of its own.
const QUIC_PORT: u16 = 4603;
/// And of one by streams, where its clients are taken, too.
const TLS_PORT: u16 = 4606;

/// Where a broker takes clients of a transport, if it takes clients of each; `None` for UDP.
pub(crate) const fn client_port(scheme: Scheme) -> Option<u16> {
    match scheme {
        Scheme::Quic => Some(4604),
        Scheme::Tcp => Some(4605),
        Scheme::Tls => Some(TLS_PORT),
        Scheme::Ws => Some(4607),
        Scheme::Wss => Some(4608),
        _ => None,
    }
}

impl Queuing {
    /// As configuration and reports name it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Double => "double",
            Self::Single => "single",
        }
    }
}

impl Carrier {
    /// As reports name it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Quic => "quic",
            Self::Tls => "tls",
        }
    }

    /// Where a broker is dialled that takes clients at this address.
    pub(crate) const fn port(self, udp: SocketAddr) -> SocketAddr {
        match self {
            Self::Udp => udp,
            Self::Quic => SocketAddr::new(udp.ip(), QUIC_PORT),
            Self::Tls => SocketAddr::new(udp.ip(), TLS_PORT),
        }
    }
}

impl Setup {
    /// Whether the broker shows a certificate.
    pub(super) fn is_certified(&self) -> bool {
        self.clients || self.carrier != Carrier::Udp
    }

    /// Addresses for clients besides that for datagrams.
    fn client_addresses(&self, own: Ipv4Addr) -> String {
        if !self.clients {
            return match self.carrier {
                // Neighbours call where clients do.
                Carrier::Tls => format!("tcp = []\ntls = [\"{own}:{TLS_PORT}\"]\n"),
                Carrier::Udp | Carrier::Quic => "tcp = []\n".to_owned(),
            };
        }
        let ports = Scheme::ALL.into_iter().filter_map(|scheme| {
            let port = client_port(scheme)?;
            Some(format!("{} = [\"{own}:{port}\"]\n", scheme.name()))
        });
        ports.collect()
    }

    /// The file's text. The port for HTTP is known beforehand, since the others are asked for
    /// there.
    pub(super) fn to_toml(&self, http: SocketAddr, folder: &str) -> String {
        let (udp, neighbours) = match &self.site {
            None => (Ipv4Addr::LOCALHOST, "127.0.0.0/8"),
            Some(site) => (site.v4(), "10.0.0.0/8"),
        };
        let quic_links = match self.carrier {
            Carrier::Udp | Carrier::Tls => String::new(),
            Carrier::Quic => format!("quic_links = [\"{udp}:{QUIC_PORT}\"]\n"),
        };
        let webrtc = match self.webrtc {
            true => format!("webrtc = [\"{udp}:0\"]\n"),
            false => String::new(),
        };
        let clients = self.client_addresses(udp);
        let mut text = format!(
            "[broker]\n\
             name = \"bench-{}\"\n\
             data_dir = \"{folder}\"\n\
             shards = {}\n\
             queuing = \"{}\"\n\n\
             [listen]\n\
             udp = [\"{udp}:{}\"]\n\
             {clients}\
             http = \"{http}\"\n\
             {webrtc}{quic_links}\n\
             [links]\n\
             accept = [\"{neighbours}\"]\n\n\
             [auth]\n\
             required = false\n\n\
             [limits]\n\
             clients_per_address = 262144\n",
            self.number,
            self.shards,
            self.queuing.name(),
            self.port,
        );
        if self.is_certified() {
            let _ = write!(
                text,
                "\n[tls]\n\
                 certificate = \"{folder}/broker.crt\"\n\
                 key = \"{folder}/broker.key\"\n\
                 ca = \"{folder}/ca.crt\"\n"
            );
        }
        if self.sessions {
            text.push_str("\n[sessions]\nenabled = true\n");
        }
        if let Some(method) = self.routing {
            let _ = write!(text, "\n[routing]\nmethod = \"{method}\"\n");
        }
        let scheme = match self.carrier {
            Carrier::Udp => "",
            Carrier::Quic => "quic://",
            Carrier::Tls => "tls://",
        };
        for neighbour in &self.neighbours {
            let _ = write!(text, "\n[[link]]\naddress = \"{scheme}{neighbour}\"\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_is_dialled() {
        let setup = Setup {
            number: 2,
            shards: 1,
            queuing: Queuing::Single,
            neighbours: vec![SocketAddr::from(([127, 0, 0, 1], 7000))],
            port: 0,
            site: None,
            carrier: Carrier::Udp,
            program: None,
            webrtc: false,
            clients: true,
            sessions: false,
            routing: None,
        };
        let text = setup.to_toml(SocketAddr::from(([127, 0, 0, 1], 8080)), "/tmp/b2");
        assert!(text.contains("queuing = \"single\""));
        assert!(text.contains("http = \"127.0.0.1:8080\""));
        assert!(text.contains("wss = [\"127.0.0.1:4608\"]\n"));
        assert!(text.contains("/tmp/b2/ca.crt"));
        assert!(text.ends_with("[[link]]\naddress = \"127.0.0.1:7000\"\n"));
        assert!(!text.contains("[reliable]"), "as brokers are unless told");
    }

    #[test]
    fn neighbours_by_streams_call_where_their_port_is_open() {
        let udp = SocketAddr::from(([10, 0, 0, 1], 7000));
        let setup = Setup {
            number: 2,
            shards: 1,
            queuing: Queuing::Double,
            neighbours: vec![Carrier::Tls.port(udp)],
            port: 0,
            site: None,
            carrier: Carrier::Tls,
            program: None,
            webrtc: false,
            clients: false,
            sessions: false,
            routing: None,
        };
        let text = setup.to_toml(SocketAddr::from(([127, 0, 0, 1], 8080)), "/tmp/b2");
        assert!(text.contains("tls = [\"127.0.0.1:4606\"]\n"), "{text}");
        assert!(text.contains("/tmp/b2/ca.crt"), "{text}");
        assert!(
            text.ends_with("address = \"tls://10.0.0.1:4606\"\n"),
            "{text}"
        );
    }
}
