//! Recorders: what they are told, and what becomes of what they say.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use sangam_control::session::shapes::find;
use sangam_control::session::xml;
use sangam_session::{Input, Joining, Role};
use serde_json::{Value, json};

use crate::documents::complaint;
use crate::stage::*;

const BEAT: &str = "/v1/recorders/archive-1";
const ANNA: &str = r#"acme:anna:{"room": "weekly", "roomJoin": true}"#;
const CHAIR: &str = r#"acme:chair:{"room": "weekly", "roomJoin": true, "roomAdmin": true}"#;

async fn beat(stage: &Stage, body: Value) -> Value {
    let answer = stage
        .ask(("PUT", BEAT), JSON, (None, &body.to_string()))
        .await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer.json()
}

async fn command(stage: &Stage, token: Option<&str>, body: Value) -> Answer {
    let path = format!("{PATH}/commands");
    stage
        .ask(("POST", &path), JSON, (token, &body.to_string()))
        .await
}

async fn join(stage: &Stage, name: &str, role: Role) {
    let joining = Joining {
        role,
        ..Joining::named(name)
    };
    stage
        .sessions
        .input(&weekly(), Input::Join(joining))
        .await
        .unwrap();
}

/// What a recorder says that is idle and has one recording of the session.
fn idle() -> Value {
    json!({ "places": 4, "lists": true, "recordings": [recording("00ff")] })
}

fn recording(id: &str) -> Value {
    json!({
        "id": id, "tenant": "acme", "name": "weekly", "begin_ms": 1_000, "length_ms": 60_000,
        "over": true, "annotations": 3,
    })
}

fn following(after: u64, begun: bool) -> Value {
    json!({ "tenant": "acme", "name": "weekly", "after": after, "begun": begun })
}

#[tokio::test]
async fn a_recorder_is_told_what_to_record_and_what_happens_there() {
    let stage = Stage::new();
    stage.post("/v1/sessions", WEEKLY).await;
    join(&stage, "anna", Role::Participant).await;
    join(&stage, "bert", Role::Participant).await;
    let work = beat(&stage, idle()).await;
    assert_eq!(
        (&work["records"], &work["listed"]),
        (&json!([]), &json!(true))
    );
    let refused = command(&stage, Some(ANNA), json!({ "do": "record", "on": true })).await;
    assert_eq!(refused.json()["code"], "forbidden");
    let done = command(&stage, Some(CHAIR), json!({ "do": "record", "on": true })).await;
    assert_eq!(done.status, StatusCode::OK, "{done:?}");

    let work = beat(&stage, json!({ "places": 0 })).await;
    assert_eq!(work["records"], json!([]), "it has no place");
    let work = beat(&stage, json!({ "places": 1 })).await;
    let task = &work["records"][0];
    assert_eq!(task["session"]["members"][0]["name"], "anna");
    let after = task["after"].as_u64().unwrap();
    let shown = stage.get(PATH).await;
    assert_eq!(
        shown["services"],
        json!([{ "name": "recorder", "ready": false }])
    );

    command(
        &stage,
        Some(ANNA),
        json!({ "do": "chat", "text": "to all" }),
    )
    .await;
    let whisper = json!({ "do": "chat", "text": "a secret", "to": "m2" });
    assert_eq!(
        command(&stage, Some(ANNA), whisper).await.status,
        StatusCode::OK
    );
    let records = json!({ "places": 1, "records": [following(after, true)] });
    let work = beat(&stage, records).await;
    let told = work["records"][0]["events"].to_string();
    assert!(
        told.contains("to all") && !told.contains("secret"),
        "{told}"
    );
    let shown = stage.get(PATH).await;
    assert_eq!(
        shown["services"],
        json!([{ "name": "recorder", "ready": true }])
    );
    assert!(shown["recording"]["since_ms"].is_u64());

    let other = json!({ "places": 9, "records": [following(after, true)] });
    let path = ("PUT", "/v1/recorders/archive-2");
    let other = stage.ask(path, JSON, (None, &other.to_string())).await;
    assert_eq!(other.json()["records"], json!([]), "one is enough");
    command(&stage, None, json!({ "do": "record", "on": false })).await;
    let records = json!({ "places": 1, "records": [following(after, true)] });
    assert_eq!(beat(&stage, records).await["records"], json!([]));
    assert_eq!(stage.get(PATH).await["services"], Value::Null);
}

