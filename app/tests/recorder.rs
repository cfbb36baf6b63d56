//! Sessions recorded by recorders that come and go, and watched again.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "common/drawing.rs"]
mod drawing;
#[path = "common/recorded.rs"]
mod recorded;

use std::path::Path;
use std::time::Instant;

use common::Broker;
use drawing::Page;
use recorded::{
    NAME, PACE, PATIENCE, Take, ask, client, is_recorded, recorder, recordings, say, session,
    until, until_safe,
};
use sangam_archive::Archive;
use sangam_client::{Client, Received, ReliableEvent};
use sangam_model::{Filter, Topic};
use sangam_wire::Event;
use serde_json::json;

/// The topic on which this comes.
#[track_caller]
fn comes(client: &mut Client, payload: &[u8]) -> String {
    let begin = Instant::now();
    let mut topics = Vec::new();
    while begin.elapsed() < PATIENCE {
        match client.recv(PACE) {
            Some(Received::Announce { stream, topic, .. }) => topics.push((stream, topic)),
            Some(Received::Event(packet)) => {
                let event = Event::decode(&packet).unwrap();
                let stream = event.header.stream;
                let topic = topics.iter().find(|(known, _)| *known == stream);
                if event.payload == payload
                    && let Some((_, topic)) = topic
                {
                    return topic.to_string();
                }
            }
            _ => {}
        }
    }
    panic!("nothing comes on {topics:?}");
}

#[test]
fn a_recorder_that_is_killed_is_missed_and_another_goes_on() {
    let Take {
        broker,
        folder,
        recorder: first,
        mut member,
        mut sound,
        sender: _sender,
    } = Take::begin();
    until_safe(&broker, &mut sound);
    first.signal("KILL");
    let missed = until(&broker, &mut sound, |shown| !is_recorded(shown));
    assert!(
        missed["recording"].is_object(),
        "it is wanted still: {missed}"
    );
    let second = recorder(&broker, folder.path());
    until(&broker, &mut sound, is_recorded);
    say(
        &mut member,
        json!({ "do": "chat", "text": "remember this" }),
    );
    until_safe(&broker, &mut sound);
    ask(&broker, &json!({ "do": "record", "on": false }));
    let list = recordings(&broker, 2);
    assert_eq!(
        (&list[0]["over"], &list[1]["over"]),
        (&json!(false), &json!(true)),
        "{list:?}"
    );
    drop(sound);

    let mut viewer = client(&broker);
    viewer
        .subscribe(&Filter::new(&format!("{NAME}/main/audio/#")).unwrap())
        .unwrap();
    ask(
        &broker,
        &json!({ "do": "replay", "recording": list[1]["id"] }),
    );
    assert_eq!(
        comes(&mut viewer, b"a packet of sound"),
        format!("{NAME}/main/audio/m2")
    );
    let begin = Instant::now();
    let shown = loop {
        let shown = session(&broker, &["show", NAME]);
        if shown["chat"].as_array().unwrap().len() == 2 {
            break shown;
        }
        assert!(begin.elapsed() < PATIENCE, "{shown}");
        std::thread::park_timeout(PACE);
    };
    assert_eq!(
        (&shown["chat"][1]["from"], &shown["chat"][1]["text"]),
        (&json!("m2"), &json!("remember this"))
    );
    ask(&broker, &json!({ "do": "stop" }));
    second.signal("INT");
    assert_eq!(second.end().0, 0);
}

/// When each event of the board came, in milliseconds since the begin of the only recording.
fn drawn(archive: &Path) -> Vec<u64> {
    let archive = Archive::new(archive);
    let recording = archive.recordings().unwrap().pop().unwrap();
    let mut tracks = recording.tracks.iter();
    let board = tracks.position(|track| track.info.topic.as_str().ends_with("/main/board"));
    let mut times = Vec::new();
    let read = recording.read(&archive.reader(), |track, record| {
        if Some(track) == board {
            times.push((record.time - recording.begin) / 1_000_000);
        }
        true
    });
    read.unwrap();
    times
}

