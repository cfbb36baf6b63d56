//! What people say of a recording while they watch it, and that it is there when others do.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "common/recorded.rs"]
mod recorded;

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use common::{Broker, Running};
use recorded::{
    NAME, PACE, PATIENCE, Take, ask, recorder, recordings, say, session, until, until_safe,
};
use serde_json::{Value, json};

/// Why a member's command is refused.
#[track_caller]
fn refusal(member: &mut Running, mut command: Value) -> String {
    command["id"] = json!(8);
    writeln!(member.child.stdin.as_mut().unwrap(), "{command}").unwrap();
    loop {
        let answer = member.json_line();
        if answer["id"] == 8 {
            assert_eq!(answer["type"], "refused", "{answer}");
            return answer["code"].as_str().unwrap().to_owned();
        }
    }
}

/// What the archive has of the only recording, once so much was said of it.
#[track_caller]
fn said(archive: &Path, wanted: usize) -> Vec<(u64, String, String)> {
    let begin = Instant::now();
    loop {
        let place = archive.display().to_string();
        let output = common::run(&["archive", "list", "--json", "--archive", &place]);
        let recording: Value = serde_json::from_slice(&output.stdout).unwrap();
        let all = recording["annotations"].as_array().unwrap();
        if all.len() >= wanted {
            return all.iter().map(place_name_text).collect();
        }
        assert!(begin.elapsed() < PATIENCE, "{recording}");
        std::thread::park_timeout(PACE);
    }
}

fn place_name_text(said: &Value) -> (u64, String, String) {
    let text = |key: &str| said[key].as_str().unwrap().to_owned();
    let place = said["position_ms"].as_u64().unwrap();
    (place, text("name"), text("text"))
}

fn annotate(text: &str, place: u64) -> Value {
    json!({ "do": "annotate", "text": text, "position_ms": place })
}

#[track_caller]
fn refuses_what_is_none(member: &mut Running) {
    for (text, place, code) in [
        ("", 0, "text"),
        (" \n", 0, "text"),
        ("a bell \u{7}", 0, "text"),
        ("turned \u{202e}", 0, "text"),
        (&"x".repeat(501), 0, "text"),
        ("behind its end", 3_600_000, "range"),
    ] {
        assert_eq!(refusal(member, annotate(text, place)), code, "{text:?}");
    }
}

#[test]
fn what_is_said_of_a_recording_becomes_part_of_it() {
    let Take {
        broker,
        folder,
        recorder: first,
        mut member,
        mut sound,
        sender: _sender,
    } = Take::begin();
    until_safe(&broker, &mut sound);
    ask(&broker, &json!({ "do": "record", "on": false }));
    let list = recordings(&broker, 1);
    let watch = json!({ "do": "replay", "recording": list[0]["id"] });
    let annotate =
        |text: &str, place: u64| json!({ "do": "annotate", "text": text, "position_ms": place });
    assert_eq!(refusal(&mut member, annotate("too early", 0)), "range");
    ask(&broker, &watch);
    let is_found = |shown: &Value| shown["replay"]["length_ms"].is_u64();
    until(&broker, &mut sound, is_found);

    refuses_what_is_none(&mut member);
    let nobody = annotate("by nobody", 0).to_string();
    assert!(common::session(&broker, &["do", NAME, &nobody]).is_err());
    say(&mut member, annotate("and this?", 900));
    say(&mut member, annotate("look <here> & there", 300));
    let wanted = [(300, "look <here> & there"), (900, "and this?")];
    let wanted = wanted.map(|(place, text)| (place, "anna".to_owned(), text.to_owned()));
    let shown = |shown: &Value| -> Vec<_> {
        let all = shown["annotations"].as_array();
        all.into_iter().flatten().map(place_name_text).collect()
    };
    assert_eq!(shown(&session(&broker, &["show", NAME])), wanted);
    // What the archive has once no crash takes away.
    assert_eq!(said(folder.path(), 2), wanted);
    // And what a recorder has not written down yet waits for the next one.
    first.signal("STOP");
    say(&mut member, annotate("to nobody so far", 600));
    first.signal("KILL");
    assert_eq!(said(folder.path(), 2), wanted);
    until(&broker, &mut sound, |shown| shown["replay"].is_null());

    let second = recorder(&broker, folder.path());
    let begin = Instant::now();
    while recordings(&broker, 1)[0]["annotations"] != 3 {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::park_timeout(PACE);
    }
    ask(&broker, &watch);
    let again = until(&broker, &mut sound, |now| shown(now).len() == 3);
    let [first, last] = wanted;
    let late = (600, "anna".to_owned(), "to nobody so far".to_owned());
    assert_eq!(shown(&again), [first, late, last]);
    ask(&broker, &json!({ "do": "stop" }));
    second.signal("INT");
    assert_eq!(second.end().0, 0);
    goes_with_the_recording(&broker, folder.path());
}

/// Subtitles beside a film, and events of a replay.
#[track_caller]
fn goes_with_the_recording(broker: &Broker, archive: &Path) {
    let place = archive.display().to_string();
    let file = archive.join("said.vtt").display().to_string();
    let export = ["archive", "export", NAME, "--out", &file];
    let exported = common::run(&[&export[..], &["--archive", &place]].concat());
    assert!(exported.status.success(), "{exported:?}");
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "WEBVTT\n\n00:00:00.300 --> 00:00:05.300\n<v anna>look &lt;here&gt; &amp; there</v>\n\n\
         00:00:00.600 --> 00:00:05.600\n<v anna>to nobody so far</v>\n\n\
         00:00:00.900 --> 00:00:05.900\n<v anna>and this?</v>\n"
    );
    let to = broker.udp.to_string();
    let replay = ["replay", NAME, "--below", "again", "--to", &to];
    let replayed = common::run(&[&replay[..], &["--archive", &place]].concat());
    assert!(replayed.status.success(), "{replayed:?}");
    let topic = format!("again/{NAME}/service/annotations");
    let play = ["play", "--reliable", "--topic", &topic, "--from", &to];
    let rest = ["--replay", "100", "--events", "3", "--seconds", "30"];
    let played = common::run(&[&play[..], &rest].concat());
    let lines = common::text(&played.stdout);
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let places: Vec<_> = lines.map(|one| place_name_text(&one).0).collect();
    assert_eq!(places, [300, 600, 900]);
}
