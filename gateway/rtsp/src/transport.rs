//! The Transport header (RFC 2326 section 12.39, RFC 7826 section 18.54): what a client offers,
//! what it gets.
//!
//! By hand: the library's parser asserts where a client is wrong (a lone quotation mark ends the
//! process).

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Offers looked at; further ones are not.
const OFFERS_MAX: usize = 8;

/// In which direction packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// To the client.
    Play,
    /// From the client.
    Record,
}

/// What holds for all offers of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    /// The client's address.
    pub(crate) peer: IpAddr,
    /// Its connection is encrypted: nothing of it goes in the clear beside.
    pub(crate) is_secure: bool,
    pub(crate) mode: Mode,
}

/// How a client wants its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// By its ports.
    Udp(Ports),
    /// Within the connection, by its channels for RTP and RTCP, if it names some.
    Interleaved(Option<(u8, u8)>),
}

/// A client's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ports {
    pub(crate) rtp: u16,
    pub(crate) rtcp: u16,
    /// It said so in the words of RTSP 2.0, and is answered in them.
    pub(crate) by_address: bool,
    /// It reports losses (RFC 4585).
    pub(crate) is_avpf: bool,
}

/// What a client gets, which is shown as an answer's header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) offer: Offer,
    /// Our ports, or the channels.
    pub(crate) own: (u16, u16),
    /// Both ends of datagrams: the client, and this host.
    pub(crate) hosts: (IpAddr, IpAddr),
    /// Of what is played: the source.
    pub(crate) ssrc: Option<u32>,
}

/// The first offer that is possible; `None` if there is none.
pub(crate) fn choose(header: &str, asker: Asker) -> Option<Offer> {
    let offers = header.split(',').take(OFFERS_MAX);
    let mut possible = offers.filter_map(|text| offer(text, asker));
    possible.find(|offer| !asker.is_secure || matches!(offer, Offer::Interleaved(_)))
}

fn offer(text: &str, asker: Asker) -> Option<Offer> {
    let mut parts = text.split(';').map(str::trim);
    let protocol = parts.next()?.to_ascii_uppercase();
    let (mut multicast, mut ports, mut channels) = (false, None, None);
    let mut mode = Mode::Play;
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match name.to_ascii_lowercase().as_str() {
            "multicast" => multicast = true,
            "client_port" => {
                let (rtp, rtcp) = pair::<u16>(value)?;
                ports = Some((rtp, rtcp, false));
            }
            "dest_addr" => ports = Some(addresses(value, asker.peer)?),
            "interleaved" => channels = Some(pair::<u8>(value)?),
            "mode" => mode = named(value)?,
            _ => {}
        }
    }
    if multicast || mode != asker.mode {
        return None;
    }
    match protocol.as_str() {
        // RFC 4585 section 4: feedback is for those who play.
        "RTP/AVPF" | "RTP/AVPF/UDP" if asker.mode != Mode::Play => None,
        "RTP/AVP" | "RTP/AVP/UDP" | "RTP/AVPF" | "RTP/AVPF/UDP" => {
            let (rtp, rtcp, by_address) = ports?;
            let ports = Ports {
                rtp,
                rtcp,
                by_address,
                is_avpf: protocol.starts_with("RTP/AVPF"),
            };
            (rtp != 0 && rtcp != 0).then_some(Offer::Udp(ports))
        }
        "RTP/AVP/TCP" => Some(Offer::Interleaved(channels)),
        _ => None,
    }
}

/// RFC 2326 section 12.39: FFmpeg says `record`, others `"RECORD"`.
fn named(mode: &str) -> Option<Mode> {
    let mode = mode.trim_matches('"');
    let play = mode.eq_ignore_ascii_case("play").then_some(Mode::Play);
    let records = ["record", "receive"];
    let mut records = records.iter();
    let record = records.any(|known| mode.eq_ignore_ascii_case(known));
    play.or(record.then_some(Mode::Record))
}

/// `"host:port"/"host:port"`, each host the client's own or none; of one port the next is RTCP's.
fn addresses(text: &str, peer: IpAddr) -> Option<(u16, u16, bool)> {
    let mut parts = text.split('/').map(|part| port(part.trim(), peer));
    let rtp = parts.next()??;
    let rtcp = match parts.next() {
        Some(rtcp) => rtcp?,
        None => rtp.checked_add(1)?,
    };
    parts.next().is_none().then_some((rtp, rtcp, true))
}

/// RFC 7826 section 18.54: packets for others would make a reflector of the server.
fn port(text: &str, peer: IpAddr) -> Option<u16> {
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    let (host, port) = text.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_own = host.is_empty() || host.parse::<IpAddr>().ok()?.to_canonical() == peer;
    is_own.then_some(port.parse().ok()?)
}

/// `a-b`, or `a` and the one behind.
fn pair<N: std::str::FromStr + TryFrom<u32> + Into<u32> + Copy>(text: &str) -> Option<(N, N)> {
    match text.split_once('-') {
        Some((first, second)) => Some((first.trim().parse().ok()?, second.trim().parse().ok()?)),
        None => {
            let first: N = text.trim().parse().ok()?;
            Some((first, N::try_from(first.into() + 1).ok()?))
        }
    }
}

const fn profile(is_avpf: bool) -> &'static str {
    match is_avpf {
        true => "RTP/AVPF",
        false => "RTP/AVP",
    }
}