#[tokio::test]
async fn news_are_told_at_once_and_silence_within_a_second() {
    let stage = Stage::new();
    stage.post("/v1/sessions", WEEKLY).await;
    let known = beat(&stage, idle()).await["revision"].clone();
    let began = Instant::now();
    let work = beat(&stage, json!({ "places": 1, "known": known })).await;
    assert_eq!(work["revision"], known, "nothing is new");
    assert!(began.elapsed() >= Duration::from_millis(900));
    let asked = beat(&stage, json!({ "places": 1, "known": known }));
    let wanted = command(&stage, None, json!({ "do": "record", "on": true }));
    let (work, _) = tokio::join!(asked, wanted);
    assert_ne!(work["revision"], known);
    assert_eq!(work["records"][0]["name"], "weekly");
}

#[tokio::test]
async fn a_recording_is_watched_by_those_of_its_session() {
    let stage = Stage::new();
    stage.post("/v1/sessions", WEEKLY).await;
    let daily = WEEKLY.replace("weekly", "daily");
    stage.post("/v1/sessions", &daily).await;
    beat(&stage, idle()).await;
    let path = format!("{PATH}/recordings");
    let list = stage.ask(("GET", &path), JSON, (Some(ANNA), "")).await;
    assert_eq!(list.json(), json!({ "recordings": [recording("00ff")] }));
    assert_eq!(
        stage.get("/v1/sessions/acme/daily/recordings").await,
        json!({ "recordings": [] })
    );
    let stranger = r#"acme:x:{"room": "daily", "roomJoin": true}"#;
    let refused = stage.ask(("GET", &path), JSON, (Some(stranger), "")).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);

    let watch = |id: &str| json!({ "do": "replay", "recording": id });
    let unknown = command(&stage, None, watch("00fe")).await;
    assert_eq!(
        (unknown.status, &unknown.json()["code"]),
        (StatusCode::NOT_FOUND, &json!("no_recording"))
    );
    let elsewhere = "/v1/sessions/acme/daily/commands";
    let elsewhere = stage.post(elsewhere, &watch("00ff").to_string()).await;
    assert_eq!(
        elsewhere.json()["code"],
        "no_recording",
        "of another session"
    );
    assert_eq!(
        command(&stage, None, watch("00ff")).await.status,
        StatusCode::OK
    );
}

/// What a recorder has to replay, as it begins.
async fn first_replay(stage: &Stage) -> Value {
    stage.post("/v1/sessions", WEEKLY).await;
    beat(stage, idle()).await;
    let watch = json!({ "do": "replay", "recording": "00ff" });
    let asked = command(stage, None, watch).await;
    assert_eq!(asked.status, StatusCode::OK);
    let work = beat(stage, json!({ "places": 0 })).await;
    work["replays"][0]["replay"].clone()
}

#[tokio::test]
async fn a_recording_is_watched_together() {
    let stage = Stage::new();
    let replay = first_replay(&stage).await;
    assert_eq!(
        (&replay["recording"], &replay["room"]),
        (&json!("00ff"), &json!("main"))
    );
    let people = json!([{ "source": "m7", "name": "Ada", "media": ["audio", "video"] }]);
    let found = json!({
        "tenant": "acme", "name": "weekly", "order": replay["order"], "length_ms": 60_000,
        "people": people,
    });
    let work = beat(&stage, json!({ "places": 0, "replays": [found] })).await;
    let played = &work["replays"][0]["replay"]["people"][0];
    assert_eq!(played["source"], "m7");
    let member = played["member"].as_str().unwrap();
    assert_eq!(stage.open_to("acme/weekly/main/video"), [member]);

    for (token, command_of, code) in [
        (ANNA, json!({ "do": "stop" }), "not_here"),
        (
            CHAIR,
            json!({ "do": "play", "playing": true, "position_ms": 60_001 }),
            "range",
        ),
    ] {
        let answer = command(&stage, Some(token), command_of).await;
        assert_eq!(answer.json()["code"], code);
    }
    let pause = json!({ "do": "play", "playing": false, "position_ms": 5_000 });
    assert_eq!(
        command(&stage, Some(CHAIR), pause).await.status,
        StatusCode::OK
    );
    let work = beat(&stage, json!({ "places": 0 })).await;
    let replay = &work["replays"][0]["replay"];
    assert_eq!(
        (&replay["playing"], &replay["position_ms"]),
        (&json!(false), &json!(5_000))
    );
    command(&stage, None, json!({ "do": "stop" })).await;
    assert_eq!(stage.open_to("acme/weekly/main/video"), [""; 0]);
    assert_eq!(
        beat(&stage, json!({ "places": 0 })).await["replays"],
        json!([])
    );
}

