//! Ten thousand in one session.

use std::time::Instant;

use sangam_control::session::{TOLD_MAX, Told};
use sangam_session::{Answer, Input, Joining, limits};
use tokio::sync::mpsc::{self, Receiver};

use crate::stage::*;

/// As many as may be in one session.
async fn crowd(stage: &Stage) -> Vec<Receiver<Told>> {
    let mut channels = Vec::new();
    let mut joins = Vec::new();
    for number in 0..limits::MEMBERS_MAX {
        let (sessions, input) = (
            stage.sessions.clone(),
            Input::Join(Joining::named(&format!("p{number}"))),
        );
        joins.push(tokio::spawn(async move {
            sessions.input(&weekly(), input).await
        }));
        // No more at once than the server lets wait.
        if joins.len() == 1_000 {
            for join in joins.drain(..) {
                let Ok(Answer::Joined(member)) = join.await.unwrap() else {
                    panic!("one does not get in");
                };
                let (sink, told) = mpsc::channel(TOLD_MAX);
                let number = stage.sessions.connection_number();
                let connected = stage.sessions.connect(&weekly(), member, number, sink);
                connected.unwrap();
                channels.push(told);
            }
        }
    }
    channels
}

fn is_state(frame: &str) -> bool {
    frame.ends_with("\"type\":\"state\"}")
}

#[tokio::test]
async fn ten_thousand_members_hear_of_a_change_as_one_frame() {
    let stage = Stage::new();
    stage.post("/v1/sessions", WEEKLY).await;
    let mut channels = crowd(&stage).await;
    assert_eq!(channels.len(), limits::MEMBERS_MAX);
    // Who comes while something is gathered is told the state with that.
    for told in &mut channels {
        let is_state = |told: &Told| matches!(told, Told::Frame(frame) if is_state(frame));
        while !is_state(&told.recv().await.unwrap()) {}
        while told.try_recv().is_ok() {}
    }
    let seq = stage.get(PATH).await["seq"].as_u64().unwrap();
    let began = Instant::now();
    let lock = r#"{"do": "lock", "locked": true}"#;
    stage.post(&format!("{PATH}/commands"), lock).await;
    let mut first = None;
    for told in &mut channels {
        loop {
            let Some(Told::Frame(frame)) = told.recv().await else {
                continue;
            };
            if frame.contains("\"locked\"") && frame.contains(&format!("\"seq\":{}", seq + 1)) {
                // The very same bytes: written once, however many read them.
                let at = frame.as_str().as_ptr();
                assert_eq!(*first.get_or_insert(at), at);
                break;
            }
        }
    }
    let took = began.elapsed();
    eprintln!("a change reached 10,000 members after {took:?}");
}
