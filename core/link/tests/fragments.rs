//! Events in pieces and whole again.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use sangam_link::{FragmentError, Reassembler, fragment};
use sangam_model::limits::{DATAGRAM_LEN_SAFE, EVENT_LEN_MAX};
use sangam_model::{Class, StreamId, Time};
use sangam_wire::{Event, ExtensionBlock, Flags, Fragment, HEADER_LEN, Header};

fn header(sequence: u16, flags: Flags) -> Header {
    Header {
        class: Class::Video,
        flags,
        stream: StreamId::from_bits(0x0102_0304_0506_0708),
        sequence,
        hop_limit: 15,
        layer: 2,
    }
}

fn event(sequence: u16, payload: &[u8], traced: bool) -> Vec<u8> {
    let mut block = ExtensionBlock::new();
    if traced {
        assert!(block.trace(9, 12_345));
    }
    let flags = Flags::FRAME_START.with(Flags::KEY);
    let event = Event {
        header: header(sequence, flags),
        extensions: block.extensions(),
        payload,
    };
    let mut bytes = vec![0; event.encoded_len()];
    event.write(&mut bytes).expect("the buffer has its size");
    bytes
}

fn piece(sequence: u16, offset: u16, total: u16, payload: &[u8]) -> Vec<u8> {
    let mut block = ExtensionBlock::new();
    assert!(block.fragment(Fragment { offset, total }));
    let header = header(sequence, Flags::FRAGMENT);
    let event = Event {
        header,
        extensions: block.extensions(),
        payload,
    };
    let mut bytes = vec![0; event.encoded_len()];
    event.write(&mut bytes).expect("the buffer has its size");
    bytes
}

