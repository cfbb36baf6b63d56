//! Datagrams of films as packets of RTP.

use sangam_wire::rtp::Header;

use super::order::rtx_source;

/// RFC 3551 section 6: MP2T.
const PAYLOAD_TYPE: u8 = 33;
/// Of repeats: `a=rtpmap:97 rtx/90000`.
pub(crate) const RTX_TYPE: u8 = 97;
/// RFC 8285 section 4.2: the profile of one-byte elements, and two words of them.
const EXTENSION: [u8; 4] = [0xbe, 0xde, 0, 2];
/// Element 1 of 6 bytes.
const ELEMENT: u8 = 1 << 4 | 5;
/// The extension bit (RFC 3550 section 5.1).
const HAS_EXTENSION: u8 = 0x10;
/// The local number of what was not counted.
pub(crate) const UNCOUNTED: u32 = u32::MAX;

/// What stands before a datagram's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub(crate) ssrc: u32,
    /// The low 16 bits of the global number.
    pub(crate) sequence: u16,
    pub(crate) timestamp: u32,
    /// Node and local number, of a session of many nodes.
    pub(crate) local: Option<(u16, u32)>,
}

/// Appends a packet.
pub(crate) fn write(out: &mut Vec<u8>, numbers: &Numbers, data: &[u8]) {
    let header = Header {
        // RFC 2250 section 2: where time jumps, which it does not here.
        marker: false,
        payload_type: PAYLOAD_TYPE,
        sequence: numbers.sequence,
        timestamp: numbers.timestamp,
        ssrc: numbers.ssrc,
    };
    let start = out.len();
    out.extend(header.encode());
    if let Some((node, local)) = numbers.local {
        out[start] |= HAS_EXTENSION;
        out.extend(EXTENSION);
        out.push(ELEMENT);
        out.extend(node.to_be_bytes());
        out.extend(local.to_be_bytes());
        out.push(0);
    }
    out.extend(data);
}

/// Appends a repeat by RFC 4588 section 4.
pub(crate) fn write_rtx(out: &mut Vec<u8>, numbers: &Numbers, (own, data): (u16, &[u8])) {
    let header = Header {
        marker: false,
        payload_type: RTX_TYPE,
        sequence: own,
        timestamp: numbers.timestamp,
        ssrc: rtx_source(numbers.ssrc),
    };
    out.extend(header.encode());
    out.extend(numbers.sequence.to_be_bytes());
    out.extend(data);
}

#[cfg(test)]
mod tests {
    use sangam_wire::rtp::Packet;

    use super::*;

    #[test]
    fn node_and_local_number_stand_in_an_extension() {
        let mut numbers = Numbers {
            ssrc: 7,
            sequence: 65_535,
            timestamp: 9,
            local: Some((3, 70_000)),
        };
        let mut out = Vec::new();
        write(&mut out, &numbers, b"data");
        let expected = [
            0x90, 33, 255, 255, 0, 0, 0, 9, 0, 0, 0, 7, 0xbe, 0xde, 0, 2, 0x15, 0, 3, 0, 1, 0x11,
            0x70, 0,
        ];
        assert_eq!(out[..24], expected);
        assert_eq!(Packet::decode(&out).unwrap().payload, b"data");
        numbers.local = None;
        out.clear();
        write_rtx(&mut out, &numbers, (5, b"data"));
        let packet = Packet::decode(&out).unwrap();
        assert_eq!((packet.header.ssrc, packet.header.sequence), (8, 5));
        assert_eq!(packet.payload, b"\xff\xffdata");
    }
}
