//! The Transport header (RFC 2326 section 12.39): what a client offers, what it gets.
//!
//! By hand: the library's parser asserts where a client is wrong (a lone quotation mark ends the
//! process).

/// Offers looked at; further ones are not.
const OFFERS_MAX: usize = 8;

/// How a client wants its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// To its ports for RTP and RTCP.
    Udp(u16, u16),
    /// Within the connection, by its channels for RTP and RTCP, if it names some.
    Interleaved(Option<(u8, u8)>),
}

/// The first offer that is possible; `None` if there is none.
pub(crate) fn choose(header: &str) -> Option<Offer> {
    header.split(',').take(OFFERS_MAX).find_map(offer)
}

fn offer(text: &str) -> Option<Offer> {
    let mut parts = text.split(';').map(str::trim);
    let protocol = parts.next()?.to_ascii_uppercase();
    let (mut multicast, mut ports, mut channels) = (false, None, None);
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match name.to_ascii_lowercase().as_str() {
            "multicast" => multicast = true,
            "client_port" => ports = Some(pair::<u16>(value)?),
            "interleaved" => channels = Some(pair::<u8>(value)?),
            // Publishing is another matter.
            "mode" if !value.trim_matches('"').eq_ignore_ascii_case("play") => return None,
            _ => {}
        }
    }
    if multicast {
        return None;
    }
    match protocol.as_str() {
        "RTP/AVP" | "RTP/AVP/UDP" => {
            let (rtp, rtcp) = ports?;
            (rtp != 0 && rtcp != 0).then_some(Offer::Udp(rtp, rtcp))
        }
        "RTP/AVP/TCP" => Some(Offer::Interleaved(channels)),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_possible_offer_is_taken() {
        let udp = Some(Offer::Udp(5_000, 5_001));
        let tcp = Some(Offer::Interleaved(Some((0, 1))));
        for (header, chosen) in [
            ("RTP/AVP/UDP;unicast;client_port=5000-5001", udp),
            ("RTP/AVP;unicast;client_port=5000", udp),
            ("rtp/avp;unicast; client_port=5000-5001;mode=\"PLAY\"", udp),
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
            assert_eq!(choose(header), chosen, "{header}");
        }
    }

    proptest! {
        #[test]
        fn no_header_is_too_strange(
            header in "(RTP/AVP(/TCP)?;?(interleaved|mode|client_port)?=?.{0,20}){0,3}",
        ) {
            let _ = choose(&header);
        }
    }
}