/// Goes to a place in what is replayed, without playing; the number of that order.
#[track_caller]
fn go(broker: &Broker, position_ms: u64) -> u64 {
    ask(
        broker,
        &json!({ "do": "play", "playing": false, "position_ms": position_ms }),
    );
    let shown = session(broker, &["show", NAME]);
    shown["replay"]["order"].as_u64().unwrap()
}

/// So many events of what was drawn, whatever else is said between them.
#[track_caller]
fn strokes(page: &mut Page, wanted: usize) -> Vec<Vec<u8>> {
    let mut events = Vec::new();
    while events.len() < wanted {
        let message = page.next();
        if message.is_binary() {
            events.push(message.into_data().to_vec());
        }
    }
    events
}

/// What comes on the topic of the replayed board, by the order in front of it, until this event of
/// this order has come.
#[track_caller]
fn turns(viewer: &mut Client, last: (u64, &[u8])) -> Vec<(u64, Vec<u8>)> {
    let begin = Instant::now();
    let mut all: Vec<(u64, Vec<u8>)> = Vec::new();
    while all.last().map(|(order, event)| (*order, &event[..])) != Some(last) {
        assert!(begin.elapsed() < PATIENCE, "{all:?}");
        if let Some(Received::Reliable(ReliableEvent::Received { payload, .. })) = viewer.recv(PACE)
        {
            let order = u64::from_be_bytes(payload[8..16].try_into().unwrap());
            all.push((order, payload[16..].to_vec()));
        }
    }
    all
}

#[test]
fn what_was_drawn_comes_at_its_moment_and_a_seek_shows_the_board_of_then() {
    let Take {
        broker,
        folder,
        recorder,
        mut member,
        mut sound,
        sender: _sender,
    } = Take::begin();
    say(&mut member, json!({ "do": "request", "medium": "board" }));
    let mut ours = Page::open(&broker, "m1");
    ours.live();
    for stroke in [&b"one"[..], b"two"] {
        ours.draw(stroke);
        assert_eq!(ours.event(), stroke);
        until_safe(&broker, &mut sound);
    }
    ask(&broker, &json!({ "do": "record", "on": false }));
    let list = recordings(&broker, 1);
    let [one, two] = drawn(folder.path())[..] else {
        panic!("not two strokes")
    };

    let mut viewer = client(&broker);
    let topic = Topic::new(&format!("{NAME}/main/replay")).unwrap();
    viewer.subscribe_reliable(&topic, u32::MAX).unwrap();
    ask(
        &broker,
        &json!({ "do": "replay", "recording": list[0]["id"] }),
    );
    let shown = until(&broker, &mut sound, |shown| {
        shown["replay"]["length_ms"].is_u64()
    });
    let number = |key: &str| shown["replay"][key].as_u64().unwrap();
    let (since, first, length) = (number("since_ms"), number("order"), number("length_ms"));
    let open = |order| Page::greet(&broker, &format!("{NAME}/main/m1/{since}/{order}"));
    let (mut past, word) = open(first);
    assert_eq!(
        (&word["type"], &word["draws"]),
        (&json!("open"), &json!(false))
    );
    assert_eq!(strokes(&mut past, 2), [b"one", b"two"]);
    // Nobody draws there, and what people draw is theirs.
    past.draw(b"mine");
    while past.word()["code"] != "floor" {}
    ours.draw(b"three");
    assert_eq!(ours.event(), b"three");

    let back = go(&broker, one.midpoint(two));
    assert_eq!(strokes(&mut open(back).0, 1), [b"one"]);
    let forth = go(&broker, length);
    assert_eq!(strokes(&mut open(forth).0, 2), [b"one", b"two"]);
    let all = turns(&mut viewer, (forth, b"two"));
    let of = |order| {
        let of = all.iter().filter(|(turn, _)| *turn == order);
        of.map(|(_, event)| &event[..]).collect::<Vec<_>>()
    };
    assert_eq!(of(first), [b"one", b"two"]);
    assert_eq!(of(back), [b"one"]);
    assert_eq!(of(forth), [b"one", b"two"]);
    assert!(Page::dial(broker.http, "acme/weekly/main/m1/-1/7", None).is_err());
    recorder.signal("INT");
    assert_eq!(recorder.end().0, 0);
}
