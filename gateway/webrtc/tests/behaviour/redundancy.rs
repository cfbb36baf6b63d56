//! Sound that brings the packet before along (RFC 2198), on both sides.

use std::sync::Arc;

use sangam_model::Topic;
use sangam_webrtc::Wish;
use sangam_wire::red::Payload;
use str0m::rtp::{ExtensionValues, RtpPacket};

use crate::peer::{Kind, Peer, SOUND, number};
use crate::stage::{Stage, until};

/// Whether packets stand in order, none is missing, and each is what its number says.
fn whole(packets: &[&RtpPacket]) -> bool {
    packets.windows(2).all(|pair| {
        let of = |packet: &RtpPacket| (*packet.seq_no, number(&packet.payload));
        let (before, after) = (of(pair[0]), of(pair[1]));
        let times = (pair[0].header.timestamp, pair[1].header.timestamp);
        after == (before.0 + 1, before.1 + 1) && times.1.wrapping_sub(times.0) == u32::from(SOUND)
    })
}

/// Who publishes redundant sound, and who plays it without.
fn redundant_to_plain() -> (Stage, Peer, Peer) {
    let stage = Stage::new();
    let mut publisher = Peer::redundant(Kind::Sends);
    let mut player = Peer::new(Kind::Receives);
    stage.publish(&mut publisher, "demo/anna");
    stage.play(&mut player, "demo/anna");
    (stage, publisher, player)
}

#[test]
fn sound_that_is_lost_on_its_way_here_comes_with_the_next() {
    let (stage, mut publisher, mut player) = redundant_to_plain();
    assert!(publisher.red().is_some() && player.red().is_none());
    publisher.drops = 5;
    let enough = |player: &Peer| player.sounds().len() >= 100;
    player.until_with("sounds", enough, || publisher.count());
    let sounds = player.sounds();
    assert!(whole(&sounds), "a packet is missing");
    let plain = sounds[0].header.payload_type;
    assert!(sounds.iter().all(|one| one.header.payload_type == plain));
    let recovered = stage.count("red_recovered");
    assert!(
        (19..=stage.count("red_received") / 4 + 1).contains(&recovered),
        "{recovered}"
    );
    let bad = ["red_malformed", "red_late", "red_sent"].map(|name| stage.count(name));
    assert_eq!(bad, [0; 3]);
}

#[test]
fn who_prefers_it_gets_sound_with_the_packet_before() {
    let stage = Stage::new();
    let mut publisher = Peer::new(Kind::Sends);
    let (mut redundant, mut plain) = (Peer::redundant(Kind::Receives), Peer::new(Kind::Receives));
    stage.publish(&mut publisher, "demo/anna");
    stage.play(&mut redundant, "demo/anna");
    stage.play(&mut plain, "demo/anna");
    let red = redundant.red().unwrap();
    let wrapped = |player: &Peer| {
        let of = |packet: &&RtpPacket| packet.header.payload_type == red;
        let sounds = player.sounds().into_iter().filter(of);
        sounds
            .map(|packet| Arc::clone(&packet.payload))
            .collect::<Vec<_>>()
    };
    let enough = |player: &Peer| wrapped(player).len() >= 50;
    redundant.until_with("sounds", enough, || {
        publisher.count();
        plain.pass();
    });
    for payload in wrapped(&redundant) {
        let taken = Payload::decode(&payload).unwrap();
        let blocks: Vec<_> = taken.blocks().collect();
        assert_eq!((blocks.len(), blocks[0].offset), (1, SOUND));
        let numbers = (number(blocks[0].payload), number(taken.primary));
        assert_eq!(numbers.0 + 1, numbers.1, "the packet before");
    }
    let alone = redundant.sounds().len() - wrapped(&redundant).len();
    assert_eq!(alone, 1, "nothing was before the first");
    let enough = |player: &Peer| player.sounds().len() >= 40;
    plain.until_with("sounds", enough, || publisher.count());
    assert!(whole(&plain.sounds()));
    assert!(stage.count("red_sent") >= 50);
    assert_eq!(stage.count("red_received"), 0);
}

#[test]
fn redundancy_that_is_none_is_counted_and_harms_nobody() {
    let (stage, mut publisher, mut player) = redundant_to_plain();
    let red = publisher.red().unwrap();
    // 300 blocks, as many as one datagram holds; others begin and end where they should not.
    let many = [0xef_u8, 0x0f, 0x00, 0x00].repeat(300);
    let past = [0xef, 0x0f, 0x03, 0xff, 0x6f, 1, 2, 3];
    let other = [0x00, 1, 2, 3];
    let bad: [&[u8]; 5] = [&[0xef], &[0xef, 0x0f], &past, &many, &other];
    let mut rounds = 0;
    let enough = |player: &Peer| player.sounds().len() >= 30;
    player.until_with("sounds", enough, || {
        rounds += 1;
        publisher.count();
        for payload in bad {
            publisher.sound(red, payload, ExtensionValues::default());
        }
    });
    let sounds = player.sounds();
    let apart = |packet: &RtpPacket| number(&packet.payload) - *packet.seq_no;
    let same = sounds
        .iter()
        .all(|packet| apart(packet) == apart(sounds[0]));
    assert!(same, "each is where its number says");
    until("all are counted", || {
        stage.count("red_malformed") >= (rounds - 1) * bad.len() as u64
    });
    assert_eq!(stage.count("failed"), 0);
    assert_eq!(stage.gateway.peers(), 2);
}

#[test]
fn padding_goes_on_as_without_redundancy() {
    let (stage, mut publisher, mut player) = redundant_to_plain();
    let red = publisher.red().unwrap();
    // Left out, it would be a loss in everybody's eyes.
    let is_padding = |packet: &RtpPacket| packet.payload.is_empty();
    let came = |player: &Peer| player.sounds().iter().filter(|one| is_padding(one)).count() >= 5;
    player.until_with("padding", came, || {
        publisher.count();
        publisher.sound(red, &[], ExtensionValues::default());
    });
    assert_eq!(stage.count("red_malformed"), 0);
}

#[test]
fn answers_prefer_redundancy_where_offers_do() {
    let stage = Stage::new();
    let offer = Peer::redundant(Kind::Sends).offer();
    let answer = |offer: &str| {
        let wish = Wish::Publish(Topic::new("demo/anna").unwrap());
        let joined = stage.join(wish, offer).unwrap();
        stage.gateway.leave(joined.id).unwrap();
        joined.answer
    };
    let sound = |answer: &str| {
        let line = answer.lines().find(|line| line.starts_with("m=audio"));
        line.unwrap().to_owned()
    };
    // Chromium sends it only if it stands before Opus here.
    let preferred = answer(&offer);
    assert!(sound(&preferred).ends_with("SAVPF 63 111"), "{preferred}");
    assert!(preferred.contains("a=fmtp:63 111/111\r\n"), "{preferred}");
    let possible = answer(&offer.replace(" 63 111", " 111 63"));
    assert!(sound(&possible).ends_with("SAVPF 111"), "{possible}");
    let stereo = offer.replace("a=fmtp:111 minptime=10", "a=fmtp:111 stereo=1");
    let stereo = answer(&stereo);
    assert!(
        stereo.contains("a=fmtp:111 stereo=1;useinbandfec=1\r\n"),
        "{stereo}"
    );
    let numbers = offer
        .replace(" 63 111", " 60 109")
        .replace("111/111", "109/109");
    let numbers = answer(&numbers.replace(":111 ", ":109 ").replace(":63 ", ":60 "));
    assert!(sound(&numbers).ends_with("SAVPF 60 109"), "{numbers}");
}