#[tokio::test]
async fn what_recorders_say_and_hear_is_the_same_in_xml() {
    let stage = Stage::new();
    stage.post("/v1/sessions", WEEKLY).await;
    join(&stage, "anna", Role::Participant).await;
    command(&stage, None, json!({ "do": "record", "on": true })).await;
    let said = format!(
        "<beat xmlns=\"{}\" places=\"1\" lists=\"true\"><recording id=\"00ff\" tenant=\"acme\" \
         name=\"weekly\" begin_ms=\"1000\" length_ms=\"60000\" over=\"true\"/></beat>",
        xml::NAMESPACE
    );
    assert_eq!(complaint(&said), None);
    let work = stage.ask(("PUT", BEAT), XML, (None, &said)).await;
    assert_eq!(work.status, StatusCode::OK, "{work:?}");
    assert_eq!(complaint(&work.text), None, "{}", work.text);
    let (_, read) = xml::read(&[find("work").unwrap()], &work.text).unwrap();
    assert_eq!(read["records"][0]["session"]["members"][0]["name"], "anna");
    command(&stage, None, json!({ "do": "replay", "recording": "00ff" })).await;
    for (path, shape) in [
        (PATH.to_owned(), "session"),
        (format!("{PATH}/recordings"), "recordings"),
        (format!("{PATH}/events"), "events"),
    ] {
        let written = stage.ask(("GET", &path), XML, (None, "")).await;
        assert_eq!(complaint(&written.text), None, "{}", written.text);
        assert!(xml::read(&[find(shape).unwrap()], &written.text).is_ok());
    }
}

#[tokio::test]
async fn nobody_else_is_a_recorder_and_what_makes_no_sense_is_refused() {
    let stage = Stage::new();
    stage.post("/v1/sessions", WEEKLY).await;
    let chair = stage
        .ask(("PUT", BEAT), JSON, (Some(CHAIR), r#"{"places": 1}"#))
        .await;
    assert_eq!(chair.status, StatusCode::FORBIDDEN, "{chair:?}");
    let many: Vec<_> = (0..501).map(|n| recording(&format!("{n:x}"))).collect();
    let mut odd = recording("00ff");
    odd["tenant"] = json!("a/b");
    for body in [
        json!({}),
        json!({ "places": -1 }),
        json!({ "places": 1, "colour": "red" }),
        json!({ "places": 1, "lists": true, "recordings": many }),
        json!({ "places": 1, "lists": true, "recordings": [odd] }),
        json!({ "places": 1, "replays": [{ "tenant": "acme", "name": "weekly" }] }),
        json!({ "places": 1, "records": vec![following(0, false); 65] }),
    ] {
        let answer = stage
            .ask(("PUT", BEAT), JSON, (None, &body.to_string()))
            .await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}: {answer:?}");
    }
    let huge = format!("{{\"places\": 1, \"x\": \"{}\"}}", "x".repeat(300_000));
    let answer = stage.ask(("PUT", BEAT), JSON, (None, &huge)).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    let odd = ("PUT", "/v1/recorders/an%20archive");
    let answer = stage.ask(odd, JSON, (None, r#"{"places": 1}"#)).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{answer:?}");
}
