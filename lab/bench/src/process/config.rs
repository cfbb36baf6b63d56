//! The configuration file of a broker that the bench starts.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

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
    /// Where clients and neighbours send; 0: the kernel chooses.
    pub(crate) port: u16,
    /// The site it runs in; `None`: on loopback.
    pub(crate) site: Option<Site>,
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

impl Setup {
    /// The file's text. The port for HTTP is known beforehand, since the others are asked for
    /// there.
    pub(super) fn to_toml(&self, http: SocketAddr, folder: &str) -> String {
        let (udp, neighbours) = match &self.site {
            None => (Ipv4Addr::LOCALHOST, "127.0.0.0/8"),
            Some(site) => (site.v4(), "10.0.0.0/8"),
        };
        let mut text = format!(
            "[broker]\n\
             name = \"bench-{}\"\n\
             data_dir = \"{folder}\"\n\
             shards = {}\n\
             queuing = \"{}\"\n\n\
             [listen]\n\
             udp = [\"{udp}:{}\"]\n\
             tcp = []\n\
             http = \"{http}\"\n\n\
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
        for neighbour in &self.neighbours {
            let _ = write!(text, "\n[[link]]\naddress = \"{neighbour}\"\n");
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
        };
        let text = setup.to_toml(SocketAddr::from(([127, 0, 0, 1], 8080)), "/tmp/b2");
        assert!(text.contains("queuing = \"single\""));
        assert!(text.contains("http = \"127.0.0.1:8080\""));
        assert!(text.ends_with("[[link]]\naddress = \"127.0.0.1:7000\"\n"));
    }
}