fn split(event: &[u8], datagram_max: usize) -> Vec<Vec<u8>> {
    let mut fragments = fragment(event, datagram_max).expect("it can be split");
    let mut pieces = Vec::new();
    let mut buffer = [0; EVENT_LEN_MAX];
    while let Some(len) = fragments.write_next(&mut buffer) {
        pieces.push(buffer[..len.expect("the buffer is large")].to_vec());
    }
    pieces
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

#[test]
fn a_camera_packet_of_1460_bytes_crosses_a_path_of_1280() {
    let event = event(7, &payload(1_460), false);
    let pieces = split(&event, DATAGRAM_LEN_SAFE);
    assert_eq!(pieces.len(), 2);
    assert_eq!(pieces[0].len(), DATAGRAM_LEN_SAFE);
    let mut joined = Reassembler::new();
    let mut out = Vec::new();
    assert_eq!(joined.push(Time::ZERO, &pieces[0], &mut out), Ok(false));
    assert_eq!(joined.push(Time::ZERO, &pieces[1], &mut out), Ok(true));
    assert_eq!(out, event);
}

#[test]
fn an_event_that_fits_stays_whole() {
    let event = event(7, &payload(1_000), true);
    assert_eq!(split(&event, DATAGRAM_LEN_SAFE), [event]);
}

#[test]
fn late_duplicates_of_a_whole_event_begin_nothing() {
    let pieces = split(&event(7, &payload(2_000), false), DATAGRAM_LEN_SAFE);
    let mut joined = Reassembler::new();
    let mut out = Vec::new();
    for piece in pieces.iter().chain(&pieces) {
        joined.push(Time::ZERO, piece, &mut out).unwrap();
    }
    assert_eq!(
        (joined.counters().whole, joined.counters().duplicate),
        (1, 2)
    );
    assert_eq!(joined.deadline(), None);
}

#[test]
fn a_reassembler_without_pieces_is_small() {
    assert!(
        size_of::<Reassembler>() <= 128,
        "{} bytes",
        size_of::<Reassembler>()
    );
}

#[test]
fn a_trace_survives() {
    let event = event(7, &payload(3_000), true);
    let pieces = split(&event, 508);
    let mut joined = Reassembler::new();
    let mut out = Vec::new();
    for piece in pieces.iter().rev() {
        joined.push(Time::ZERO, piece, &mut out).unwrap();
    }
    assert_eq!(out, event);
    assert_eq!(
        Event::decode(&out)
            .unwrap()
            .extensions
            .trace()
            .unwrap()
            .origin_us,
        12_345
    );
}

#[test]
fn what_cannot_be_split_is_refused() {
    let whole = event(7, &payload(3_000), true);
    assert_eq!(fragment(&whole, 300).unwrap_err(), FragmentError::Datagram);
    let again = piece(1, 0, 3_000, &payload(2_000));
    assert_eq!(fragment(&again, 508).unwrap_err(), FragmentError::Piece);
    assert!(matches!(
        fragment(&whole[..9], 508),
        Err(FragmentError::Wire(_))
    ));
    let mut joined = Reassembler::new();
    assert_eq!(
        joined.push(Time::ZERO, &whole, &mut Vec::new()),
        Err(FragmentError::Piece)
    );
}

#[test]
fn an_incomplete_event_is_given_up_after_half_a_second() {
    let mut joined = Reassembler::new();
    let mut out = Vec::new();
    joined
        .push(Time::ZERO, &piece(1, 0, 20, &[1; 10]), &mut out)
        .unwrap();
    assert_eq!(joined.deadline(), Some(Time::from_millis(500)));
    joined.expire(Time::from_millis(499));
    assert_eq!(joined.counters().expired, 0);
    let late = joined.push(
        Time::from_millis(500),
        &piece(1, 10, 20, &[1; 10]),
        &mut out,
    );
    assert_eq!(late, Ok(false));
    assert_eq!(joined.counters().expired, 1);
}

#[test]
fn a_flood_of_first_pieces_pushes_out_the_oldest_only() {
    let mut joined = Reassembler::new();
    let mut out = Vec::new();
    for sequence in 0..1_000 {
        let first = piece(sequence, 0, 16_000, &[0; 100]);
        assert_eq!(joined.push(Time::ZERO, &first, &mut out), Ok(false));
    }
    // 256 KiB hold 16 events of 16,000 bytes.
    assert_eq!(joined.counters().evicted, 1_000 - 16);
    let rest = piece(999, 100, 16_000, &[0; 15_900]);
    assert_eq!(joined.push(Time::ZERO, &rest, &mut out), Ok(true));
}

#[test]
fn small_events_are_bounded_by_number() {
    let mut joined = Reassembler::new();
    for sequence in 0..100 {
        joined
            .push(
                Time::ZERO,
                &piece(sequence, 0, 20, &[0; 10]),
                &mut Vec::new(),
            )
            .unwrap();
    }
    assert_eq!(joined.counters().evicted, 100 - 32);
}

#[test]
fn contradicting_pieces_are_refused_and_the_event_still_becomes_whole() {
    let mut joined = Reassembler::new();
    let mut out = Vec::new();
    assert_eq!(
        joined.push(Time::ZERO, &piece(1, 0, 20, &[1; 10]), &mut out),
        Ok(false)
    );
    let other_total = joined.push(Time::ZERO, &piece(1, 10, 30, &[2; 10]), &mut out);
    assert_eq!(other_total, Err(FragmentError::Contradiction));
    assert_eq!(
        joined.push(Time::ZERO, &piece(1, 10, 20, &[3; 10]), &mut out),
        Ok(true)
    );
    assert_eq!(out.len(), HEADER_LEN + 20);
}

#[test]
fn crumbs_are_refused_when_they_are_too_many() {
    let mut joined = Reassembler::new();
    let mut out = Vec::new();
    let refused = (0..200).filter(|i| {
        joined
            .push(Time::ZERO, &piece(1, i * 2, 1_000, &[0]), &mut out)
            .is_err()
    });
    assert_eq!(refused.count(), 160);
}

#[test]
fn who_takes_up_most_room_gives_up_its_own() {
    let mut joined = Reassembler::new();
    let mut out = Vec::new();
    let [one, other] = [1, 2];
    let mut push = |owner, sequence, offset| {
        let bytes = piece(sequence, offset, 600, &payload(300));
        joined.push_of(owner, Time::ZERO, &bytes, &mut out)
    };
    assert_eq!(push(one, 1_000, 0), Ok(false));
    for sequence in 0..100 {
        assert_eq!(push(other, sequence, 0), Ok(false));
    }
    assert_eq!(push(one, 1_001, 0), Ok(false));
    assert_eq!(push(one, 1_000, 300), Ok(true));
    assert_eq!(push(one, 1_001, 300), Ok(true));
    // Of its own the newest are left.
    assert_eq!(push(other, 99, 300), Ok(true));
    assert_eq!(push(other, 0, 300), Ok(false));
    assert_eq!(joined.counters().evicted, 70);
}

#[test]
fn few_large_events_weigh_as_much_as_many_small_ones() {
    let mut joined = Reassembler::new();
    let mut out = Vec::new();
    let mut push = |owner, sequence, (offset, total)| {
        let bytes = piece(sequence, offset, total, &payload(300));
        joined.push_of(owner, Time::ZERO, &bytes, &mut out)
    };
    for sequence in 0..16 {
        assert_eq!(push(1, sequence, (0, 600)), Ok(false));
    }
    for sequence in 100..200 {
        assert_eq!(push(2, sequence, (0, 16_000)), Ok(false));
    }
    for sequence in 0..16 {
        assert_eq!(push(1, sequence, (300, 600)), Ok(true));
    }
}

proptest! {
    #[test]
    fn any_event_becomes_whole_from_its_pieces_in_any_order_with_duplicates(
        len in 0..EVENT_LEN_MAX - HEADER_LEN - 200,
        traced: bool,
        datagram_max in 508..9_000_usize,
        order in vec(any::<Index>(), 0..200),
    ) {
        let event = event(7, &payload(len), traced);
        let pieces = split(&event, datagram_max);
        prop_assert!(pieces.iter().all(|piece| piece.len() <= datagram_max));
        let mut joined = Reassembler::new();
        let mut out = Vec::new();
        if pieces.len() == 1 {
            prop_assert_eq!(&pieces[0], &event);
            return Ok(());
        }
        let shuffled = order.iter().map(|index| index.get(&pieces)).chain(&pieces);
        let mut whole = false;
        for piece in shuffled {
            whole = joined.push(Time::ZERO, piece, &mut out).unwrap();
            if whole {
                break;
            }
        }
        prop_assert!(whole);
        prop_assert_eq!(out, event);
    }

    #[test]
    fn hostile_pieces_never_panic_and_wholes_are_valid(
        pieces in vec((0..4_u16, any::<u16>(), any::<u16>(), 0..2_000_usize), 0..300),
    ) {
        let mut joined = Reassembler::new();
        let mut out = Vec::new();
        let mut now = Time::ZERO;
        for (sequence, offset, total, len) in pieces {
            let bytes = piece(sequence, offset % 4_096, total % 4_096, &payload(len));
            if joined.push(now, &bytes, &mut out) == Ok(true) {
                let event = Event::decode(&out).unwrap();
                prop_assert!(!event.header.flags.contains(Flags::FRAGMENT));
            }
            now += Duration::from_millis(3);
        }
    }
}
