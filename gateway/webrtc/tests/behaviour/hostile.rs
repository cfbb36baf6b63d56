//! What comes from those who mean no good, or do not know better.

use std::net::UdpSocket;
use std::time::Duration;

use sangam_model::{Filter, Topic};
use sangam_webrtc::{JoinError, OfferError, Settings, Wish};

use crate::peer::{Kind, Peer};
use crate::stage::{Stage, settings, until};

fn publish() -> Wish {
    Wish::Publish(Topic::new("demo/anna").unwrap())
}

#[test]
fn offers_that_are_none_are_refused_and_leave_nothing() {
    let stage = Stage::new();
    let good = Peer::new(Kind::Sends).offer();
    let cut = &good[..good.len() / 2];
    let bare = good.replace("a=fingerprint", "a=finger");
    let open = good.replace("a=ice-pwd", "a=ice-pw");
    let long = format!("{good}a={}\r\n", "x".repeat(70_000));
    for offer in ["", "v=0\r\n", "\0\0\0", "m=audio", &bare, &open, &long] {
        let refused = stage.join(publish(), offer);
        assert!(matches!(refused, Err(JoinError::Offer(_))), "{refused:?}");
    }
    // Half an offer may be a whole one with less in it, or none.
    let _ = stage.join(publish(), cut);
    for cut in (0..good.len()).step_by(97) {
        let broken = good.get(..cut).unwrap_or_default();
        if let Ok(joined) = stage.join(publish(), broken) {
            stage.gateway.leave(joined.id).unwrap();
        }
    }
    until("nobody is left", || stage.gateway.peers() <= 1);
}

#[test]
fn offers_over_which_the_library_would_panic_keep_no_place() {
    let few = Settings {
        peers_max: 1,
        ..settings()
    };
    let stage = Stage::with(1, &[], few);
    let good = Peer::new(Kind::Receives).offer();
    let play = |offer: &str| stage.join(Wish::Play(Filter::new("demo/anna").unwrap()), offer);
    let vp8 = "a=rtpmap:96 VP8/90000\r\n";
    // One encoding under two numbers: the library claims one of them twice.
    let twice = format!("a=rtpmap:98 VP8/90000\r\n{vp8}");
    let twice = good.replace(" 96 97", " 96 98 97").replace(vp8, &twice);
    let refused = play(&twice);
    let ambiguous = matches!(refused, Err(JoinError::Offer(OfferError::Ambiguous(_))));
    assert!(ambiguous, "{refused:?}");
    // 97 repeats VP8 and is VP9 as well, but stands in no m=: there only the library looks at it.
    let hidden = format!("{vp8}a=rtpmap:98 VP9/90000\r\na=rtpmap:97 VP9/90000\r\n");
    let hidden = good.replace(" 96 97", " 96 98").replace(vp8, &hidden);
    for _ in 0..3 {
        let refused = play(&hidden);
        let caught = OfferError::Unreadable("it contradicts itself".to_owned());
        assert_eq!(refused, Err(JoinError::Offer(caught)));
    }
    assert_eq!((stage.gateway.peers(), stage.count("refused")), (0, 4));
    assert!(play(&good).is_ok(), "there is still a place");
}

#[test]
fn a_flood_of_whatever_is_counted_and_harms_nobody() {
    let stage = Stage::new();
    let (mut publisher, mut player) = (Peer::new(Kind::Sends), Peer::new(Kind::Receives));
    stage.publish(&mut publisher, "demo/anna");
    let joined = stage.play(&mut player, "demo/anna");
    let bad = UdpSocket::bind("127.0.0.1:0").unwrap();
    bad.connect(stage.address()).unwrap();
    // STUN to a peer that exists, signed by nobody; to one that does not; DTLS; RTP; nonsense.
    let request = |name: &str| {
        let mut bytes = vec![0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42];
        bytes.extend([9; 12]);
        bytes.extend([0, 6, 0, name.len() as u8]);
        bytes.extend(name.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let len = (bytes.len() - 20) as u16;
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        bytes
    };
    let unsigned = request(&format!("{}:abcd", joined.generation));
    let nobody = request("AAAAAAAAAAAA:abcd");
    let elsewhere = request("zAAAAAAAAAAA:abcd");
    let dtls = [
        22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9,
    ];
    let rtp = [0x80; 40];
    for _ in 0..200 {
        for bytes in [
            &unsigned[..],
            &nobody,
            &elsewhere,
            &dtls,
            &rtp,
            &[],
            &[77; 9],
            &[0; 20],
        ] {
            let _ = bad.send(bytes);
        }
    }
    player.until_with(
        "pictures",
        |player| player.pictures().len() >= 20,
        || {
            publisher.show(true);
        },
    );
    until("unsigned names are counted", || {
        stage.count("unknown_name") >= 100
    });
    until("strangers are counted", || stage.count("strangers") >= 100);
    until("nonsense is counted", || stage.count("malformed") >= 50);
    assert_eq!(stage.gateway.peers(), 2);
}

#[test]
fn what_is_written_to_data_channels_is_dropped_and_media_go_on() {
    let stage = Stage::new();
    let (mut publisher, mut player) = (Peer::new(Kind::Sends), Peer::new(Kind::Receives));
    stage.publish(&mut publisher, "demo/anna");
    stage.play(&mut player, "demo/anna");
    let mut written = 0;
    player.until_with(
        "pictures",
        |player| player.pictures().len() >= 40 && stage.count("channel_data") >= 100,
        || {
            while publisher.write_data(&[b'{'; 9_000]) {
                written += 1;
            }
            publisher.show(true);
        },
    );
    assert!(written >= 100, "{written}");
    assert_eq!(stage.gateway.peers(), 2);
}

#[test]
fn a_peer_that_never_connects_is_forgotten() {
    let soon = Settings {
        connect_within: Duration::from_millis(100),
        ..settings()
    };
    let stage = Stage::with(1, &[], soon);
    let joined = stage
        .join(publish(), &Peer::new(Kind::Sends).offer())
        .unwrap();
    until("it is given up", || stage.count("unconnected") == 1);
    assert!(stage.gateway.describe(joined.id).is_err());
    until("its streams are gone", || stage.broker.streams().is_empty());
    assert_eq!(stage.gateway.peers(), 0);
}

#[test]
fn beyond_its_bound_the_gateway_takes_nobody() {
    let few = Settings {
        peers_max: 2,
        ..settings()
    };
    let stage = Stage::with(1, &[], few);
    let offer = Peer::new(Kind::Receives).offer();
    let play = || Wish::Play(Filter::new("demo/anna").unwrap());
    let first = stage.join(play(), &offer).unwrap();
    stage.join(play(), &offer).unwrap();
    assert_eq!(stage.join(play(), &offer), Err(JoinError::Full));
    stage.gateway.leave(first.id).unwrap();
    assert!(stage.join(play(), &offer).is_ok());
}

#[test]
fn topics_that_cannot_be_are_refused() {
    let stage = Stage::new();
    let offer = Peer::new(Kind::Sends).offer();
    let deep = Topic::new(&["a"; 16].join("/")).unwrap();
    assert!(stage.join(Wish::Publish(deep), &offer).is_err());
    let system = Topic::new("$sangam/monitor/x").unwrap();
    let refused = stage.join(Wish::Publish(system), &offer);
    assert!(matches!(refused, Err(JoinError::Refused(_))), "{refused:?}");
    until("nobody is left", || stage.gateway.peers() == 0);
}
