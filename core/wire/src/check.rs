//! What must hold for any bytes whatever: shared by the property tests and the fuzz target.
//!
//! A failed assertion is a bug of this crate, never the peer's.

use sangam_model::{BrokerId, limits::EVENT_LEN_MAX};

use crate::{Event, Feedback, Flags, Frame, Header, Message, Plan, Refuse, WireError};
use crate::{red, rtcp, rtp, stream, trace_hop};

/// Reads `bytes` as everything they could be. What can be read must survive writing.
///
/// # Panics
/// If something does not hold.
pub fn all(bytes: &[u8]) {
    event(bytes);
    frame(bytes);
    message(bytes);
    feedback(bytes);
    plan(bytes);
    media(bytes);
    redundancy(bytes);
    units(bytes);
}

/// An event comes back byte for byte, but for the two undefined flags.
fn event(bytes: &[u8]) {
    let Ok(event) = Event::decode(bytes) else {
        return;
    };
    assert_eq!(event.encoded_len(), bytes.len());
    assert_eq!(Event::payload_of(bytes), Ok(event.payload));
    assert_eq!(Header::decode(bytes), Ok(event.header));

    let mut out = vec![0; EVENT_LEN_MAX];
    assert_eq!(event.write(&mut out), Ok(bytes.len()));
    out.truncate(bytes.len());
    let mut known = bytes.to_vec();
    known[1] = Flags::from_bits(known[1]).bits();
    assert_eq!(out, known);
    assert_eq!(event.write(&mut out[1..]), Err(WireError::Oversized));
    in_place(bytes, &event);
}

/// What brokers change in place changes nothing else.
fn in_place(bytes: &[u8], event: &Event<'_>) {
    let mut copy = bytes.to_vec();
    let lowered = Event::lower_hop_limit(&mut copy);
    assert_eq!(lowered, event.header.hop_limit > 0);
    copy[Header::HOP_LIMIT_AT] = event.header.hop_limit;
    assert_eq!(copy, bytes);

    let before = event
        .extensions
        .trace()
        .map_or(0, |trace| trace.hops().count());
    let filled = trace_hop(&mut copy, BrokerId(7), u64::MAX);
    let after = Event::decode(&copy).map(|event| {
        assert_eq!(event.payload, &bytes[bytes.len() - event.payload.len()..]);
        event
            .extensions
            .trace()
            .map_or(0, |trace| trace.hops().count())
    });
    assert_eq!(after, Ok(before + usize::from(filled)));
}

/// A frame that was read can be written, and then reads the same.
fn frame(bytes: &[u8]) {
    let frame = match Frame::decode(bytes) {
        Ok(frame) => frame,
        Err(error) => {
            let foreign = Refuse::version(bytes).is_some();
            assert!(!foreign || matches!(error, WireError::Version | WireError::Oversized));
            return;
        }
    };
    let mut out = Vec::new();
    frame.encode(&mut out);
    assert!(out.len() <= bytes.len());
    assert_eq!(Frame::decode(&out).as_ref(), Ok(&frame));
    let mut packed = Vec::new();
    for known in frame.messages().flatten() {
        assert_eq!(known.push(&mut packed), Ok(()));
    }
    assert!(packed.len() <= bytes.len());
}

fn message(bytes: &[u8]) {
    let Ok(message) = Message::decode(bytes) else {
        return;
    };
    let mut out = Vec::new();
    assert_eq!(message.encode(&mut out), Ok(()));
    assert!(out.len() <= bytes.len());
    assert_eq!(Message::decode(&out), Ok(message));
}

fn feedback(bytes: &[u8]) {
    let Ok(feedback) = Feedback::decode(bytes) else {
        return;
    };
    let mut out = Vec::new();
    feedback.encode(&mut out);
    assert!(bytes.starts_with(&out));
    assert_eq!(Feedback::decode(&out), Ok(feedback));
}

/// A plan has one form.
fn plan(bytes: &[u8]) {
    let Ok(plan) = Plan::decode(bytes) else {
        return;
    };
    let mut out = Vec::new();
    assert_eq!(plan.encode(&mut out), Ok(()));
    assert_eq!(out, bytes);
    assert_eq!(Plan::room_for(&plan.trees), plan.trees.len());
}

/// RTP and RTCP stay within their bytes; a rewritten header reads as it was written.
fn media(bytes: &[u8]) {
    if let Ok(packet) = rtp::Packet::decode(bytes) {
        let parts = packet.payload_offset + packet.payload.len() + usize::from(packet.padding_len);
        assert_eq!(parts, bytes.len());
        for encoding in rtp::Encoding::ALL {
            rtp::FrameMarker::new(encoding).flags(&packet);
        }
        let mut copy = bytes.to_vec();
        copy[1..rtp::HEADER_LEN].fill(0);
        copy[..rtp::HEADER_LEN][1..].copy_from_slice(&packet.header.encode()[1..]);
        assert_eq!(copy, bytes);
    }
    let words = bytes.len() / 4;
    assert!(rtcp::packets(bytes).count() <= words + 1);
    for packet in rtcp::packets(bytes).flatten() {
        match packet {
            rtcp::Packet::SenderReport(_, blocks) | rtcp::Packet::ReceiverReport(_, blocks) => {
                assert!(blocks.iter().count() <= words);
            }
            rtcp::Packet::Nack(_, nacks) => assert!(nacks.iter().count() <= words),
            rtcp::Packet::Bye(sources) => assert!(sources.iter().count() <= words),
            _ => {}
        }
    }
}

/// RED comes back byte for byte, whatever is in its blocks.
fn redundancy(bytes: &[u8]) {
    let Ok(payload) = red::Payload::decode(bytes) else {
        return;
    };
    let mut blocks: Vec<_> = payload.blocks().collect();
    assert!(blocks.len() <= red::BLOCKS_MAX);
    blocks.reverse();
    let primary = (payload.payload_type, payload.primary);
    assert_eq!(red::encoded_len(&blocks, payload.primary), bytes.len());
    let mut out = vec![0; bytes.len()];
    assert_eq!(red::write(&blocks, primary, &mut out), Ok(bytes.len()));
    assert_eq!(out, bytes);
    let short = red::write(&blocks, primary, &mut out[1..]);
    assert_eq!(short, Err(WireError::Oversized));
}

/// Units never reach beyond the bytes there are.
fn units(mut bytes: &[u8]) {
    while let Ok(Some((unit, used))) = stream::next_unit(bytes) {
        assert_eq!(bytes[..stream::PREFIX_LEN], stream::prefix(unit.len()));
        bytes = &bytes[used..];
    }
}
