//! RTP legs: endpoints that know nothing of Sangam, on two brokers.

use std::net::{Ipv6Addr, UdpSocket};
use std::time::Duration;

use sangam_broker::DropReason;
use sangam_client::{Outgoing, Received};
use sangam_model::{Class, MediaInfo};
use sangam_node::{LegError, LegReceive, LegSpec, RtcpPort};
use sangam_wire::feedback::Nack;
use sangam_wire::{Event, Flags, Header, rtcp, rtp};

use crate::stage::*;
use crate::support::*;

#[test]
fn rtp_leaves_the_last_broker_as_it_entered_the_first() {
    let stage = Stage::set(2, RtcpPort::Mux);
    // Of every length up to what cameras send: longer than a small link's datagram.
    for (number, len) in (2_000..).zip((0..1_448).step_by(97).chain([1_448, 1_460, 1_472])) {
        let sent = packet(number, &numbered(number.into(), len));
        stage.camera.send(&sent, &stage.into);
        assert_eq!(receive(&stage.player.rtp), sent);
    }
    // Contributing sources, header extension and padding are the endpoints' own affair.
    let mut full = packet(3_000, &[]);
    full[0] = 0x80 | 0x20 | 0x10 | 2;
    full.extend([0, 0, 0, 1, 0, 0, 0, 2]);
    full.extend([0xbe, 0xde, 0, 1, 0x10, 7, 0, 0]);
    full.extend(b"media");
    full.extend([0, 0, 3]);
    stage.camera.send(&full, &stage.into);
    assert_eq!(receive(&stage.player.rtp), full);

    eventually("they are counted", || stage.brokers[1].legs()[0].sent >= 20);
    assert_eq!(stage.brokers[1].legs()[0].received, 0);
}

#[test]
fn rtcp_about_the_media_travels_with_it() {
    for rtcp in [RtcpPort::Mux, RtcpPort::Next] {
        let stage = Stage::set(2, rtcp);
        let info = rtcp::SenderInfo {
            ssrc: SSRC,
            ntp: 1 << 40,
            timestamp: 9,
            packets: 3,
            bytes: 4,
        };
        let mut report = Vec::new();
        rtcp::sender_report(&mut report, &info, &[]);
        rtcp::source_name(&mut report, SSRC, "camera@hall");
        stage.camera.send_control(&report, &stage.into);
        assert_eq!(receive(stage.player.control()), report);
        let mut bye = Vec::new();
        rtcp::receiver_report(&mut bye, SSRC, &[]);
        rtcp::bye(&mut bye, SSRC);
        stage.camera.send_control(&bye, &stage.into);
        assert_eq!(receive(stage.player.control()), bye);
    }
}

#[test]
fn picture_losses_of_a_player_reach_the_camera_as_one() {
    for rtcp in [RtcpPort::Mux, RtcpPort::Next] {
        let stage = Stage::set(2, rtcp);
        let mut loss = Vec::new();
        rtcp::receiver_report(&mut loss, 77, &[]);
        rtcp::picture_loss(
            &mut loss,
            rtcp::Target {
                sender: 77,
                media: SSRC,
            },
        );
        for _ in 0..10 {
            stage.player.send_control(&loss, &stage.out);
        }
        let heard = receive_rtcp(stage.camera.control(), Duration::from_millis(450));
        assert!((1..=2).contains(&heard.len()), "{} compounds", heard.len());
        for compound in heard {
            let packets: Vec<_> = rtcp::packets(&compound).flatten().collect();
            let is_loss = |packet: &rtcp::Packet<'_>| match packet {
                rtcp::Packet::PictureLoss(target) => target.media == SSRC,
                _ => false,
            };
            assert!(
                matches!(packets[0], rtcp::Packet::ReceiverReport(..)),
                "{packets:?}"
            );
            assert!(packets.iter().any(is_loss), "{packets:?}");
        }
    }
}

#[test]
fn a_nack_is_answered_by_the_broker_nearest_to_the_player() {
    let stage = Stage::set(2, RtcpPort::Mux);
    stage.play(2_000..2_040);
    let ask = |nack: Nack| {
        let mut compound = Vec::new();
        rtcp::receiver_report(&mut compound, 77, &[]);
        rtcp::nack(
            &mut compound,
            rtcp::Target {
                sender: 77,
                media: SSRC,
            },
            &[nack],
        );
        stage.player.send_control(&compound, &stage.out);
    };
    ask(Nack {
        first: 2_010,
        also: 0b10,
    });
    for sequence in [2_010, 2_012] {
        let again = receive(&stage.player.rtp);
        assert_eq!(again, packet(sequence, &numbered(sequence.into(), 1_000)));
    }
    comes_to(2, || counted(&stage.brokers[1], "sangam_repaired_total"));

    // What nobody has is asked of the camera, which may send it again.
    ask(Nack {
        first: 9_000,
        also: 0,
    });
    let heard = receive_rtcp(&stage.camera.rtp, Duration::from_millis(200));
    assert_eq!(heard.len(), 1);
    let asked = rtcp::packets(&heard[0])
        .flatten()
        .find_map(|packet| match packet {
            rtcp::Packet::Nack(target, nacks) if target.media == SSRC => nacks.iter().next(),
            _ => None,
        });
    assert_eq!(
        asked,
        Some(Nack {
            first: 9_000,
            also: 0
        })
    );
}

