//! The files in `vectors/`, which any implementation could use, hold for this one both ways.

#![allow(clippy::unwrap_used)] // The helpers of tests are tests, too.

mod json;

use json::{hex, unhex};
use sangam_model::BrokerId;
use sangam_wire::rtp::{Encoding, FrameMarker};
use sangam_wire::{Event, Feedback, Frame, Message, Refuse, WireError, rtcp, rtp, trace_hop};
use serde_json::{Value, json};

/// Runs `test` on the bytes and the rest of each vector of a file.
fn each(file: &str, test: impl Fn(&[u8], &Value)) {
    let file: Value = serde_json::from_str(file).unwrap();
    for vector in file["vectors"].as_array().unwrap() {
        test(&unhex(vector["hex"].as_str().unwrap()), vector);
    }
}

/// Compares what was read with what the vector says, and what was written with its bytes.
fn compare<T>(
    vector: &Value,
    read: Result<T, WireError>,
    show: impl Fn(&T) -> Value,
    write: impl Fn(&T) -> Vec<u8>,
) {
    match read {
        Err(error) => assert_eq!(vector["error"], error.name(), "{vector}"),
        Ok(value) => {
            assert_eq!(vector["decoded"], show(&value), "{vector}");
            if vector["canonical"] != false {
                assert_eq!(vector["hex"], hex(&write(&value)), "{vector}");
            }
        }
    }
}

#[test]
fn events() {
    each(include_str!("../vectors/events.json"), |bytes, vector| {
        compare(vector, Event::decode(bytes), json::event, |event| {
            let mut out = vec![0; event.encoded_len()];
            event.write(&mut out).unwrap();
            out
        });
        if let Some(relay) = vector.get("relay") {
            let broker = u32::from_str_radix(relay["broker"].as_str().unwrap(), 16).unwrap();
            let mut copy = bytes.to_vec();
            assert!(Event::lower_hop_limit(&mut copy));
            trace_hop(
                &mut copy,
                BrokerId(broker),
                relay["now_us"].as_u64().unwrap(),
            );
            assert_eq!(relay["hex"], hex(&copy), "{vector}");
        }
    });
}

#[test]
fn frames() {
    let encode = |frame: &Frame<'_>| {
        let mut out = Vec::new();
        frame.encode(&mut out);
        out
    };
    each(include_str!("../vectors/frames.json"), |bytes, vector| {
        compare(vector, Frame::decode(bytes), json::frame, encode);
        let answer = Refuse::version(bytes).map(|refuse| hex(&encode(&Frame::Refuse(refuse))));
        assert_eq!(
            vector.get("answer").and_then(Value::as_str),
            answer.as_deref()
        );
    });
}

#[test]
fn messages() {
    each(include_str!("../vectors/messages.json"), |bytes, vector| {
        compare(vector, Message::decode(bytes), json::message, |message| {
            let mut out = Vec::new();
            message.encode(&mut out).unwrap();
            out
        });
    });
}

#[test]
fn feedback() {
    each(include_str!("../vectors/feedback.json"), |bytes, vector| {
        compare(
            vector,
            Feedback::decode(bytes),
            json::feedback,
            |feedback| {
                let mut out = Vec::new();
                feedback.encode(&mut out);
                out
            },
        );
    });
}

#[test]
fn rtp_packets() {
    each(include_str!("../vectors/rtp.json"), |bytes, vector| {
        compare(vector, rtp::Packet::decode(bytes), json::rtp, |packet| {
            let mut out = vec![0; bytes.len()];
            packet.header.write(packet.payload, &mut out).unwrap();
            out
        });
    });
}

#[test]
fn rtcp_compounds() {
    each(include_str!("../vectors/rtcp.json"), |bytes, vector| {
        let packets: Vec<_> = rtcp::packets(bytes).collect();
        let shown: Vec<_> = packets
            .iter()
            .map(|p| json::result(p.as_ref(), json::rtcp))
            .collect();
        assert_eq!(vector["decoded"], json!(shown), "{vector}");
        if vector["canonical"] != false {
            let mut out = Vec::new();
            packets
                .iter()
                .flatten()
                .for_each(|packet| write_rtcp(&mut out, packet));
            assert_eq!(vector["hex"], hex(&out), "{vector}");
        }
    });
}

fn write_rtcp(out: &mut Vec<u8>, packet: &rtcp::Packet<'_>) {
    match *packet {
        rtcp::Packet::SenderReport(info, blocks) => {
            rtcp::sender_report(out, &info, &blocks.iter().collect::<Vec<_>>());
        }
        rtcp::Packet::ReceiverReport(ssrc, blocks) => {
            rtcp::receiver_report(out, ssrc, &blocks.iter().collect::<Vec<_>>());
        }
        rtcp::Packet::SourceName(ssrc, cname) => {
            rtcp::source_name(out, ssrc, str::from_utf8(cname).unwrap());
        }
        rtcp::Packet::Bye(sources) => sources.iter().for_each(|ssrc| rtcp::bye(out, ssrc)),
        rtcp::Packet::Nack(target, nacks) => {
            rtcp::nack(out, target, &nacks.iter().collect::<Vec<_>>());
        }
        rtcp::Packet::PictureLoss(target) => rtcp::picture_loss(out, target),
        rtcp::Packet::FullIntra(_) | rtcp::Packet::Other(_) => {}
    }
}

/// Packets of real encoders, cut behind the bytes that tell what they are.
#[test]
fn video_frames() {
    let file = include_str!("../vectors/rtp_frames.json");
    let file: Value = serde_json::from_str(file).unwrap();
    for vector in file["vectors"].as_array().unwrap() {
        let encoding = Encoding::from_name(vector["encoding"].as_str().unwrap());
        let mut marker = FrameMarker::new(encoding);
        for packet in vector["packets"].as_array().unwrap() {
            let bytes = unhex(packet["hex"].as_str().unwrap());
            let flags = marker.flags(&rtp::Packet::decode(&bytes).unwrap());
            assert_eq!(
                packet["flags"],
                json!(json::flags(flags)),
                "{} {packet}",
                vector["name"]
            );
        }
    }
}
