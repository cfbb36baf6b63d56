//! What is published comes out as it went in, wherever.

use sangam_client::{Outgoing, Received};
use sangam_model::{Class, MediaInfo, Topic};
use sangam_wire::{Event, rtp};

use crate::peer::{Kind, Peer};
use crate::stage::{PATIENCE, Stage, next, until};

/// Shows pictures until the player has some, each a key frame if one was asked for.
fn film(publisher: &mut Peer, player: &mut Peer, pictures: usize) {
    let mut asked = publisher.key_requests;
    let wanted = player.pictures().len() + pictures;
    player.until_with(
        "pictures",
        |player| player.pictures().len() >= wanted,
        || {
            let key = publisher.key_requests > asked;
            asked = publisher.key_requests;
            publisher.speak(30);
            publisher.show(key);
        },
    );
}

fn whole(packets: &[&str0m::rtp::RtpPacket]) -> bool {
    packets
        .windows(2)
        .all(|pair| *pair[1].seq_no == *pair[0].seq_no + 1)
}

#[test]
fn what_comes_by_whip_is_played_by_whep() {
    let stage = Stage::new();
    let (mut publisher, mut player) = (Peer::new(Kind::Sends), Peer::new(Kind::Receives));
    stage.publish(&mut publisher, "demo/anna");
    stage.play(&mut player, "demo/anna");
    film(&mut publisher, &mut player, 20);
    assert!(whole(&player.pictures()), "a picture is missing");
    let first = player.pictures()[0].payload[4];
    assert_eq!(first, 0, "the first picture is a key frame");
    let levels = player
        .sounds()
        .into_iter()
        .map(|packet| packet.header.ext_vals.audio_level);
    assert!(levels.clone().count() > 5);
    assert!(levels.into_iter().all(|level| level == Some(-30)));
    assert!(publisher.key_requests > 0);
}

#[test]
fn a_stream_crosses_brokers() {
    let first = Stage::new();
    let second = first.beside();
    let (mut publisher, mut player) = (Peer::new(Kind::Sends), Peer::new(Kind::Receives));
    first.publish(&mut publisher, "demo/anna");
    second.play(&mut player, "demo/anna");
    film(&mut publisher, &mut player, 20);
    assert!(whole(&player.pictures()));
}

#[test]
fn native_members_see_the_same_stream() {
    let stage = Stage::new();
    let mut publisher = Peer::new(Kind::Sends);
    stage.publish(&mut publisher, "demo/anna");
    let mut client = stage.native("demo/#");
    let mut seen = (None, None);
    let mut announced = Vec::new();
    until("sound and picture", || {
        publisher.speak(12);
        publisher.show(true);
        while let Some(received) = next(&mut client) {
            match received {
                Received::Announce { topic, media, .. } => announced.push((topic, media)),
                Received::Event(packet) => {
                    let event = Event::decode(&packet).unwrap();
                    let rtp = rtp::Packet::decode(event.payload).unwrap();
                    match event.header.class {
                        Class::Audio => seen.0 = event.extensions.audio_level(),
                        Class::Video => seen.1 = Some((event.header, rtp.header.marker)),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        seen.0.is_some() && seen.1.is_some()
    });
    let level = seen.0.unwrap();
    assert_eq!((level.voice, level.below), (true, 12));
    let (header, marker) = seen.1.unwrap();
    let whole = sangam_wire::Flags::KEY
        .with(sangam_wire::Flags::FRAME_START)
        .with(sangam_wire::Flags::FRAME_END);
    assert!(header.flags.contains(whole) && marker, "{:?}", header.flags);
    let names: Vec<_> = announced.iter().map(|(topic, _)| topic.as_str()).collect();
    assert!(
        names.contains(&"demo/anna/audio") && names.contains(&"demo/anna/video"),
        "{names:?}"
    );
    let encodings: Vec<_> = announced
        .iter()
        .map(|(_, media)| &*media.encoding)
        .collect();
    assert!(
        encodings.contains(&"opus") && encodings.contains(&"VP8"),
        "{encodings:?}"
    );
}

#[test]
fn what_a_native_client_publishes_is_played_by_whep() {
    let stage = Stage::new();
    let mut client = stage.native("nothing");
    let media = MediaInfo {
        class: Class::Audio,
        payload_type: 109,
        channels: 2,
        clock_rate: 48_000,
        encoding: "OPUS".to_owned(),
        fmtp: String::new(),
    };
    let topic = Topic::new("demo/bert").unwrap();
    let mut sound = client.publish(&topic, media, PATIENCE).unwrap();
    let mut player = Peer::new(Kind::Receives);
    stage.play(&mut player, "demo/bert");
    let mut sequence = 65_530_u16;
    player.until_with(
        "sounds",
        |player| player.sounds().len() >= 20,
        || {
            sequence = sequence.wrapping_add(1);
            let header = rtp::Header {
                marker: false,
                payload_type: 109,
                sequence,
                timestamp: u32::from(sequence) * 960,
                ssrc: 7,
            };
            let mut packet = [0; 92];
            let len = header.write(&[3; 80], &mut packet).unwrap();
            sound.set_sequence(sequence);
            let _ = sound.send(Outgoing::new(&packet[..len]));
        },
    );
    assert!(whole(&player.sounds()));
    let types: Vec<u8> = player
        .sounds()
        .iter()
        .map(|p| *p.header.payload_type)
        .collect();
    assert!(
        types.iter().all(|pt| *pt != 109),
        "the player's own number is used"
    );
}

#[test]
fn what_is_lost_on_the_way_to_a_player_is_repeated() {
    let stage = Stage::new();
    let (mut publisher, mut player) = (Peer::new(Kind::Sends), Peer::new(Kind::Receives));
    stage.publish(&mut publisher, "demo/anna");
    stage.play(&mut player, "demo/anna");
    film(&mut publisher, &mut player, 20);
    player.loses = 3;
    film(&mut publisher, &mut player, 40);
    assert_eq!(player.loses, 0);
    player.until("no hole is left", |player| {
        let mut numbers: Vec<u64> = player.pictures().iter().map(|p| *p.seq_no).collect();
        numbers.sort_unstable();
        numbers.windows(2).all(|pair| pair[1] == pair[0] + 1)
    });
}

#[test]
fn who_leaves_is_gone_at_once_and_so_are_its_streams() {
    let stage = Stage::new();
    let mut publisher = Peer::new(Kind::Sends);
    let joined = stage.publish(&mut publisher, "demo/anna");
    until("the streams are there", || {
        stage.broker.streams().len() == 2
    });
    let description = stage.gateway.describe(joined.id).unwrap();
    assert!(description.connected);
    assert_eq!(description.publishes[1].as_str(), "demo/anna/video");
    stage.gateway.leave(joined.id).unwrap();
    until("they are gone", || stage.broker.streams().is_empty());
    publisher.until("it is told", |publisher| publisher.closed);
    assert!(stage.gateway.leave(joined.id).is_err(), "twice");
    assert_eq!((stage.gateway.peers(), stage.count("left")), (0, 1));
}
