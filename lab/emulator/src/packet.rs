//! The little of IP that a router needs: where a packet goes, and what its sender is told.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::address::ROUTER;

const V4_HEADER: usize = 20;
const V6_HEADER: usize = 40;
const ICMP_HEADER: usize = 8;
/// RFC 1812 section 4.3.2.3: as much of the packet as fits into 576 bytes.
const V4_QUOTED_MAX: usize = 576 - V4_HEADER - ICMP_HEADER;
/// RFC 4443 section 2.4: as much as fits into the smallest MTU.
const V6_QUOTED_MAX: usize = 1_280 - V6_HEADER - ICMP_HEADER;

const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_ICMPV6: u8 = 58;
const HOPS: u8 = 64;

/// Why a router sends a packet back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Larger than this many bytes.
    TooBig(usize),
    /// The way is cut.
    Unreachable,
}

/// Source and destination; `None` if this is no IP packet.
pub(crate) fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 => {
            let address = |at: usize| packet.get(at..)?.first_chunk::<4>().copied();
            Some((address(12)?.into(), address(16)?.into()))
        }
        6 => {
            let address = |at: usize| packet.get(at..)?.first_chunk::<16>().copied();
            Some((address(8)?.into(), address(24)?.into()))
        }
        _ => None,
    }
}

/// The ICMP error for a packet that cannot go on; `None` for packets that must not be answered
/// (RFC 1122 section 3.2.2, RFC 4443 section 2.4).
pub(crate) fn refuse(packet: &[u8], refusal: Refusal) -> Option<Vec<u8>> {
    match ends(packet)? {
        (IpAddr::V4(source), IpAddr::V4(_)) => {
            let first_fragment = packet[6] & 0x1f == 0 && packet[7] == 0;
            (packet[9] != PROTOCOL_ICMP && first_fragment).then(|| v4(packet, source, refusal))
        }
        (IpAddr::V6(source), IpAddr::V6(_)) => {
            (packet[6] != PROTOCOL_ICMPV6).then(|| v6(packet, source, refusal))
        }
        _ => None,
    }
}

fn v4(packet: &[u8], to: Ipv4Addr, refusal: Refusal) -> Vec<u8> {
    // RFC 792: destination unreachable; RFC 1191 section 4: the next hop's MTU.
    let (code, mtu) = match refusal {
        Refusal::TooBig(mtu) => (4, mtu as u16),
        Refusal::Unreachable => (0, 0),
    };
    let quoted = &packet[..packet.len().min(V4_QUOTED_MAX)];
    let len = (V4_HEADER + ICMP_HEADER + quoted.len()) as u16;
    let mut answer = vec![0x45, 0];
    answer.extend(len.to_be_bytes());
    answer.extend([0, 0, 0, 0, HOPS, PROTOCOL_ICMP, 0, 0]);
    answer.extend(ROUTER.0.octets());
    answer.extend(to.octets());
    let sum = checksum(0, &answer);
    answer[10..12].copy_from_slice(&sum.to_be_bytes());
    answer.extend([3, code, 0, 0, 0, 0]);
    answer.extend(mtu.to_be_bytes());
    answer.extend(quoted);
    let sum = checksum(0, &answer[V4_HEADER..]);
    answer[V4_HEADER + 2..V4_HEADER + 4].copy_from_slice(&sum.to_be_bytes());
    answer
}

fn v6(packet: &[u8], to: Ipv6Addr, refusal: Refusal) -> Vec<u8> {
    // RFC 4443 sections 3.1 and 3.2.
    let (kind, mtu) = match refusal {
        Refusal::TooBig(mtu) => (2, mtu as u32),
        Refusal::Unreachable => (1, 0),
    };
    let quoted = &packet[..packet.len().min(V6_QUOTED_MAX)];
    let len = (ICMP_HEADER + quoted.len()) as u16;
    let mut answer = vec![0x60, 0, 0, 0];
    answer.extend(len.to_be_bytes());
    answer.extend([PROTOCOL_ICMPV6, HOPS]);
    answer.extend(ROUTER.1.octets());
    answer.extend(to.octets());
    answer.extend([kind, 0, 0, 0]);
    answer.extend(mtu.to_be_bytes());
    answer.extend(quoted);
    // RFC 8200 section 8.1: addresses, length and next header are summed as well.
    let pseudo = u32::from(len) + u32::from(PROTOCOL_ICMPV6);
    let sum = checksum(pseudo, &answer[8..]);
    answer[V6_HEADER + 2..V6_HEADER + 4].copy_from_slice(&sum.to_be_bytes());
    answer
}

/// RFC 1071, with what was summed before.
fn checksum(before: u32, bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| match *pair {
        [high, low] => u16::from_be_bytes([high, low]),
        [high] => u16::from_be_bytes([high, 0]),
        _ => 0,
    });
    let mut sum = words.fold(before, |sum, word| sum + u32::from(word));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A UDP packet's headers and `payload` zeros.
    fn udp_v4(payload: usize) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
        packet.extend([10, 16, 0, 1, 10, 17, 0, 1]);
        packet.resize(28 + payload, 0);
        packet
    }

    fn udp_v6(payload: usize) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
        packet.extend(crate::address::v6(0).octets());
        packet.extend(crate::address::v6(1).octets());
        packet.resize(48 + payload, 0);
        packet
    }

    #[test]
    fn a_large_packet_is_answered_with_the_mtu() {
        let answer = refuse(&udp_v4(1_400), Refusal::TooBig(1_300)).unwrap();
        assert_eq!(ends(&answer).unwrap().1, IpAddr::from([10, 16, 0, 1]));
        assert_eq!(answer.len(), 576);
        assert_eq!((answer[20], answer[21]), (3, 4));
        assert_eq!(answer[26..28], 1_300_u16.to_be_bytes());
        assert_eq!(
            (checksum(0, &answer[..20]), checksum(0, &answer[20..])),
            (0, 0)
        );

        let answer = refuse(&udp_v6(1_400), Refusal::TooBig(1_300)).unwrap();
        assert_eq!(answer.len(), 1_280);
        assert_eq!((answer[40], answer[41]), (2, 0));
        assert_eq!(answer[44..48], 1_300_u32.to_be_bytes());
        let pseudo = (answer.len() - 40) as u32 + 58;
        assert_eq!(checksum(pseudo, &answer[8..]), 0);
    }

    #[test]
    fn icmp_and_later_fragments_are_never_answered() {
        let mut icmp = udp_v4(10);
        icmp[9] = PROTOCOL_ICMP;
        let mut fragment = udp_v4(10);
        fragment[7] = 8;
        let mut icmp_v6 = udp_v6(10);
        icmp_v6[6] = PROTOCOL_ICMPV6;
        for packet in [icmp, fragment, icmp_v6] {
            assert_eq!(refuse(&packet, Refusal::Unreachable), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = refuse(&bytes, Refusal::TooBig(1_280));
            let _ = refuse(&bytes, Refusal::Unreachable);
        }
    }
}
