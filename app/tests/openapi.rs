//! The API as docs/spec/openapi.json tells it: written by a server, and kept by it.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::fs;
use std::path::Path;

use common::{Broker, sdp_offer};
use serde_json::{Map, Value, json};

/// Set to have the published description written anew.
const UPDATE: &str = "UPDATE_SPEC";
const PUBLISHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/spec/openapi.json");

/// A server of everything that can be served. Nobody is at its provider of identities.
fn server(folder: &Path) -> Broker {
    let path = folder.join("sangam.toml");
    let archive = folder.join("archive");
    let config =
        format!("[login]\nissuer = \"http://127.0.0.1:9\"\n[sessions]\narchive = {archive:?}\n");
    fs::write(&path, config).unwrap();
    Broker::start(&["--config", &path.display().to_string()])
}

fn described(broker: &Broker) -> Value {
    let (status, text) = broker.get("/v1/openapi.json");
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// The same with sorted keys, whatever the library's features say about their order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.keys().collect();
            keys.sort();
            let sorted = keys
                .into_iter()
                .map(|key| (key.clone(), self::sorted(&fields[key])));
            Value::Object(sorted.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[test]
fn the_published_description_is_what_a_server_serves() {
    let folder = tempfile::tempdir().unwrap();
    let described = described(&server(folder.path()));
    let text = serde_json::to_string_pretty(&sorted(&described)).unwrap() + "\n";
    if std::env::var_os(UPDATE).is_some() {
        fs::write(PUBLISHED, &text).unwrap();
    }
    let there = fs::read_to_string(PUBLISHED).unwrap_or_default();
    assert!(
        there == text,
        "docs/spec/openapi.json is not what is served: run with {UPDATE}=1"
    );
}

/// One thing that can be asked, and how it is asked here.
struct Asked<'a> {
    verb: &'a str,
    path: &'a str,
    operation: &'a Value,
}

/// What stands for the parameters of paths and queries.
fn example(path: &str, name: &str, peer: &str) -> String {
    let text = match (name, path) {
        ("tenant", _) => "acme",
        ("name", "/assets/{name}") => "none.js",
        ("name", path) if path.starts_with("/v1/legs") => "taken",
        ("name", path) if path.starts_with("/v1/recordings") => "shift",
        ("name" | "session", path) if path.starts_with('/') => "weekly",
        ("room", _) => "main",
        ("member", _) => "m1",
        ("service", _) => "mixer",
        ("recorder", _) => "archive-1",
        ("since" | "order", _) => "7",
        ("topic", _) => "demo/anna",
        ("broker", _) => "0000beef",
        ("id", _) => peer,
        _ => panic!("what stands for {name} of {path}?"),
    };
    text.to_owned()
}

/// What is sent.
fn body(id: &str) -> String {
    let leg = json!({ "name": "new", "topic": "demo/#", "send": "127.0.0.1:9000" });
    let json = match id {
        "createSession" => json!({ "tenant": "acme", "name": "daily", "title": "Daily" }),
        "command" => json!({ "do": "lock", "locked": false }),
        "createToken" => json!({ "identity": "anna" }),
        "recorderBeat" => json!({ "places": 1 }),
        "fixWeight" => json!({ "weight": 500 }),
        "addLeg" => leg,
        "orderRecording" => json!({ "name": "shift", "topics": ["plant/#"] }),
        "tellHeights" => json!([]),
        "publish" | "play" => return sdp_offer(),
        "changePeer" => {
            return "a=candidate:1 1 udp 2122260223 192.0.2.1 61764 typ host\r\n".to_owned();
        }
        "queryNetworkByPost" => return "1".to_owned(),
        _ => panic!("what does one send to {id}?"),
    };
    json.to_string()
}

impl<'a> Asked<'a> {
    fn all(description: &'a Value) -> Vec<Self> {
        let mut all = Vec::new();
        for (path, verbs) in description["paths"].as_object().unwrap() {
            for (verb, operation) in verbs.as_object().unwrap() {
                all.push(Asked {
                    verb,
                    path,
                    operation,
                });
            }
        }
        // What ends something comes last.
        all.sort_by_key(|asked| asked.verb == "delete");
        all
    }

    fn id(&self) -> &str {
        self.operation["operationId"].as_str().unwrap()
    }

    /// The path and query that are asked.
    fn target(&self, peer: &str) -> String {
        let mut path = self.path.to_owned();
        let mut query = Vec::new();
        let none = Vec::new();
        let parameters = self.operation["parameters"].as_array().unwrap_or(&none);
        for parameter in parameters {
            let name = parameter["name"].as_str().unwrap();
            if parameter["in"] == "path" {
                let value = example(self.path, name, peer);
                path = path.replace(&format!("{{{name}}}"), &value);
            } else if parameter["required"] == true {
                let value = match name {
                    "session" => "acme/weekly",
                    "q" => "1",
                    _ => "/m/meet/weekly",
                };
                query.push(format!("{name}={value}"));
            }
        }
        match query.is_empty() {
            true => path,
            false => format!("{path}?{}", query.join("&")),
        }
    }

    /// Asks, and holds what is answered against what is described.
    fn is_as_described(&self, (broker, peer): (&Broker, &str), description: &Value) -> u16 {
        let id = self.id();
        let kinds = self.operation["requestBody"]["content"].as_object();
        let kind = kinds.map(|kinds| kinds.keys().next().unwrap());
        let headers: Vec<_> = kind
            .map(|kind| format!("Content-Type: {kind}"))
            .into_iter()
            .collect();
        let headers: Vec<_> = headers.iter().map(String::as_str).collect();
        let body = kind.map_or(String::new(), |_| body(id));
        let verb = self.verb.to_uppercase();
        let answer = broker.ask((&verb, &self.target(peer)), &headers, &body);
        let told = &self.operation["responses"][answer.status.to_string()];
        let told = match told["$ref"].as_str() {
            Some(reference) => description
                .pointer(reference.trim_start_matches('#'))
                .unwrap(),
            None => told,
        };
        assert!(told.is_object(), "{id}: {answer:?} is not described");
        let names = told["headers"].as_object().into_iter().flatten();
        for (name, _) in names.filter(|(name, _)| *name != "Link") {
            assert!(answer.header(name).is_some(), "{id}: {name}: {answer:?}");
        }
        let Some(contents) = told["content"].as_object() else {
            assert_eq!(answer.body, "", "{id}: {answer:?}");
            return answer.status;
        };
        let kind = answer.header("content-type").unwrap_or_default();
        // Files have types of their own.
        let content = contents.get(kind);
        let content = content.unwrap_or_else(|| panic!("{id}: {kind} of {answer:?}"));
        if kind == "application/json" {
            let value = serde_json::from_str(&answer.body).unwrap();
            let fits = fits((description, &content["schema"]), &value);
            fits.unwrap_or_else(|wrong| panic!("{id}: {wrong}: {value}"));
        }
        answer.status
    }
}

/// Whether a value is of a schema; knows what the description is written with.
fn fits((description, schema): (&Value, &Value), value: &Value) -> Result<(), String> {
    let wrong = || Err(format!("{value} is not of {schema}"));
    if let Some(reference) = schema["$ref"].as_str() {
        let found = description.pointer(reference.trim_start_matches('#'));
        return fits((description, found.unwrap()), value);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let one = any
            .iter()
            .any(|one| fits((description, one), value).is_ok());
        return if one { Ok(()) } else { wrong() };
    }
    if let Some(words) = schema["enum"].as_array() {
        return if words.contains(value) {
            Ok(())
        } else {
            wrong()
        };
    }
    match (schema["type"].as_str().unwrap(), value) {
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) => Ok(()),
        ("null", Value::Null) => Ok(()),
        ("integer", number) if number.is_u64() => Ok(()),
        ("number", number) if number.is_number() => Ok(()),
        ("array", Value::Array(items)) => items
            .iter()
            .try_for_each(|item| fits((description, &schema["items"]), item)),
        ("object", Value::Object(fields)) => {
            let Some(known) = schema["properties"].as_object() else {
                return Ok(());
            };
            let mut needed = schema["required"].as_array().unwrap().iter();
            if let Some(missing) = needed.find(|name| !fields.contains_key(name.as_str().unwrap()))
            {
                return Err(format!("{missing} is missing in {value}"));
            }
            fields.iter().try_for_each(|(name, value)| {
                let schema = known.get(name).ok_or(format!("{name} is not described"))?;
                fits((description, schema), value)
            })
        }
        _ => wrong(),
    }
}

