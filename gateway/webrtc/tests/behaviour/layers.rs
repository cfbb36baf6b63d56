//! Simulcast: each layer a stream of its own, each player one clean stream.

use std::time::{Duration, Instant};

use sangam_webrtc::{JoinError, SHOWN_MAX, Shown};
use str0m::rtp::RtpPacket;

use crate::bottleneck::Bottleneck;
use crate::peer::{Kind, LOWEST_HEIGHT, Peer};
use crate::stage::{Stage, until};

/// Bytes of a picture in each layer.
const SIZES: [usize; 3] = [200, 600, 1_100];

/// Shows the same picture in all layers.
fn show(publisher: &mut Peer, key: bool) {
    for (layer, size) in SIZES.into_iter().enumerate() {
        publisher.show_layer(Some(layer), key, size);
    }
}

#[test]
fn each_layer_is_a_subtopic() {
    let stage = Stage::new();
    let mut publisher = Peer::new(Kind::SendsLayers(3));
    stage.publish(&mut publisher, "demo/anna");
    until("all are there", || stage.broker.streams().len() == 4);
    let mut names: Vec<_> = stage
        .broker
        .streams()
        .iter()
        .map(|one| one.topic.to_string())
        .collect();
    names.sort();
    let expected = ["audio", "video/0", "video/1", "video/2"];
    assert_eq!(names, expected.map(|name| format!("demo/anna/{name}")));
}

#[test]
fn a_player_begins_with_the_lowest_layer() {
    let stage = Stage::new();
    let mut publisher = Peer::new(Kind::SendsLayers(3));
    let mut player = Peer::new(Kind::Receives);
    stage.publish(&mut publisher, "demo/anna");
    stage.play(&mut player, "demo/anna");
    let some = |player: &Peer| player.pictures().len() >= 5;
    player.until_with("pictures", some, || show(&mut publisher, true));
    assert_eq!(player.pictures()[0].payload.len(), SIZES[0]);
}

/// The video of a player, shown so high.
fn shown(player: &Peer, height: u16) -> Vec<Shown> {
    let mid = player.video().to_string();
    vec![Shown { mid, height }]
}

#[test]
fn what_is_not_shown_is_not_sent_and_begins_low_again() {
    let stage = Stage::new();
    let mut publisher = Peer::new(Kind::SendsLayers(3));
    let mut player = Peer::new(Kind::Receives);
    stage.publish(&mut publisher, "demo/anna");
    let id = stage.play(&mut player, "demo/anna").id;
    let some = |player: &Peer| player.pictures().len() >= 5;
    player.until_with("pictures", some, || show(&mut publisher, true));
    let hidden = shown(&player, 0);
    stage.gateway.show(id, hidden).unwrap();
    // What was on its way before has come when all of these sounds have.
    let sounds = |player: &Peer| player.sounds().len();
    let (before, heard) = (player.pictures().len(), sounds(&player));
    player.until_with(
        "sounds",
        |player| sounds(player) >= heard + 50,
        || {
            show(&mut publisher, true);
            publisher.speak(20);
        },
    );
    let during = player.pictures().len() - before;
    assert!(during <= 1, "{during} pictures that nobody sees");
    let again = shown(&player, 2_000);
    stage.gateway.show(id, again).unwrap();
    let some = |player: &Peer| player.pictures().len() >= before + during + 5;
    player.until_with("pictures", some, || show(&mut publisher, true));
    assert_eq!(player.pictures()[before + during].payload.len(), SIZES[0]);
}

#[test]
fn a_layer_higher_than_what_is_shown_is_not_sent_however_wide_the_path() {
    let stage = Stage::new();
    let mut publisher = Peer::new(Kind::SendsLayers(3));
    let mut player = Peer::new(Kind::Receives);
    stage.publish(&mut publisher, "demo/anna");
    let id = stage.play(&mut player, "demo/anna").id;
    let last = |player: &Peer| player.pictures().last().map_or(0, |one| one.payload.len());
    // As fast as a camera: what the path carries is measured, and a burst would be too much for it.
    let mut next = Instant::now();
    let mut frame = move || {
        if Instant::now() >= next {
            next += Duration::from_millis(40);
            show(&mut publisher, true);
        }
    };
    let is = |layer: usize| move |player: &Peer| last(player) == SIZES[layer];
    stage
        .gateway
        .show(id, shown(&player, 2 * LOWEST_HEIGHT))
        .unwrap();
    player.until_with("the middle layer", is(1), &mut frame);
    // Time enough to climb again, as the way from the lowest layer took less.
    let before = player.pictures().len();
    let more = |player: &Peer| player.pictures().len() >= before + 100;
    player.until_with("pictures", more, &mut frame);
    let too_high = |one: &&str0m::rtp::RtpPacket| one.payload.len() > SIZES[1];
    assert_eq!(player.pictures().into_iter().filter(too_high).count(), 0);
    stage
        .gateway
        .show(id, shown(&player, LOWEST_HEIGHT))
        .unwrap();
    player.until_with("the lowest layer", is(0), &mut frame);
}

