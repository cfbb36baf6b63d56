//! What happens at the bounds of the format.

use sangam_model::limits::{DATAGRAM_LEN_SAFE, EVENT_LEN_MAX};
use sangam_model::{BrokerId, Class, Filter, Incarnation, MediaInfo, Scope, StreamId, Topic};
use sangam_wire::{
    CONTROL_ROOM, Event, ExtensionBlock, Extensions, FILTERS_MAX, FRAME_LEN_MAX, Flags, Frame,
    HEADER_LEN, Header, JOIN_ROOM, Join, MESSAGE_LEN_MAX, Message, TRACE_HOPS_MAX, VERSION,
    WireError, is_event, rtcp, rtp, stream, trace_hop,
};

fn header() -> Header {
    Header {
        class: Class::Video,
        flags: Flags::KEY,
        stream: StreamId::new(BrokerId(1), Incarnation(2), 3),
        sequence: 4,
        hop_limit: 2,
        layer: 0,
    }
}

fn join(filters: Vec<Filter>) -> Message {
    Message::Join(Join {
        origin: BrokerId(1),
        avoid: None,
        classes: Join::ALL,
        scope: Scope::WIDE,
        part: 0,
        parts: 1,
        filters,
    })
}

#[test]
fn the_first_byte_tells_events_frames_and_strangers_apart() {
    let firsts = [0x50, 0x54, 0x5f, 0x6f, 0x80, 0x16, 0x00];
    let expected = [Some(true), Some(true), Some(false), None, None, None, None];
    assert_eq!(firsts.map(is_event), expected);
}

#[test]
fn a_join_that_fills_its_room_is_carried_and_one_byte_more_is_not() {
    let mut filters: Vec<_> = (0..4)
        .map(|_| Filter::new(&"f".repeat(255)).unwrap())
        .collect();
    let room = JOIN_ROOM - 1 - 4 * 256 - 1;
    filters.push(Filter::new(&"r".repeat(room)).unwrap());
    let mut out = Vec::new();
    assert_eq!(join(filters.clone()).encode(&mut out), Ok(()));
    assert_eq!(out.len(), MESSAGE_LEN_MAX);
    assert_eq!(Message::decode(&out), Ok(join(filters.clone())));

    filters[4] = Filter::new(&"r".repeat(room + 1)).unwrap();
    let mut out = vec![7];
    let refused = join(filters).push(&mut out);
    assert_eq!(refused, Err(WireError::Oversized));
    assert_eq!(out, [7], "what was there before stays");
}

#[test]
fn a_join_of_too_many_filters_is_not_written() {
    let filters = vec![Filter::new("f").unwrap(); FILTERS_MAX + 1];
    let refused = join(filters).encode(&mut Vec::new());
    assert_eq!(refused, Err(WireError::Oversized));
}

#[test]
fn the_largest_announcement_fits_a_message_and_that_a_frame() {
    let announce = Message::Announce {
        stream: StreamId::from_bits(u64::MAX),
        topic: Topic::new(&"t".repeat(255)).unwrap(),
        media: MediaInfo {
            encoding: "e".repeat(32),
            fmtp: "f".repeat(512),
            ..MediaInfo::data()
        },
    };
    let mut messages = Vec::new();
    assert_eq!(announce.push(&mut messages), Ok(()));
    assert!(messages.len() <= CONTROL_ROOM);
    const { assert!(MESSAGE_LEN_MAX + 2 <= CONTROL_ROOM) }

    messages.resize(CONTROL_ROOM, 0);
    let frame = Frame::Control {
        session: 1,
        sequence: 2,
        ack: 3,
        messages: &messages,
    };
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    assert_eq!(bytes.len(), FRAME_LEN_MAX);
    const { assert!(FRAME_LEN_MAX <= DATAGRAM_LEN_SAFE) }
}

#[test]
fn media_that_is_not_valid_is_not_written() {
    let publish = Message::Publish {
        request: 1,
        topic: Topic::new("t").unwrap(),
        media: MediaInfo {
            payload_type: 128,
            ..MediaInfo::data()
        },
    };
    let refused = publish.encode(&mut Vec::new());
    assert_eq!(refused, Err(WireError::Value));
}

