//! JSON and XML say the same, and the published descriptions are what the code says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use axum::http::StatusCode;
use sangam_control::session::shapes::{COMMANDS, Kind, SENT, Shape, find};
use sangam_control::session::{spec, xml};
use sangam_session::{Caller, Input, Joining, Key, MemberId, Role};
use serde_json::{Map, Value, json};

use crate::stage::*;

/// Set to have the published descriptions written anew.
const UPDATE: &str = "UPDATE_SPEC";

fn published(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs/spec")
        .join(name)
}

#[track_caller]
fn is_published(name: &str, text: &str) {
    let path = published(name);
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, text).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == text,
        "docs/spec/{name} is not what the code says: run with {UPDATE}=1"
    );
}

#[test]
fn the_published_schema_is_written_from_the_code() {
    is_published("xgsp.xsd", &spec::xsd());
}

/// What a validator says to a document, unless it is valid.
pub(crate) fn complaint(document: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("document.xml");
    fs::write(&path, document).unwrap();
    let checked = Command::new("xmllint")
        .args(["--noout", "--schema"])
        .args([&published("xgsp.xsd"), &path])
        .output()
        .expect("xmllint, which scripts/setup.sh test installs");
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    (!checked.status.success()).then_some(said)
}

/// A session with everything in it that a document can show.
async fn full() -> Stage {
    let stage = Stage::new();
    let wanted = json!({
        "tenant": "acme", "name": "weekly", "title": "A <b> & \"c\" שלום", "lobby": true,
        "start_ms": 1_000, "end_ms": 9_000_000_000_000_u64, "needs": ["mixer"],
        "ways": [{ "label": "Berlin <b> & \"c\" שלום", "uri": "tel:+49-30-1234,,4711%23" }],
    });
    let made = stage.post("/v1/sessions", &wanted.to_string()).await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    let service = format!("{PATH}/services/mixer");
    let ready = stage.ask(("PUT", &service), JSON, (None, "")).await;
    assert_eq!(ready.status, StatusCode::OK, "{ready:?}");
    for (name, role) in [
        ("chair", Role::Chair),
        ("anna", Role::Presenter),
        ("bert", Role::Observer),
    ] {
        let joining = Joining {
            role,
            capabilities: ["h264".to_owned()].into(),
            key: Some(Key("secret".to_owned())),
            ..Joining::named(name)
        };
        stage
            .sessions
            .input(&weekly(), Input::Join(joining))
            .await
            .unwrap();
    }
    let commands = [
        (
            1,
            json!({ "do": "floor", "room": "main", "medium": "audio", "mode": "moderated",
            "limit": 1, "time_limit_s": 60 }),
        ),
        (1, json!({ "do": "request", "medium": "audio" })),
        (2, json!({ "do": "request", "medium": "audio" })),
        (
            1,
            json!({ "do": "mute", "member": "m2", "medium": "video", "muted": true }),
        ),
        (1, json!({ "do": "open", "room": "b1", "title": "Budget" })),
        (2, json!({ "do": "hand", "raised": true })),
        (2, json!({ "do": "chat", "text": "one\ntwo" })),
        (2, json!({ "do": "react", "text": "👍" })),
        (1, json!({ "do": "plan", "title": "Later" })),
        (
            1,
            json!({ "do": "ways", "ways": [
                { "label": "Paris", "uri": "tel:+33-1-2345" },
                { "label": "Room & more", "uri": "sip:weekly@[2001:db8::1];a=b&c" },
            ]}),
        ),
    ];
    for (who, command) in commands {
        let command = serde_json::from_value(command).unwrap();
        let caller = Caller::Member(MemberId(who));
        let done = stage
            .sessions
            .input(&weekly(), Input::Command(caller, command))
            .await;
        done.unwrap();
    }
    let lost = Input::Lost(MemberId(2));
    stage.sessions.input(&weekly(), lost).await.unwrap();
    stage
}

/// The JSON of a document without what XML has no way to say: empty lists.
fn bare(shape: &Shape, value: &Value) -> Value {
    let mut fields = Map::new();
    for field in shape.fields {
        let given = &value[field.name];
        let inner = |of: &str, item: &Value| bare(find(of).unwrap(), item);
        let said = match (field.kind, given) {
            (_, Value::Null) => continue,
            (Kind::Part(of), part) => inner(of, part),
            (Kind::Parts(_, of), Value::Array(items)) => {
                items.iter().map(|i| inner(of, i)).collect()
            }
            (_, other) => other.clone(),
        };
        if said.as_array().is_none_or(|items| !items.is_empty()) {
            fields.insert(field.name.to_owned(), said);
        }
    }
    let known: Vec<_> = shape.fields.iter().map(|field| field.name).collect();
    for name in value.as_object().into_iter().flat_map(Map::keys) {
        assert!(
            known.contains(&name.as_str()),
            "the table lacks {}.{name}",
            shape.name
        );
    }
    Value::Object(fields)
}