#[test]
fn what_a_player_reports_reaches_the_camera() {
    reported(video());
    for clock_rate in [48_000, 8_000] {
        // As the legs' packets have it.
        let payload_type = video().payload_type;
        reported(MediaInfo {
            payload_type,
            clock_rate,
            ..audio()
        });
    }
}

fn reported(media: MediaInfo) {
    let rate = media.clock_rate;
    // A third of a second, which no rate divides.
    let jitter = rate / 3;
    let stage = Stage::set_with(2, RtcpPort::Mux, media);
    let block = rtcp::Block {
        ssrc: SSRC,
        fraction_lost: 25,
        highest: 4_000,
        jitter,
        ..rtcp::Block::default()
    };
    let mut report = Vec::new();
    rtcp::receiver_report(&mut report, 77, &[block]);
    stage.player.send_control(&report, &stage.out);
    let heard = receive_rtcp(&stage.camera.rtp, Duration::from_millis(3_500));
    assert_eq!(heard.len(), 1, "once a second at most");
    let told = rtcp::packets(&heard[0])
        .flatten()
        .find_map(|packet| match packet {
            rtcp::Packet::ReceiverReport(_, blocks) => blocks.iter().next(),
            _ => None,
        });
    let told = told.expect("a report block");
    let seen = (told.ssrc, told.fraction_lost, told.highest);
    assert_eq!(seen, (SSRC, 25, 4_000));
    // Microseconds travel between the legs.
    assert!(
        told.jitter.abs_diff(jitter) <= 1,
        "{} at {rate} Hz",
        told.jitter
    );
}

#[test]
fn native_clients_and_legs_meet_on_one_topic() {
    let broker = start(config(1));
    let (camera, player) = (Endpoint::new(), Endpoint::new());
    let into = broker
        .add_leg(incoming("camera", topic("hall/camera"), video()))
        .expect("a leg");
    broker
        .add_leg(outgoing("player", player.address(), "hall/+"))
        .expect("a leg");
    let mut client = udp(&broker);
    subscribe(&mut client, "hall/camera");
    eventually("the leg's stream has its id", || {
        broker.legs().iter().any(|leg| leg.stream.is_some())
    });
    let stage = Stage {
        out: into.clone(),
        brokers: vec![broker],
        camera,
        player,
        into,
    };
    stage.open();
    stage.play(2_000..2_010);
    let event = wait_for(&mut client, "an event of the camera", |received| {
        matches!(received, Received::Event(_))
    });
    let Received::Event(event) = event else {
        panic!("{event:?}")
    };
    let event = Event::decode(&event).expect("an event");
    assert_eq!(event.header.class, Class::Video);
    assert!(rtp::Packet::decode(event.payload).is_ok());
    assert!(event.header.flags.contains(Flags::FRAME_START), "{event:?}");

    let mut speaker = udp(&stage.brokers[0]);
    let mut voice = publish_media(&mut speaker, "hall/voice", audio());
    let spoken = packet(1, b"hello");
    eventually("the voice reaches the player", || {
        voice.send(Outgoing::new(&spoken)).expect("sent");
        let heard = receive(&stage.player.rtp);
        heard == spoken
    });
}

#[test]
fn a_leg_takes_media_from_one_source_and_nothing_but_media() {
    let stage = Stage::set(1, RtcpPort::Mux);
    let broker = &stage.brokers[0];
    let intruder = Endpoint::new();
    stage.play(2_000..2_005);
    intruder.send(&packet(2_005, b"not the camera"), &stage.into);
    stage.play(2_005..2_010);
    assert_eq!(dropped(broker, DropReason::LegSource), 1);

    let mut other_type = packet(2_010, b"audio?");
    other_type[1] = 0;
    for bytes in [
        &other_type[..],
        b"plain text",
        &[0x80; 5],
        &[0x80, 200, 0, 9],
    ] {
        stage.camera.send(bytes, &stage.into);
    }
    stage.play(2_010..2_015);
    assert_eq!(dropped(broker, DropReason::NotRtp), 4);
    // Media for a leg that only sends is nobody's.
    stage.camera.send(&packet(1, b"wrong leg"), &stage.out);
    eventually("it is counted", || {
        dropped(broker, DropReason::LegSource) == 2
    });
}