#[test]
fn the_largest_event_is_carried_and_one_byte_more_is_not() {
    let payload = vec![1; EVENT_LEN_MAX - HEADER_LEN + 1];
    let mut out = vec![0; EVENT_LEN_MAX + 1];
    let event = |payload| Event {
        header: header(),
        extensions: Extensions::NONE,
        payload,
    };
    assert_eq!(event(&payload[1..]).write(&mut out), Ok(EVENT_LEN_MAX));
    assert!(Event::decode(&out[..EVENT_LEN_MAX]).is_ok());
    assert_eq!(Event::decode(&out), Err(WireError::Oversized));
    let refused = event(&payload).write(&mut out);
    assert_eq!(refused, Err(WireError::Oversized));
}

#[test]
fn a_trace_has_room_for_every_broker_a_hop_limit_allows_and_no_more() {
    let mut block = ExtensionBlock::new();
    assert!(block.trace(7, 1_000));
    let event = Event {
        header: header(),
        extensions: block.extensions(),
        payload: b"payload",
    };
    let mut bytes = vec![0; event.encoded_len()];
    event.write(&mut bytes).unwrap();
    for broker in 0..TRACE_HOPS_MAX as u32 {
        assert!(trace_hop(
            &mut bytes,
            BrokerId(broker),
            1_000 + u64::from(broker)
        ));
    }
    let full = bytes.clone();
    assert!(!trace_hop(&mut bytes, BrokerId(99), 2_000));
    assert_eq!(bytes, full);

    let event = Event::decode(&bytes).unwrap();
    let hops = event.extensions.trace().unwrap().hops();
    assert!(hops.map(|hop| hop.delay_us).eq(0..TRACE_HOPS_MAX as u32));
    assert_eq!(event.payload, b"payload");
}

#[test]
fn a_hop_before_its_origin_or_beyond_71_minutes_is_saturated() {
    let mut block = ExtensionBlock::new();
    assert!(block.trace(7, 1_000));
    let event = Event {
        header: header(),
        extensions: block.extensions(),
        payload: &[],
    };
    let mut bytes = vec![0; event.encoded_len()];
    event.write(&mut bytes).unwrap();
    assert!(trace_hop(&mut bytes, BrokerId(1), 0));
    assert!(trace_hop(&mut bytes, BrokerId(2), u64::MAX));
    let event = Event::decode(&bytes).unwrap();
    let delays = event.extensions.trace().unwrap().hops();
    assert!(delays.map(|hop| hop.delay_us).eq([0, u32::MAX]));
}

#[test]
fn an_event_without_a_trace_gets_none() {
    let mut bytes = header().encode().to_vec();
    assert!(!trace_hop(&mut bytes, BrokerId(1), 1));
    assert_eq!(bytes, header().encode());
}

#[test]
fn an_event_crosses_no_more_brokers_than_its_hop_limit() {
    let mut bytes = header().encode();
    assert!(Event::lower_hop_limit(&mut bytes));
    assert!(Event::lower_hop_limit(&mut bytes));
    assert!(!Event::lower_hop_limit(&mut bytes));
    assert_eq!(Header::decode(&bytes).unwrap().hop_limit, 0);
    assert!(!Event::lower_hop_limit(&mut []));
}

#[test]
fn extensions_that_do_not_fit_leave_the_block_as_it_was() {
    let mut block = ExtensionBlock::new();
    assert!(block.push(9, &[1; 100]));
    let before = block.extensions().bytes().to_vec();
    assert!(!block.push(10, &[2; 100]));
    assert!(!block.push(0, &[]), "padding is no extension");
    assert_eq!(block.extensions().bytes(), before);
}

