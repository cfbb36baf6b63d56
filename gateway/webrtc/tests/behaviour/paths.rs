//! Ways between peer and broker that are not a quiet pair of UDP ports.

use sangam_webrtc::JoinError;

use crate::peer::{Kind, Peer};
use crate::stage::Stage;

fn watch(publisher: &mut Peer, player: &mut Peer, pictures: usize) {
    let wanted = player.pictures().len() + pictures;
    player.until_with(
        "pictures",
        |player| player.pictures().len() >= wanted,
        || {
            publisher.show(true);
        },
    );
}

/// What a browser sends of an offer that starts ICE anew.
fn credentials(offer: &str) -> String {
    let line = |name: &str| {
        let found = offer.lines().find(|line| line.starts_with(name));
        found.unwrap().to_owned() + "\r\n"
    };
    line("a=ice-ufrag:") + &line("a=ice-pwd:")
}

#[test]
fn tcp_serves_where_udp_does_not_pass() {
    let stage = Stage::new();
    let mut players: Vec<Peer> = (0..3).map(|_| Peer::by_tcp(Kind::Receives)).collect();
    let mut publisher = Peer::by_tcp(Kind::Sends);
    stage.publish(&mut publisher, "demo/anna");
    for player in &mut players {
        stage.play(player, "demo/anna");
    }
    for player in &mut players {
        watch(&mut publisher, player, 10);
    }
    assert_eq!(stage.count("tcp_accepted"), 4);
}

#[test]
fn shards_pass_on_what_belongs_to_others() {
    let stage = Stage::new();
    let mut publisher = Peer::new(Kind::Sends);
    stage.publish(&mut publisher, "demo/anna");
    let mut players: Vec<Peer> = (0..6).map(|_| Peer::new(Kind::Receives)).collect();
    for player in &mut players {
        stage.play(player, "demo/anna");
        watch(&mut publisher, player, 3);
    }
    // Of seven peers in three shards the kernel gives few to their own.
    assert!(stage.count("forwarded") > 0);
    assert_eq!(stage.count("overflow"), 0);
}

#[test]
fn a_peer_that_changes_its_network_goes_on() {
    let stage = Stage::new();
    let mut publisher = Peer::new(Kind::Sends);
    stage.publish(&mut publisher, "demo/anna");
    let mut player = Peer::new(Kind::Receives);
    let joined = stage.play(&mut player, "demo/anna");
    watch(&mut publisher, &mut player, 5);

    let fragment = credentials(&player.move_away());
    let restarted = stage.gateway.patch(joined.id, &fragment).unwrap().unwrap();
    assert_ne!(restarted.generation, joined.generation);
    player.moved(&joined.answer, &restarted.answer);
    watch(&mut publisher, &mut player, 20);
    assert_eq!(stage.count("restarted"), 1);
    assert_eq!(stage.count("connected"), 2, "DTLS goes on as it was");
}

/// Pictures that were sent into a cut network are gone, and those behind build on them.
#[test]
fn after_a_cut_key_frames_are_asked_for_in_both_directions() {
    let stage = Stage::new();
    let mut publisher = Peer::new(Kind::Sends);
    let published = stage.publish(&mut publisher, "demo/anna");
    let asked = |publisher: &mut Peer| {
        let before = publisher.key_requests;
        publisher.until("a key frame is asked for", |one| one.key_requests > before);
    };
    // Nobody plays it.
    let fragment = credentials(&publisher.move_away());
    let restarted = stage
        .gateway
        .patch(published.id, &fragment)
        .unwrap()
        .unwrap();
    publisher.moved(&published.answer, &restarted.answer);
    asked(&mut publisher);

    let mut player = Peer::new(Kind::Receives);
    let joined = stage.play(&mut player, "demo/anna");
    watch(&mut publisher, &mut player, 5);
    let fragment = credentials(&player.move_away());
    let restarted = stage.gateway.patch(joined.id, &fragment).unwrap().unwrap();
    asked(&mut publisher);
    // Once more, in case the first was of no use.
    asked(&mut publisher);
    player.moved(&joined.answer, &restarted.answer);
    watch(&mut publisher, &mut player, 5);
}

#[test]
fn late_candidates_are_taken_and_change_nothing() {
    let stage = Stage::new();
    let mut player = Peer::new(Kind::Receives);
    let joined = stage.play(&mut player, "demo/anna");
    let late = "a=mid:0\r\na=candidate:1 1 udp 2122260223 192.0.2.1 61764 typ host\r\n";
    assert_eq!(stage.gateway.patch(joined.id, late), Ok(None));
}

/// Candidates of others, of nobody and in any number: the peer is where its checks come from.
#[test]
fn malformed_and_foreign_candidates_harm_no_peer() {
    let stage = Stage::new();
    let mut publisher = Peer::new(Kind::Sends);
    let published = stage.publish(&mut publisher, "demo/anna");
    let mut player = Peer::new(Kind::Receives);
    let joined = stage.play(&mut player, "demo/anna");
    watch(&mut publisher, &mut player, 5);
    let pass = "a=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1";
    let long = format!("a=ice-ufrag:{}\r\n{pass}\r\n", "x".repeat(300));
    for rubbish in [
        "",
        "v=0\r\n",
        "\0\0\u{202e}",
        "a=candidate:",
        "a=candidate:1 1 udp 2122260223 192.0.2.1 99999 typ host",
        "a=candidate:1 1 udp 99999999999999999999 192.0.2.1 1 typ host",
        "a=candidate:1 1 udp 1 192.0.2.1.5 1 typ host",
        "a=candidate:1 1 udp 1 192.0.2.1 1 typ nothing",
        "a=ice-ufrag:abcd\r\n",
        &format!("a=ice-ufrag:ab\r\n{pass}\r\n"),
        &format!("a=ice-ufrag:a b c d\r\n{pass}\r\n"),
        &long,
    ] {
        let refused = stage.gateway.patch(joined.id, rubbish);
        assert_eq!(refused, Err(JoinError::Fragment), "{rubbish:?}");
    }
    let long = "a=candidate:1 1 udp 1 192.0.2.1 1 typ host\r\n".repeat(1_000);
    let refused = stage.gateway.patch(joined.id, &long);
    assert_eq!(refused, Err(JoinError::TooLong));
    // More than are taken of a peer, all of them well made.
    for round in 0..100 {
        let line = |n| {
            format!(
                "a=candidate:{n} 1 udp 1 198.51.100.{round} {} typ host\r\n",
                1_000 + n
            )
        };
        let many: String = (1..=32).map(line).collect();
        for id in [joined.id, published.id] {
            assert_eq!(stage.gateway.patch(id, &many), Ok(None));
        }
    }
    watch(&mut publisher, &mut player, 20);
    assert_eq!(stage.gateway.peers(), 2);
    // And it may still move.
    let fragment = credentials(&player.move_away());
    let restarted = stage.gateway.patch(joined.id, &fragment).unwrap().unwrap();
    player.moved(&joined.answer, &restarted.answer);
    watch(&mut publisher, &mut player, 5);
}
