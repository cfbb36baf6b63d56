//! What the API answers, and to whom.

use axum::http::StatusCode;
use sangam_session::{Input, Joining};
use serde_json::json;

use crate::stage::*;

const ANNA: &str = r#"acme:anna:{"room": "weekly", "roomJoin": true}"#;
const CHAIR: &str = r#"acme:chair:{"room": "weekly", "roomJoin": true, "roomAdmin": true}"#;

async fn command(stage: &Stage, token: Option<&str>, body: &str) -> Answer {
    let path = format!("{PATH}/commands");
    stage.ask(("POST", &path), JSON, (token, body)).await
}

#[tokio::test]
async fn a_session_is_made_led_finished_and_forgotten() {
    let stage = Stage::new();
    let made = stage.post("/v1/sessions", WEEKLY).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    assert_eq!(made.json()["state"], "activated");
    let again = stage.post("/v1/sessions", WEEKLY).await;
    assert_eq!(
        (again.status, &again.json()["code"]),
        (StatusCode::CONFLICT, &json!("exists"))
    );
    assert_eq!(
        stage.get("/v1/sessions").await["sessions"][0]["title"],
        "Weekly"
    );
    assert_eq!(stage.open_to("acme/weekly"), ["main", "service"]);

    let early = stage.ask(("DELETE", PATH), JSON, (None, "")).await;
    assert_eq!(early.json()["code"], "not_now");
    let done = command(&stage, Some(CHAIR), r#"{"do": "finish"}"#).await;
    assert_eq!(done.status, StatusCode::OK, "{done:?}");
    assert_eq!(stage.open_to("acme/weekly"), [""; 0]);
    let gone = stage.ask(("DELETE", PATH), JSON, (None, "")).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    let lifted = stage.gates.lock().unwrap()["acme/weekly"].clone();
    assert_eq!(lifted.open, None);
    stage.post("/v1/sessions", WEEKLY).await;
    let anew = stage.gates.lock().unwrap()["acme/weekly"].clone();
    assert!(
        anew.epoch > lifted.epoch,
        "or brokers would believe the old word"
    );
    command(&stage, None, r#"{"do": "finish"}"#).await;
    stage.ask(("DELETE", PATH), JSON, (None, "")).await;
    assert_eq!(
        stage.ask(("GET", PATH), JSON, (None, "")).await.json()["code"],
        "no_session"
    );
}

#[tokio::test]
async fn a_member_asks_for_itself_and_a_chair_for_others() {
    let stage = Stage::new();
    stage.post("/v1/sessions", WEEKLY).await;
    let request = r#"{"do": "request", "medium": "audio"}"#;
    let absent = command(&stage, Some(ANNA), request).await;
    assert_eq!(absent.json()["code"], "not_here", "{absent:?}");
    let joining = Input::Join(Joining::named("anna"));
    stage.sessions.input(&weekly(), joining).await.unwrap();
    assert_eq!(
        command(&stage, Some(ANNA), request).await.status,
        StatusCode::OK
    );
    assert_eq!(stage.open_to("acme/weekly/main/audio"), ["m1"]);
    let mute = r#"{"do": "mute", "member": "m1", "medium": "audio", "muted": true}"#;
    assert_eq!(
        command(&stage, Some(CHAIR), mute).await.status,
        StatusCode::OK
    );
    assert_eq!(stage.open_to("acme/weekly/main/audio"), [""; 0]);
    let refused = command(&stage, Some(ANNA), request).await;
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (StatusCode::FORBIDDEN, &json!("muted"))
    );
    let lock = command(&stage, Some(ANNA), r#"{"do": "lock", "locked": true}"#).await;
    assert_eq!(lock.json()["code"], "forbidden");
}

#[tokio::test]
async fn people_are_told_other_ways_in_before_they_join() {
    let stage = Stage::new();
    stage.post("/v1/sessions", WEEKLY).await;
    let path = format!("{PATH}/invitation");
    let told = stage.ask(("GET", &path), JSON, (Some(ANNA), "")).await;
    assert_eq!(told.status, StatusCode::OK, "{told:?}");
    let of_server = json!({ "label": "Room system", "uri": "sip:weekly.acme@sip.example.org" });
    let expected = json!({
        "tenant": "acme", "name": "weekly", "title": "Weekly", "state": "activated",
        "end_ms": told.json()["end_ms"], "link": "https://meet.example.org/acme/weekly",
        "ways": [of_server],
    });
    assert_eq!(told.json(), expected);
    let ways = r#"{"do": "ways", "ways": [{"label": "Berlin", "uri": "tel:+49-30-1234"}]}"#;
    let joining = Input::Join(Joining::named("anna"));
    stage.sessions.input(&weekly(), joining).await.unwrap();
    let refused = command(&stage, Some(ANNA), ways).await;
    assert_eq!(refused.json()["code"], "forbidden", "{refused:?}");
    let done = command(&stage, Some(CHAIR), ways).await;
    assert_eq!(done.status, StatusCode::OK, "{done:?}");
    let berlin = json!([{ "label": "Berlin", "uri": "tel:+49-30-1234" }]);
    assert_eq!(stage.get(&path).await["ways"], berlin);
    let events = stage.get(&format!("{PATH}/events")).await;
    let last = events["events"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["event"], &last["plan"]["ways"]),
        (&json!("planned"), &berlin)
    );
    let file = format!("{PATH}/invitation.ics");
    let file = stage.ask(("GET", &file), JSON, (Some(ANNA), "")).await;
    assert!(
        file.text.contains("LABEL=\"Berlin\":tel:+49-30-1234"),
        "{file:?}"
    );
    let stranger = r#"acme:x:{"room": "daily", "roomJoin": true}"#;
    let stranger = stage.ask(("GET", &path), JSON, (Some(stranger), "")).await;
    assert_eq!(stranger.json()["code"], "other_session");
}

#[tokio::test]
async fn a_way_in_that_harms_is_refused_in_both_forms() {
    let stage = Stage::new();
    let many: Vec<_> = (0..17).map(|n| ("Way", format!("tel:{n}"))).collect();
    let one = |label: &'static str, uri: &str| vec![(label, uri.to_owned())];
    for (ways, code) in [
        (one("Click", "javascript:alert(1)"), "text"),
        (one("Click", "https://bank.example@evil.example/"), "text"),
        (one("", "tel:+1"), "text"),
        (one("a\u{202e}b", "tel:+1"), "text"),
        (one("Long", &format!("tel:{}", "1".repeat(600))), "text"),
        (many, "full"),
    ] {
        let list: Vec<_> = ways
            .iter()
            .map(|(label, uri)| json!({ "label": label, "uri": uri }))
            .collect();
        let elements: String = ways
            .iter()
            .map(|(label, uri)| format!("<way label=\"{label}\" uri=\"{uri}\"/>"))
            .collect();
        let head = r#"create xmlns="urn:sangam:xgsp:1" tenant="acme" name="x" title="X""#;
        let element = format!("<{head}>{elements}</create>");
        let object = json!({ "tenant": "acme", "name": "x", "title": "X", "ways": list });
        for (form, body) in [(JSON, object.to_string()), (XML, element)] {
            let refused = stage
                .ask(("POST", "/v1/sessions"), form, (None, &body))
                .await;
            assert!(
                refused.text.contains(&format!("{code}\"")),
                "{form} {body}: {refused:?}"
            );
            assert!(!refused.status.is_success(), "{refused:?}");
        }
    }
    let strange = r#"{"tenant": "acme", "name": "x", "title": "X",
        "ways": [{"label": "A", "uri": "tel:1", "colour": "red"}]}"#;
    let refused = stage.post("/v1/sessions", strange).await;
    assert_eq!(refused.json()["code"], "malformed", "{refused:?}");
    assert_eq!(stage.get("/v1/sessions").await["sessions"], json!([]));
}