#[tokio::test]
async fn every_document_says_the_same_in_json_and_in_valid_xml() {
    let stage = full().await;
    for (path, shape) in [
        ("/v1/sessions".to_owned(), "sessions"),
        ("/v1/sessions/servers".to_owned(), "servers"),
        (PATH.to_owned(), "session"),
        (format!("{PATH}/members"), "members"),
        (format!("{PATH}/events"), "events"),
        (format!("{PATH}/invitation"), "invitation"),
        ("/v1/sessions/acme/nothing".to_owned(), "problem"),
    ] {
        let json = stage.ask(("GET", &path), JSON, (None, "")).await;
        let written = stage.ask(("GET", &path), XML, (None, "")).await;
        assert_eq!((json.status, json.kind.as_str()), (written.status, JSON));
        assert_eq!(written.kind, XML);
        assert_eq!(complaint(&written.text), None, "{}", written.text);
        let shape = find(shape).unwrap();
        let (_, read) = xml::read(&[shape], &written.text).unwrap();
        assert_eq!(read, bare(shape, &json.json()), "{path}");
    }
    let events = stage.get(&format!("{PATH}/events")).await.to_string();
    assert!(
        !events.contains("secret"),
        "a resume key is nobody's business: {events}"
    );
}

#[tokio::test]
async fn what_is_asked_in_xml_is_done_as_if_it_were_json() {
    let stage = Stage::new();
    let namespace = xml::NAMESPACE;
    let create = format!(
        "<create xmlns=\"{namespace}\" tenant=\"acme\" name=\"weekly\" title=\"Wöchentlich\" \
         lobby=\"true\"><need>mixer</need><way label=\"A &amp; B\" uri=\"tel:+1\"/></create>"
    );
    assert_eq!(complaint(&create), None);
    let made = stage
        .ask(("POST", "/v1/sessions"), XML, (None, &create))
        .await;
    assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    assert_eq!(complaint(&made.text), None, "{}", made.text);
    let shown = stage.get(PATH).await;
    assert_eq!(
        shown["services"],
        json!([{ "name": "mixer", "ready": false }])
    );
    assert_eq!(
        shown["ways"],
        json!([{ "label": "A & B", "uri": "tel:+1" }])
    );
    let path = format!("{PATH}/commands");
    // No list is an empty list.
    let ways = format!("<ways xmlns=\"{namespace}\"/>");
    assert_eq!(complaint(&ways), None);
    let done = stage.ask(("POST", &path), XML, (None, &ways)).await;
    assert_eq!(done.status, StatusCode::OK, "{done:?}");
    assert_eq!(stage.get(PATH).await["ways"], json!(null));
    let lock = format!("<lock xmlns=\"{namespace}\" locked=\"true\"/>");
    let done = stage.ask(("POST", &path), XML, (None, &lock)).await;
    assert_eq!(done.status, StatusCode::OK, "{done:?}");
    assert_eq!(stage.get(PATH).await["locked"], true);
}

/// A document of a shape with every field.
fn example(shape: &Shape) -> Value {
    let field = |kind| match kind {
        Kind::Text => json!("m1"),
        Kind::Count => json!(60),
        Kind::Number => json!(0.5),
        Kind::Truth => json!(true),
        Kind::Word(words) => json!(words[0]),
        Kind::Part(of) => example(find(of).unwrap()),
        Kind::Texts(_) => json!(["camera"]),
        Kind::Parts(_, of) => json!([example(find(of).unwrap())]),
    };
    let fields = shape
        .fields
        .iter()
        .map(|one| (one.name.to_owned(), field(one.kind)));
    Value::Object(fields.collect())
}

#[test]
fn every_command_of_the_table_is_one_that_sessions_take() {
    for shape in COMMANDS {
        let mut value = example(shape);
        assert_eq!(complaint(&xml::write(shape, &value)), None);
        value["do"] = json!(shape.name);
        let command: Result<sangam_session::Command, _> = serde_json::from_value(value.clone());
        let command = command.unwrap_or_else(|error| panic!("{value}: {error}"));
        assert_eq!(serde_json::to_value(&command).unwrap(), value);
        value["colour"] = json!("red");
        let strange = serde_json::from_value::<sangam_session::Command>(value);
        // Serde looks for strangers only where there are fields at all.
        assert!(strange.is_err() || shape.fields.is_empty(), "{shape:?}");
    }
    for shape in SENT {
        assert_eq!(complaint(&xml::write(shape, &example(shape))), None);
    }
}
