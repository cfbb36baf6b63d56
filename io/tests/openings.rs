//! Whatever comes where a stream begins, it is read without harm.

use proptest::prelude::*;
use sangam_io::stream::check;

const REQUEST: &[u8] = b"GET /v1/connect HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A frame of a client, and one of a server.
const FRAMES: [&[u8]; 2] = [&[0x82, 0x83, 1, 2, 3, 4, 9, 9, 9], &[0x82, 3, 9, 9, 9]];

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check::all(&bytes);
    }

    #[test]
    fn a_request_with_bytes_changed(at in 0..REQUEST.len(), byte: u8, cut in 0..REQUEST.len()) {
        let mut bytes = REQUEST.to_vec();
        bytes[at] = byte;
        check::all(&bytes);
        check::all(&bytes[..cut]);
    }

    #[test]
    fn frames_with_bytes_changed(
        which in 0..2_usize,
        count in 1..5_usize,
        at: prop::sample::Index,
        byte: u8,
    ) {
        let mut bytes = FRAMES[which].repeat(count);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        check::all(&bytes);
    }
}