impl fmt::Display for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second) = self.own;
        match self.offer {
            Offer::Interleaved(_) => {
                write!(f, "RTP/AVP/TCP;unicast;interleaved={first}-{second}")?;
            }
            Offer::Udp(Ports {
                rtp,
                rtcp,
                by_address: true,
                is_avpf,
            }) => {
                let at = |host, port| SocketAddr::new(host, port);
                let (peer, local) = self.hosts;
                let (to, to_rtcp) = (at(peer, rtp), at(peer, rtcp));
                let (from, from_rtcp) = (at(local, first), at(local, second));
                write!(
                    f,
                    "{};unicast;dest_addr=\"{to}\"/\"{to_rtcp}\"",
                    profile(is_avpf)
                )?;
                write!(f, ";src_addr=\"{from}\"/\"{from_rtcp}\"")?;
            }
            Offer::Udp(Ports {
                rtp, rtcp, is_avpf, ..
            }) => {
                let profile = profile(is_avpf);
                write!(f, "{profile};unicast;client_port={rtp}-{rtcp}")?;
                write!(f, ";server_port={first}-{second}")?;
            }
        }
        match self.ssrc {
            Some(ssrc) => write!(f, ";ssrc={ssrc:08X}"),
            None => write!(f, ";mode=record"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ASKER: Asker = Asker {
        peer: IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 5)),
        is_secure: false,
        mode: Mode::Play,
    };

    fn udp(by_address: bool) -> Option<Offer> {
        Some(Offer::Udp(Ports {
            rtp: 5_000,
            rtcp: 5_001,
            by_address,
            is_avpf: false,
        }))
    }

    #[test]
    fn the_first_possible_offer_is_taken() {
        let tcp = Some(Offer::Interleaved(Some((0, 1))));
        for (header, chosen) in [
            ("RTP/AVP/UDP;unicast;client_port=5000-5001", udp(false)),
            ("RTP/AVP;unicast;client_port=5000", udp(false)),
            (
                "rtp/avp;unicast; client_port=5000-5001;mode=\"PLAY\"",
                udp(false),
            ),
            ("RTP/AVP/TCP;unicast;interleaved=0-1", tcp),
            ("RTP/AVP;multicast,RTP/AVP/TCP;interleaved=0-1", tcp),
            ("RTP/AVP/TCP;unicast", Some(Offer::Interleaved(None))),
            ("RTP/AVP;multicast;client_port=5000-5001", None),
            ("RTP/AVP;unicast", None),
            ("RTP/AVP;client_port=0-1", None),
            ("RTP/AVP;client_port=65535", None),
            ("RTP/AVP/TCP;interleaved=255", None),
            ("RTP/AVP/TCP;interleaved=0-256", None),
            ("RTP/AVP/TCP;mode=record", None),
            ("RTP/SAVP;client_port=5000-5001", None),
            ("\"", None),
            ("", None),
        ] {
            assert_eq!(choose(header, ASKER), chosen, "{header}");
        }
    }

    #[test]
    fn addresses_of_others_are_not_taken() {
        for (addresses, chosen) in [
            ("\":5000\"/\":5001\"", udp(true)),
            ("\"192.0.2.5:5000\"/\"192.0.2.5:5001\"", udp(true)),
            ("\":5000\"", udp(true)),
            ("\"[::ffff:192.0.2.5]:5000\"/\":5001\"", udp(true)),
            ("\"192.0.2.6:5000\"/\"192.0.2.5:5001\"", None),
            ("\":5000\"/\":5001\"/\":5002\"", None),
            ("\"host.example:5000\"", None),
            ("\":65535\"", None),
            ("\"", None),
            ("5000", None),
        ] {
            let header = format!("RTP/AVP;unicast;dest_addr={addresses}");
            assert_eq!(choose(&header, ASKER), chosen, "{header}");
        }
    }

    #[test]
    fn nothing_of_an_encrypted_connection_goes_beside_it() {
        let asker = Asker {
            is_secure: true,
            ..ASKER
        };
        let udp = "RTP/AVP;unicast;client_port=5000-5001";
        assert_eq!(choose(udp, asker), None);
        let both = format!("{udp},RTP/AVP/TCP;unicast");
        assert_eq!(choose(&both, asker), Some(Offer::Interleaved(None)));
    }

    #[test]
    fn answers_are_in_the_words_of_the_offer() {
        let granted = |offer: Option<Offer>, ssrc| {
            let granted = Granted {
                offer: offer.unwrap(),
                own: (6_000, 6_001),
                hosts: (ASKER.peer, "192.0.2.1".parse().unwrap()),
                ssrc,
            };
            granted.to_string()
        };
        assert_eq!(
            granted(udp(true), Some(10)),
            "RTP/AVP;unicast;dest_addr=\"192.0.2.5:5000\"/\"192.0.2.5:5001\";\
             src_addr=\"192.0.2.1:6000\"/\"192.0.2.1:6001\";ssrc=0000000A"
        );
        assert_eq!(
            granted(udp(false), None),
            "RTP/AVP;unicast;client_port=5000-5001;server_port=6000-6001;mode=record"
        );
        let record = Asker {
            mode: Mode::Record,
            ..ASKER
        };
        for mode in ["record", "\"RECORD\"", "receive"] {
            let header = format!("RTP/AVP/TCP;unicast;mode={mode}");
            let chosen = choose(&header, record);
            assert_eq!(chosen, Some(Offer::Interleaved(None)), "{header}");
        }
    }

    proptest! {
        #[test]
        fn no_header_is_too_strange(
            header in "(RTP/AVP(/TCP)?;?(interleaved|mode|client_port|dest_addr)?=?.{0,20}){0,3}",
        ) {
            let _ = choose(&header, ASKER);
        }
    }
}
