//! Topics that are recorded as an operator orders, now and later.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use common::{Broker, run, text};
use sangam_client::{Client, ClientOptions, Outgoing, Publisher, Target};
use sangam_model::Topic;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);
const PACE: Duration = Duration::from_millis(20);
const JSON: [&str; 1] = ["Content-Type: application/json"];

/// One whose recorder puts everything there.
fn broker(archive: &str) -> Broker {
    let mut command = Broker::command(&["--no-demo"]);
    command.env("SANGAM_SESSIONS_ARCHIVE", archive);
    Broker::of(command)
}

fn order(broker: &Broker, order: &Value) -> (u16, Value) {
    let (status, body) = broker.request("POST", "/v1/recordings", &JSON, &order.to_string());
    (status, serde_json::from_str(&body).unwrap())
}

fn end(broker: &Broker, name: &str) -> u16 {
    let path = format!("/v1/recordings/{name}");
    broker.request("DELETE", &path, &[], "").0
}

fn ordered(broker: &Broker) -> Vec<Value> {
    let (status, body) = broker.get("/v1/recordings");
    assert_eq!(status, 200, "{body}");
    let all: Value = serde_json::from_str(&body).unwrap();
    all["recordings"].as_array().unwrap().clone()
}

/// Looks until the orders are as wanted.
#[track_caller]
fn until(broker: &Broker, mut wanted: impl FnMut(&[Value]) -> bool) -> Vec<Value> {
    let begin = Instant::now();
    loop {
        let all = ordered(broker);
        if wanted(&all) {
            return all;
        }
        assert!(begin.elapsed() < PATIENCE, "{all:?}");
        std::thread::park_timeout(PACE);
    }
}

fn records(all: &[Value]) -> bool {
    all[0]["state"] == "recording"
}

/// Recordings in the archive, once so many were ended in order and so many cut off.
#[track_caller]
fn archived(archive: &Path, wanted: (usize, usize)) -> Vec<Value> {
    let folder = archive.display().to_string();
    let begin = Instant::now();
    loop {
        let output = run(&["archive", "list", "--json", "--archive", &folder]);
        let lines = text(&output.stdout);
        let all = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let all: Vec<Value> = all.collect();
        let is_ended = |one: &&Value| one["ended_in_order"] == true;
        let ended = all.iter().filter(is_ended).count();
        if (ended, all.len() - ended) == wanted {
            return all;
        }
        assert!(begin.elapsed() < PATIENCE, "{lines}");
        std::thread::park_timeout(PACE);
    }
}

fn publisher(broker: &Broker) -> (Client, Publisher) {
    let mut client = Client::connect(Target::Udp(broker.udp), ClientOptions::default()).unwrap();
    client.wait_up(PATIENCE).unwrap();
    let topic = Topic::new("plant/press/sound").unwrap();
    let sound = client.publish(&topic, common::opus(), PATIENCE).unwrap();
    (client, sound)
}

/// Sends packets until one is on the disk: the first may come before the recorder's subscription.
fn until_safe(broker: &Broker, sound: &mut Publisher) {
    until(broker, |all| {
        sound.send(Outgoing::new(b"a packet of sound")).unwrap();
        all[0]["packets_safe"].as_u64() > Some(0)
    });
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_millis() as u64
}

#[test]
fn topics_are_recorded_from_an_order_until_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(&folder.path().display().to_string());
    let (_client, mut sound) = publisher(&broker);
    let (status, told) = order(&broker, &json!({ "name": "shift", "topics": ["plant/#"] }));
    assert_eq!((status, &told["name"]), (201, &json!("shift")), "{told}");
    until_safe(&broker, &mut sound);
    assert_eq!(end(&broker, "shift"), 204);
    assert_eq!(end(&broker, "shift"), 404);
    assert_eq!(ordered(&broker), [] as [Value; 0]);
    let all = archived(folder.path(), (1, 0));
    assert_eq!(all[0]["name"], "shift", "{all:?}");
}