#[test]
fn a_refused_packet_begins_and_ends_no_frame() {
    let stage = Stage::set(1, RtcpPort::Mux);
    let broker = &stage.brokers[0];
    let mut client = udp(broker);
    subscribe(&mut client, "hall/camera");
    let intruder = Endpoint::new();
    let mut number = 2_000;
    eventually("the client hears the camera", || {
        stage.play(number..number + 1);
        number += 1;
        let came = client.recv(Duration::from_millis(20));
        matches!(came, Some(Received::Event(_)))
    });

    // Three packets of one frame and the first of the next; what comes between would make them
    // late ones.
    stage.play(3_000..3_001);
    intruder.send(&packet(3_300, b"not the camera"), &stage.into);
    eventually("the intruder is counted", || {
        dropped(broker, DropReason::LegSource) == 1
    });
    stage.play(3_001..3_004);
    let mut starts = Vec::new();
    while starts.len() < 4 {
        let event = wait_for(&mut client, "an event", |received| {
            matches!(received, Received::Event(_))
        });
        let Received::Event(event) = event else {
            panic!("{event:?}")
        };
        let header = event.header().expect("an event");
        if header.sequence >= 3_000 {
            starts.push(header.flags.contains(Flags::FRAME_START));
        }
    }
    assert_eq!(starts, [true, false, false, true]);
}

#[test]
fn legs_come_and_go_while_the_broker_runs() {
    let broker = start(config(1));
    let mut client = udp(&broker);
    subscribe(&mut client, "hall/#");
    let spec = incoming("camera", topic("hall/camera"), video());
    let leg = broker.add_leg(spec.clone()).expect("a leg");
    let stream = announced(&mut client, "hall/camera");
    assert!(matches!(broker.add_leg(spec), Err(LegError::Exists)));
    let taken = LegSpec {
        name: "other".to_owned(),
        ..incoming("", topic("a"), video())
    };
    let taken = LegSpec {
        receive: taken.receive.map(|receive| LegReceive {
            listen: leg.local,
            ..receive
        }),
        ..taken
    };
    let error = broker.add_leg(taken).expect_err("the port is taken");
    assert!(
        error.to_string().contains(&leg.local.to_string()),
        "{error}"
    );
    let nothing = LegSpec {
        receive: None,
        ..incoming("none", topic("a"), video())
    };
    assert!(matches!(broker.add_leg(nothing), Err(LegError::Nothing)));

    assert_eq!(broker.legs().len(), 1);
    assert!(broker.remove_leg("camera"));
    assert!(!broker.remove_leg("camera"));
    wait_for(
        &mut client,
        "the leg's stream is retired",
        |received| matches!(received, Received::Retired(retired) if *retired == stream),
    );
    assert!(broker.legs().is_empty());
    // Its port is free again.
    UdpSocket::bind(leg.local).expect("a free port");
}

#[test]
fn legs_work_over_ipv6() {
    let broker = start(config(1));
    let socket = || {
        let socket = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Endpoint {
            rtp: socket,
            rtcp: None,
        }
    };
    let (camera, player) = (socket(), socket());
    let mut spec = incoming("camera", topic("hall/camera"), video());
    if let Some(receive) = &mut spec.receive {
        receive.listen = (Ipv6Addr::LOCALHOST, 0).into();
    }
    let into = broker.add_leg(spec).expect("a leg");
    let out = broker
        .add_leg(outgoing("player", player.address(), "hall/#"))
        .expect("a leg");
    let stage = Stage {
        brokers: vec![broker],
        camera,
        player,
        into,
        out,
    };
    stage.open();
    stage.play(2_000..2_020);
}

#[test]
fn a_camera_that_starts_anew_goes_on_under_its_new_numbers() {
    let stage = Stage::set(2, RtcpPort::Mux);
    stage.play(2_000..2_020);
    // Another program at the same address: other SSRC, far other numbers.
    let renumbered = |sequence: u16| {
        let mut bytes = packet(sequence, b"again");
        bytes[8..12].copy_from_slice(&0xbeef_u32.to_be_bytes());
        bytes
    };
    // They might be late ones of the first, so it takes a row of them to be believed.
    let mut next = 40_000;
    stage
        .player
        .rtp
        .set_read_timeout(Some(Duration::from_millis(20)))
        .expect("a timeout");
    eventually("the new numbers are believed", || {
        stage.camera.send(&renumbered(next), &stage.into);
        next += 1;
        stage.player.rtp.recv(&mut [0; 2_048]).is_ok()
    });
    assert!(next <= 40_070, "{next}");
    stage
        .player
        .rtp
        .set_read_timeout(Some(PATIENCE))
        .expect("a timeout");
    for sequence in next..next + 20 {
        stage.camera.send(&renumbered(sequence), &stage.into);
        assert_eq!(receive(&stage.player.rtp), renumbered(sequence));
    }
    let header = Header::decode(&renumbered(1));
    assert!(header.is_err(), "raw RTP is never mistaken for an event");
}