#[tokio::test]
async fn a_token_of_another_session_or_another_time_opens_nothing() {
    let stage = Stage::new();
    stage.post("/v1/sessions", WEEKLY).await;
    for (token, status, code) in [
        ("expired", StatusCode::UNAUTHORIZED, "expired"),
        ("nonsense", StatusCode::UNAUTHORIZED, "invalid_token"),
        (
            r#"acme:x:{"room": "daily", "roomAdmin": true}"#,
            StatusCode::FORBIDDEN,
            "other_session",
        ),
        (
            r#"evil:x:{"room": "weekly", "roomAdmin": true}"#,
            StatusCode::FORBIDDEN,
            "other_session",
        ),
        (ANNA, StatusCode::FORBIDDEN, "forbidden"),
    ] {
        let answer = stage.ask(("GET", PATH), JSON, (Some(token), "")).await;
        assert_eq!(answer.status, status, "{token}: {answer:?}");
        assert_eq!(answer.json()["code"], code, "{token}");
        assert!(
            answer.json()["error"]
                .as_str()
                .is_some_and(|error| !error.is_empty())
        );
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_a_sentence() {
    let stage = Stage::new();
    let long = json!({ "tenant": "acme", "name": "x", "title": "x".repeat(10_000) }).to_string();
    let spoofed = json!({ "tenant": "acme", "name": "x", "title": "a\u{202e}b" }).to_string();
    let bomb = "<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY a \"aa\">]><create/>";
    let huge = format!("{{\"title\": \"{}\"}}", "x".repeat(20_000));
    for (form, body, status, word) in [
        (
            JSON,
            long.as_str(),
            StatusCode::UNPROCESSABLE_ENTITY,
            "100 characters",
        ),
        (
            JSON,
            spoofed.as_str(),
            StatusCode::UNPROCESSABLE_ENTITY,
            "direction",
        ),
        (JSON, "{", StatusCode::BAD_REQUEST, "no JSON"),
        (
            JSON,
            r#"{"tenant": "a", "name": "b", "title": "c", "colour": 1}"#,
            StatusCode::BAD_REQUEST,
            "colour",
        ),
        (
            JSON,
            r#"{"tenant": "a/b", "name": "b", "title": "c"}"#,
            StatusCode::UNPROCESSABLE_ENTITY,
            "tenant",
        ),
        (JSON, huge.as_str(), StatusCode::PAYLOAD_TOO_LARGE, "16,384"),
        (XML, bomb, StatusCode::BAD_REQUEST, "document type"),
        (
            "text/plain; application/xml",
            bomb,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "JSON or XML",
        ),
    ] {
        let answer = stage
            .ask(("POST", "/v1/sessions"), form, (None, body))
            .await;
        let said = format!("{answer:?}");
        assert_eq!(answer.status, status, "{said}");
        assert!(answer.text.contains(word), "{word}: {said}");
    }
}

#[tokio::test]
async fn a_thousand_requests_at_once_are_answered_politely() {
    let stage = Stage::new();
    let mut limited = 0;
    for _ in 0..1_000 {
        let answer = stage.ask(("GET", "/v1/sessions"), JSON, (None, "")).await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            assert_eq!(answer.json()["code"], "rate");
            limited += 1;
        } else {
            assert_eq!(answer.status, StatusCode::OK);
        }
    }
    assert!(limited > 0, "all of a thousand were served");
}

#[tokio::test]
async fn an_invitation_is_for_calendars_and_a_token_for_people() {
    let stage = Stage::new();
    stage.post("/v1/sessions", WEEKLY).await;
    let path = format!("{PATH}/invitation.ics");
    let invitation = stage.ask(("GET", &path), JSON, (Some(ANNA), "")).await;
    assert!(
        invitation.kind.starts_with("text/calendar"),
        "{invitation:?}"
    );
    assert!(
        invitation
            .text
            .contains("URL:https://meet.example.org/acme/weekly\r\n")
    );
    let wanted = r#"{"identity": "bert", "role": "presenter", "publish": ["microphone"]}"#;
    let made = stage.post(&format!("{PATH}/tokens"), wanted).await.json();
    let token = made["token"].as_str().unwrap();
    assert!(
        token.starts_with("acme:bert:") && token.contains("microphone"),
        "{token}"
    );
    assert!(made["expires_ms"].as_u64().is_some_and(|ms| ms > 0));
}