#[test]
fn every_operation_is_there_and_answers_as_described() {
    let folder = tempfile::tempdir().unwrap();
    let broker = server(folder.path());
    let description = described(&broker);
    let other = Broker::linked(&broker);
    let json = ["Content-Type: application/json"];
    let made = r#"{"tenant": "acme", "name": "weekly", "title": "Weekly"}"#;
    let (status, text) = broker.request("POST", "/v1/sessions", &json, made);
    assert_eq!(status, 201, "{text}");
    let leg = r#"{"name": "taken", "topic": "demo/#", "send": "127.0.0.1:9000"}"#;
    let (status, text) = broker.request("POST", "/v1/legs", &json, leg);
    assert_eq!(status, 201, "{text}");
    let sdp = ["Content-Type: application/sdp"];
    let joined = broker.ask(("POST", "/v1/whip/demo/bert"), &sdp, &sdp_offer());
    assert_eq!(joined.status, 201, "{joined:?}");
    let peer = joined.header("location").unwrap();
    let peer = peer.rsplit('/').next().unwrap();

    let all = Asked::all(&description);
    assert!(all.len() > 50, "{}", all.len());
    let mut done = 0;
    for asked in &all {
        let status = asked.is_as_described((&broker, peer), &description);
        done += u32::from((200..400).contains(&status));
    }
    // Of the others most need a token that only configured servers know.
    assert!(done > 40, "{done} of {}", all.len());
    drop(other);
}

#[test]
fn a_server_without_sessions_describes_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sangam.toml");
    fs::write(&path, "[sessions]\nenabled = false\n").unwrap();
    let broker = Broker::start(&["--config", &path.display().to_string()]);
    let description = described(&broker);
    let paths = description["paths"].as_object().unwrap();
    assert!(paths.contains_key("/v1/whip/{topic}"));
    assert!(!paths.keys().any(|path| path.starts_with("/v1/sessions")));
    assert_eq!(broker.get("/v1/sessions").0, 404);
}
