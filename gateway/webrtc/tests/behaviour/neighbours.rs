//! Whoever has a bad path pays alone: others of the same stream miss nothing and wait for nobody.

use str0m::rtp::RtpPacket;

use crate::peer::{Kind, Peer};
use crate::stage::{Stage, until};

/// Packets of a picture, and bytes of each.
const PICTURE: (usize, usize) = (8, 1_100);

/// One who sends, and one who plays it over a good path.
fn stage() -> (Stage, Peer, Peer) {
    let stage = Stage::new();
    let (mut publisher, mut player) = (Peer::new(Kind::Sends), Peer::new(Kind::Receives));
    stage.publish(&mut publisher, "demo/anna");
    stage.play(&mut player, "demo/anna");
    (stage, publisher, player)
}

/// The number of its picture (RFC 7741 section 4.2).
fn number(packet: &RtpPacket) -> u16 {
    u16::from_be_bytes([packet.payload[2], packet.payload[3]]) & 0x7fff
}

/// Sends a picture, and waits until it has come by the good path.
#[track_caller]
fn film(stage: &Stage, publisher: &mut Peer, player: &mut Peer) {
    let before = stage.shed();
    publisher.film(&[PICTURE], true);
    let sent = publisher.filmed();
    let is_there = |player: &Peer| {
        let last = player.pictures().last().map(|packet| number(packet));
        last == Some(sent) || stage.shed() > before
    };
    player.until("the picture comes", is_there);
}

/// Pictures until the first has come; what is received counts from then on.
fn begin(stage: &Stage, publisher: &mut Peer, player: &mut Peer) {
    let some = |player: &Peer| !player.pictures().is_empty();
    player.until_with("pictures", some, || publisher.film(&[PICTURE], true));
    film(stage, publisher, player);
    player.received.clear();
}

/// Everything came, in the order in which it was sent and once; but for what was shed.
#[track_caller]
fn missed_nothing(stage: &Stage, player: &Peer) {
    let pictures = player.pictures();
    let steps = pictures
        .windows(2)
        .map(|pair| (*pair[0].seq_no, *pair[1].seq_no));
    let mut missing = 0;
    for (before, after) in steps {
        assert!(after > before, "{after} comes behind {before}");
        missing += after - before - 1;
    }
    assert!(missing <= stage.shed(), "{missing} packets are missing");
}

#[test]
fn a_path_that_loses_every_second_packet_costs_nobody_else_any() {
    let (stage, mut publisher, mut player) = stage();
    let mut lossy = Peer::new(Kind::Receives);
    lossy.misses = 2;
    stage.play(&mut lossy, "demo/anna");
    begin(&stage, &mut publisher, &mut player);
    let (came, at_lossy) = (player.media(), lossy.media());
    for _ in 0..200 {
        film(&stage, &mut publisher, &mut player);
        lossy.pass();
    }
    missed_nothing(&stage, &player);
    assert!(!lossy.pictures().is_empty());
    // Repetitions go to whoever asks, and to nobody else.
    let (came, at_lossy) = (player.media() - came, lossy.media() - at_lossy);
    assert_eq!(came, player.pictures().len());
    assert!(
        at_lossy > came,
        "{at_lossy} with repetitions, {came} without"
    );
}

#[test]
fn a_peer_that_reads_nothing_loses_its_own_packets_and_nobody_elses() {
    let (stage, mut publisher, mut player) = stage();
    let mut stuck = Peer::by_tcp(Kind::Receives);
    let id = stage.play(&mut stuck, "demo/anna").id;
    begin(&stage, &mut publisher, &mut player);
    until("it is counted what the stuck one loses", || {
        film(&stage, &mut publisher, &mut player);
        stage.count("tcp_dropped") >= 400
    });
    missed_nothing(&stage, &player);
    assert!(stage.gateway.describe(id).unwrap().connected);
}

#[test]
fn a_peer_that_falls_silent_costs_nobody_else_any() {
    let (stage, mut publisher, mut player) = stage();
    let mut silent = Peer::new(Kind::Receives);
    stage.play(&mut silent, "demo/anna");
    begin(&stage, &mut publisher, &mut player);
    // It neither answers nor says goodbye, and nobody listens where it was.
    drop(silent);
    for _ in 0..200 {
        film(&stage, &mut publisher, &mut player);
    }
    missed_nothing(&stage, &player);
}