#[test]
fn what_is_ordered_for_later_begins_and_ends_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(&folder.path().display().to_string());
    let begin = now_ms() + 1_000;
    let wanted = json!({ "name": "later", "reliable": ["plant/readings"],
        "begin_ms": begin, "seconds": 2 });
    let (status, told) = order(&broker, &wanted);
    assert_eq!(status, 201, "{told}");
    assert_eq!(
        (&told["state"], &told["end_ms"]),
        (&json!("waiting"), &json!(begin + 2_000))
    );
    until(&broker, records);
    assert!(now_ms() >= begin);
    until(&broker, <[Value]>::is_empty);
    assert!(now_ms() >= begin + 2_000);
    assert_eq!(archived(folder.path(), (1, 0))[0]["name"], "later");
}

#[test]
fn a_broker_that_was_killed_goes_on_with_what_was_ordered() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().display().to_string();
    let killed = broker(&archive);
    order(&killed, &json!({ "name": "shift", "topics": ["plant/#"] }));
    let (client, mut sound) = publisher(&killed);
    until_safe(&killed, &mut sound);
    drop((killed, client));
    let broker = broker(&archive);
    until(&broker, records);
    assert_eq!(end(&broker, "shift"), 204);
    // The first life's was cut off.
    let all = archived(folder.path(), (1, 1));
    assert!(all.iter().all(|one| one["name"] == "shift"), "{all:?}");
}

#[test]
fn of_brokers_with_one_archive_the_first_takes_orders_and_then_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive").display().to_string();
    let first = broker(&archive);
    let shift = json!({ "name": "shift", "topics": ["plant/#"], "seconds": 3_600 });
    assert_eq!(order(&first, &shift).0, 201);
    let second = broker(&archive);
    let (status, refused) = order(&second, &json!({ "name": "other", "topics": ["plant/#"] }));
    let error = refused["error"].as_str().unwrap_or_default();
    assert!(
        status == 409 && error.contains("another broker"),
        "{refused}"
    );
    assert_eq!(second.get("/v1/recordings").0, 409);
    assert_eq!(end(&second, "shift"), 409);
    until(&first, records);
    drop(first);
    let begin = Instant::now();
    while second.get("/v1/recordings").0 == 409 {
        assert!(begin.elapsed() < PATIENCE, "nobody takes orders");
        std::thread::park_timeout(PACE);
    }
    until(&second, records);
    assert_eq!(order(&second, &shift).0, 409, "it stands");
}

#[test]
fn an_order_that_makes_no_sense_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(&folder.path().display().to_string());
    let refused = [
        json!({ "name": "a", "topic": "plant/#" }),
        json!({ "name": "", "topics": ["plant/#"] }),
        json!({ "name": "a" }),
        json!({ "name": "a", "topics": ["plant/#/press"] }),
        json!({ "name": "a", "reliable": ["plant/+"] }),
        json!({ "name": "a", "topics": ["plant/#"], "seconds": 0 }),
        json!({ "name": "a", "topics": ["plant/#"], "begin_ms": 1_000, "seconds": 9 }),
        json!({ "name": "a", "topics": vec!["plant/#"; 17] }),
        json!("shift"),
    ];
    for wrong in refused {
        let (status, told) = order(&broker, &wrong);
        assert_eq!(status, 400, "{wrong}: {told}");
        assert!(told["error"].is_string(), "{told}");
    }
    let one = json!({ "name": "a", "topics": ["plant/#"], "begin_ms": now_ms() + 60_000 });
    assert_eq!(order(&broker, &one).0, 201);
    assert_eq!(order(&broker, &one).0, 409);
    let (status, _) = broker.request("POST", "/v1/recordings", &[], &one.to_string());
    assert_eq!(status, 400, "pages of other sites send no JSON");
}

#[test]
fn a_broker_without_an_archive_says_so() {
    let broker = broker("");
    let (status, told) = order(&broker, &json!({ "name": "a", "topics": ["plant/#"] }));
    assert_eq!(status, 404, "{told}");
    assert!(
        told["hint"].as_str().unwrap().contains("sessions.archive"),
        "{told}"
    );
}

#[test]
fn a_file_of_orders_that_makes_no_sense_is_put_aside() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("orders.json"), "[{").unwrap();
    let broker = broker(&folder.path().display().to_string());
    assert_eq!(ordered(&broker), [] as [Value; 0]);
    let wanted = json!({ "name": "a", "topics": ["plant/#"] });
    assert_eq!(order(&broker, &wanted).0, 201);
    let aside = folder.path().join("orders.unread");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), "[{");
}