#[test]
fn heights_of_nothing_are_refused_and_so_are_too_many() {
    let stage = Stage::new();
    let mut player = Peer::new(Kind::Receives);
    let id = stage.play(&mut player, "demo/anna").id;
    let of = |mid: &str, height| Shown {
        mid: mid.to_owned(),
        height,
    };
    let sound = player.audio().to_string();
    for bad in [
        vec![of("no such", 180)],
        vec![of(&"m".repeat(10_000), 180)],
        vec![of(&sound, 180)],
        shown(&player, SHOWN_MAX + 1),
        vec![shown(&player, 180)[0].clone(); 65],
    ] {
        assert_eq!(stage.gateway.show(id, bad), Err(JoinError::Shown));
    }
    let told = || stage.gateway.show(id, shown(&player, 180));
    let refusal = (0..40).find_map(|_| told().err());
    assert_eq!(refusal, Some(JoinError::TooOften));
    assert!(stage.count("shown_refused") >= 6 && stage.count("shown") > 0);
    stage.gateway.leave(id).unwrap();
    let gone = stage.gateway.show(id, shown(&player, 180));
    assert_eq!(gone, Err(JoinError::Unknown));
}

/// Packets of a picture in each layer and bytes of each: 100, 280 and 960 kb/s.
const PICTURES: [(usize, usize); 3] = [(1, 500), (2, 700), (6, 800)];
/// Bits per second, more than all layers together.
const WIDE: u64 = 50_000_000;
/// Carries the lowest layer, and not the next.
const NARROW: u64 = 200_000;

fn layer(packet: &RtpPacket) -> Option<usize> {
    let of = |(_, bytes): &(usize, usize)| *bytes == packet.payload.len();
    PICTURES.iter().position(of)
}

/// Whether the last pictures were all of layers that are wanted.
fn shows(player: &Peer, wanted: impl Fn(usize) -> bool) -> bool {
    const LAST: usize = 40;
    let pictures = player.pictures();
    let last = pictures.iter().rev().take(LAST);
    let wanted = last.filter(|one| layer(one).is_some_and(&wanted));
    wanted.count() == LAST
}

/// Nothing is missing but what the path has lost (or a busy machine has shed), times go on, and
/// each layer begins with a key frame; how often that was seen.
#[track_caller]
fn changes(stage: &Stage, player: &Peer) -> usize {
    let mut packets = player.pictures();
    packets.sort_by_key(|packet| *packet.seq_no);
    packets.dedup_by_key(|packet| *packet.seq_no);
    let path = player.path.as_ref().unwrap();
    let (mut changes, mut unknown) = (0, 0);
    for pair in packets.windows(2) {
        let (before, after) = (pair[0], pair[1]);
        let missing = *before.seq_no + 1..*after.seq_no;
        let next = missing.is_empty();
        let lost = |sequence: &u64| path.has_lost(*after.header.ssrc, *sequence as u16);
        unknown += missing.filter(|sequence| !lost(sequence)).count() as u64;
        let step = after.header.timestamp.wrapping_sub(before.header.timestamp);
        assert!(step < 10 * 90_000, "the time goes on by {step}");
        if next && layer(before) != layer(after) {
            let begins = after.payload[0] & 0x10 != 0 && after.payload[4] & 1 == 0;
            assert!(begins, "{:?} in the middle of a picture", layer(after));
            changes += 1;
        }
    }
    assert!(unknown <= stage.shed(), "{unknown} packets are missing");
    changes
}

#[test]
fn a_player_whose_path_narrows_gets_the_lowest_layer_and_a_higher_one_when_it_is_wide_again() {
    let stage = Stage::new();
    let mut publisher = Peer::new(Kind::SendsLayers(3));
    let mut player = Peer::new(Kind::Receives);
    player.path = Some(Bottleneck::new(WIDE));
    stage.publish(&mut publisher, "demo/anna");
    stage.play(&mut player, "demo/anna");
    let (mut next, mut asked) = (Instant::now(), 0);
    let mut frame = move || {
        if Instant::now() < next {
            return;
        }
        // Never two at once: what the path carries would be judged by that.
        next = Instant::now() + Duration::from_millis(40);
        let key = publisher.key_requests > asked;
        asked = publisher.key_requests;
        publisher.film(&PICTURES, key);
    };
    let high = |player: &Peer| shows(player, |layer| layer > 0);
    let low = |player: &Peer| shows(player, |layer| layer == 0);
    player.until_with("a higher layer", high, &mut frame);
    player.path.as_mut().unwrap().carry(NARROW);
    player.until_with("the lowest layer", low, &mut frame);
    player.path.as_mut().unwrap().carry(WIDE);
    player.until_with("a higher layer again", high, &mut frame);
    let seen = changes(&stage, &player);
    assert!(seen >= 2, "{seen} changes without a loss");
    assert!(stage.count("layer_switches") >= 3);
}

#[test]
fn what_paths_carry_is_heeded_where_it_decides_on_layers_alone() {
    let stage = Stage::new();
    let mut plain = Peer::new(Kind::Sends);
    let mut player = Peer::new(Kind::Receives);
    stage.publish(&mut plain, "demo/anna");
    stage.play(&mut player, "demo/anna");
    let unheeded = |_: &Peer| stage.count("unheeded") >= 5;
    player.until_with("reports on its path", unheeded, || plain.show(true));
    assert!(
        !player.pictures().is_empty(),
        "and it is served all the same"
    );

    let mut layered = Peer::new(Kind::SendsLayers(3));
    let mut chooser = Peer::new(Kind::Receives);
    stage.publish(&mut layered, "demo/bert");
    stage.play(&mut chooser, "demo/bert");
    let some = |player: &Peer| !player.pictures().is_empty();
    chooser.until_with("pictures", some, || show(&mut layered, true));
    let before = stage.count("unheeded");
    let more = chooser.pictures().len() + 20;
    let more = |player: &Peer| player.pictures().len() >= more;
    chooser.until_with("more of them", more, || show(&mut layered, false));
    assert_eq!(stage.count("unheeded"), before);
}