#[test]
fn units_are_found_wherever_the_stream_is_cut() {
    let units: [&[u8]; 3] = [b"one", b"", &[7; 300]];
    let mut bytes = Vec::new();
    for unit in [units[0], units[2]] {
        bytes.extend_from_slice(&stream::prefix(unit.len()));
        bytes.extend_from_slice(unit);
    }
    for cut in 0..bytes.len() {
        let first = stream::next_unit(&bytes[..cut]).unwrap();
        assert_eq!(first.is_some(), cut >= 5, "cut at {cut}");
    }
    let (first, used) = stream::next_unit(&bytes).unwrap().unwrap();
    let (second, rest) = stream::next_unit(&bytes[used..]).unwrap().unwrap();
    assert_eq!((first, second), (units[0], units[2]));
    assert_eq!(used + rest, bytes.len());
}

#[test]
fn a_stream_with_an_empty_or_oversized_unit_is_given_up() {
    assert_eq!(stream::next_unit(&[0, 0]), Err(WireError::Value));
    let long = stream::prefix(EVENT_LEN_MAX + 1);
    assert_eq!(stream::next_unit(&long), Err(WireError::Oversized));
}

#[test]
fn rewriting_an_rtp_header_changes_nothing_else() {
    let bytes = [&[0xb1, 0xe0][..], &[0; 14], &[0, 1, 0, 0], b"pad", &[1]].concat();
    let mut copy = bytes.clone();
    let mut fields = rtp::HeaderMut::of(&mut copy).unwrap();
    fields.set_payload_type(0xff);
    fields.set_sequence(65_535);
    fields.set_timestamp(u32::MAX);
    fields.set_ssrc(7);
    let (before, after) = (
        rtp::Packet::decode(&bytes).unwrap(),
        rtp::Packet::decode(&copy).unwrap(),
    );
    assert_eq!(after.header.payload_type, 127);
    assert!(after.header.marker);
    assert_eq!(
        (
            after.header.sequence,
            after.header.timestamp,
            after.header.ssrc
        ),
        (65_535, u32::MAX, 7)
    );
    assert_eq!(copy[12..], bytes[12..]);
    assert_eq!(
        (after.csrc_count, after.payload),
        (before.csrc_count, before.payload)
    );
    assert!(rtp::HeaderMut::of(&mut copy[..11]).is_none());
}

#[test]
fn rtp_and_rtcp_on_one_port_are_told_apart() {
    // RFC 5761 section 4: payload types 64 to 95 with a marker look like RTCP and are not used.
    assert!(rtcp::is_rtcp(&[0x80, 200, 0, 1, 0, 0, 0, 1]));
    assert!(!rtcp::is_rtcp(&[0x80, 0x60, 0, 1, 0, 0, 0, 1]));
    assert!(!rtcp::is_rtcp(&[0x80, 0xe0, 0, 1, 0, 0, 0, 1]));
    assert!(!rtcp::is_rtcp(&[(VERSION << 4), 200, 0, 1]));
    assert!(!rtcp::is_rtcp(&[0x80, 200]));
}

#[test]
fn reports_of_too_many_sources_and_names_of_too_many_bytes_are_cut() {
    let mut out = Vec::new();
    rtcp::receiver_report(&mut out, 1, &[rtcp::Block::default(); 40]);
    rtcp::source_name(&mut out, 1, &"ö".repeat(200));
    let packets: Vec<_> = rtcp::packets(&out).collect::<Result<_, _>>().unwrap();
    let [
        rtcp::Packet::ReceiverReport(1, blocks),
        rtcp::Packet::SourceName(1, name),
    ] = packets[..]
    else {
        panic!("{packets:?}")
    };
    assert_eq!(blocks.iter().count(), 31);
    assert_eq!(name, "ö".repeat(127).as_bytes());
}

#[test]
fn lost_packets_of_a_report_are_clamped_to_24_bits() {
    for (lost, told) in [
        (i32::MAX, 0x7f_ffff),
        (i32::MIN, -0x80_0000),
        (-1, -1),
        (5, 5),
    ] {
        let block = rtcp::Block {
            lost,
            ..rtcp::Block::default()
        };
        let mut out = Vec::new();
        rtcp::receiver_report(&mut out, 1, &[block]);
        let read = rtcp::packets(&out).next();
        let Some(Ok(rtcp::Packet::ReceiverReport(_, blocks))) = read else {
            panic!("{read:?}")
        };
        assert_eq!(blocks.iter().next().unwrap().lost, told);
    }
}
