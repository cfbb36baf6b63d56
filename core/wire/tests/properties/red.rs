//! Redundant audio: what senders write is read, and nothing else.

use proptest::prelude::*;
use sangam_wire::WireError;
use sangam_wire::red::{BLOCK_LEN_MAX, BLOCKS_MAX, Block, OFFSET_MAX, Payload, write};

/// A packet of Chromium's: 20 ms of Opus (111), and the 20 ms before.
const OF_A_BROWSER: [u8; 11] = [
    0xef, 0x0f, 0x00, 0x03, // 960 units older, three bytes
    0x6f, // the primary
    0x78, 0x01, 0x02, 0x78, 0x03, 0x04,
];

fn blocks() -> impl Strategy<Value = Vec<(u8, u16, Vec<u8>)>> {
    let payload = prop::collection::vec(any::<u8>(), 0..=BLOCK_LEN_MAX);
    prop::collection::vec((0..=127_u8, 0..=OFFSET_MAX, payload), 0..=BLOCKS_MAX)
}

fn lend(blocks: &[(u8, u16, Vec<u8>)]) -> Vec<Block<'_>> {
    blocks
        .iter()
        .map(|(payload_type, offset, payload)| Block {
            payload_type: *payload_type,
            offset: *offset,
            payload,
        })
        .collect()
}

proptest! {
    #[test]
    fn redundancy_reads_as_it_was_written(
        owned in blocks(),
        payload_type in 0..=127_u8,
        primary in prop::collection::vec(any::<u8>(), 0..1_200),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut sent = lend(&owned);
        let mut bytes = vec![0; 65_536];
        let len = write(&sent, (payload_type, &primary), &mut bytes).unwrap();
        let bytes = &bytes[..len];
        let read = Payload::decode(bytes).unwrap();
        prop_assert_eq!((read.payload_type, read.primary), (payload_type, &primary[..]));
        sent.reverse();
        prop_assert_eq!(read.blocks().collect::<Vec<_>>(), sent);
        // Cut anywhere before the primary it is nothing; the primary's end is the packet's.
        let cut = cut.index(len);
        let fits = cut >= len - primary.len();
        prop_assert_eq!(Payload::decode(&bytes[..cut]).is_ok(), fits);
    }
}

#[test]
fn a_browsers_packet_is_two() {
    let read = Payload::decode(&OF_A_BROWSER).unwrap();
    assert_eq!((read.payload_type, read.primary), (111, &[0x78, 3, 4][..]));
    let before = Block {
        payload_type: 111,
        offset: 960,
        payload: &[0x78, 1, 2],
    };
    assert_eq!(read.blocks().collect::<Vec<_>>(), [before]);
    let mut out = [0; 11];
    let written = write(&[before], (111, read.primary), &mut out);
    assert_eq!((written, out), (Ok(11), OF_A_BROWSER));
}

#[test]
fn headers_without_end_are_refused_early() {
    let endless = [0xef, 0x0f, 0x00, 0x00].repeat(1_000);
    assert_eq!(Payload::decode(&endless), Err(WireError::Oversized));
    let most = [endless[..BLOCKS_MAX * 4].to_vec(), vec![0x6f]].concat();
    assert_eq!(Payload::decode(&most).unwrap().blocks().count(), BLOCKS_MAX);
    let more = [endless[..BLOCKS_MAX * 4 + 4].to_vec(), vec![0x6f]].concat();
    assert_eq!(Payload::decode(&more), Err(WireError::Oversized));
}

#[test]
fn lengths_past_the_end_are_refused() {
    let long = [0xef, 0x0f, 0x03, 0xff, 0x6f, 1, 2, 3];
    for bytes in [&long[..], &[], &[0xef], &[0xef, 0, 0], &[0xef, 0, 0, 0]] {
        assert_eq!(
            Payload::decode(bytes),
            Err(WireError::Truncated),
            "{bytes:?}"
        );
    }
}

#[test]
fn what_the_fields_cannot_say_is_not_written() {
    let long = [0; BLOCK_LEN_MAX + 1];
    let good = Block {
        payload_type: 127,
        offset: OFFSET_MAX,
        payload: &long[1..],
    };
    let mut out = [0; 2_048];
    assert!(write(&[good], (127, &[]), &mut out).is_ok());
    let (payload_type, offset, payload) = (128, OFFSET_MAX + 1, &long[..]);
    for bad in [
        Block {
            payload_type,
            ..good
        },
        Block { offset, ..good },
        Block { payload, ..good },
    ] {
        let written = write(&[bad], (111, &[]), &mut out);
        assert_eq!(written, Err(WireError::Value), "{bad:?}");
    }
    assert_eq!(write(&[], (128, &[]), &mut out), Err(WireError::Value));
    let many = [good; BLOCKS_MAX + 1];
    let mut out = vec![0; 65_536];
    assert_eq!(
        write(&many, (111, &[]), &mut out),
        Err(WireError::Oversized)
    );
}
