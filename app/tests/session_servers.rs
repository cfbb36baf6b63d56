//! Several session servers over one etcd: a session moves when its server dies or falls silent.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "common/meetings.rs"]
mod meetings;

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Broker, sangam, text};
use meetings::*;
use serde_json::Value;

/// Sessions of a server that dies; `make takeover` asks for more.
const SESSIONS: usize = 50;

#[test]
fn all_sessions_of_a_dead_server_are_taken_over_and_none_twice() {
    let count = std::env::var("SESSIONS").map_or(SESSIONS, |count| count.parse().unwrap());
    let etcd = Etcd::start();
    let first = etcd.broker("first", &[]);
    for n in 0..count {
        let body = format!(r#"{{"tenant": "acme", "name": "s{n}", "title": "{n}"}}"#);
        call(&first, ("POST", "/v1/sessions"), &body);
    }
    let second = etcd.broker("second", &[&first]);
    let third = etcd.broker("third", &[&first, &second]);
    for broker in [&first, &second, &third] {
        eventually("every server lists all of them", || {
            let all = listed(broker);
            all.len() == count && all.iter().all(|(_, at)| *at == url(&first))
        });
    }
    eventually("the last of them knows the others", || {
        let servers = call(&third, ("GET", "/v1/sessions/servers"), "");
        servers["servers"].as_array().unwrap().len() == 3
    });

    first.process.signal("KILL");
    let died = Instant::now();
    eventually("all are taken over", || {
        held(&second) + held(&third) == count
    });
    let took = died.elapsed();
    let shares = (held(&second), held(&third));
    println!("{count} sessions taken over after {took:?}, shared {shares:?}");
    let mut all = Vec::new();
    eventually("they are listed where they are", || {
        all = listed(&second);
        let at = |broker: &Broker| all.iter().filter(|(_, at)| *at == url(broker)).count();
        (at(&second), at(&third)) == shares
    });
    assert!(all.is_sorted() && all.len() == count, "{all:?}");
    for (name, at) in &all {
        let broker = if *at == url(&second) { &second } else { &third };
        let path = format!("/v1/sessions/{name}/events");
        let events = call(broker, ("GET", &path), "");
        let events = events["events"].as_array().unwrap();
        let taken = events.iter().filter(|event| event["event"] == "fenced");
        assert_eq!(taken.count(), 1, "{name}: {events:?}");
    }
    assert_eq!((held(&second), held(&third)), shares);
}

#[test]
fn a_session_goes_on_at_another_server_when_its_own_dies() {
    let etcd = Etcd::start();
    let first = etcd.broker("first", &[]);
    let second = etcd.broker("second", &[&first]);
    let third = etcd.broker("third", &[&first, &second]);
    done(&first, &["create", "acme/weekly"]);
    assert!(holds(&first));
    // Asked by way of any server.
    eventually("all know where it is", || {
        session(&third, &["show", "acme/weekly"]).is_ok()
    });
    assert!(!holds(&third));
    let again = session(&second, &["create", "acme/weekly"]).unwrap_err();
    assert!(again.contains("already"), "{again}");
    let _chair = join(&third, "chair", "chair");
    let _anna = join(&second, "anna", "participant");
    let mut talk = Talk::begin(&third, "m2");
    let audio = r#"{"do": "grant", "medium": "audio", "member": "m2"}"#;
    done(&second, &["do", "acme/weekly", audio]);
    eventually("the word is given", || talk.say() > 0);

    first.process.signal("KILL");
    drop(first);
    let (mut said, mut heard) = (0, 0);
    let began = Instant::now();
    eventually("another server has it", || {
        said += 1;
        heard += talk.say();
        holds(&second) || holds(&third)
    });
    println!("taken over after {:?}", began.elapsed());
    assert!(heard >= said - 1, "{heard} of {said} heard meanwhile");
    let shown = done(&third, &["show", "acme/weekly"]);
    let identities: Vec<_> = shown["members"].as_array().unwrap().iter().collect();
    assert_eq!(identities.len(), 2, "{shown}");
    let _bert = join(&second, "bert", "participant");
    // Brokers believe the new one.
    let mute = r#"{"do": "mute", "member": "m2", "medium": "audio", "muted": true}"#;
    done(&third, &["do", "acme/weekly", mute]);
    eventually("the word is taken", || (0..5).all(|_| talk.say() == 0));
}

#[test]
fn a_server_that_slept_holds_no_session_that_another_has() {
    let etcd = Etcd::start();
    let first = etcd.broker("first", &[]);
    let second = etcd.broker("second", &[&first]);
    done(&first, &["create", "acme/weekly"]);
    first.process.signal("STOP");
    eventually("another server has it", || holds(&second));
    done(
        &second,
        &["do", "acme/weekly", r#"{"do": "lock", "locked": true}"#],
    );
    first.process.signal("CONT");
    eventually("the first sends people on", || {
        session(&first, &["show", "acme/weekly"]).is_ok_and(|shown| shown["locked"] == true)
            && !holds(&first)
    });
    let unlock = r#"{"do": "lock", "locked": false}"#;
    done(&first, &["do", "acme/weekly", unlock]);
    let server = format!("http://{}", second.http);
    let mut command = sangam(&["session", "--server", &server, "events", "acme/weekly"]);
    let events = command.env("SANGAM_API_TOKEN", OPERATOR).output().unwrap();
    let events = text(&events.stdout);
    let events = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let order: Vec<_> = events
        .map(|event| {
            (
                event["seq"].as_u64().unwrap(),
                event["epoch"].as_u64().unwrap(),
            )
        })
        .collect();
    assert!(
        order.iter().map(|(seq, _)| *seq).eq(1..=order.len() as u64),
        "{order:?}"
    );
    assert!(order.is_sorted_by_key(|(_, epoch)| *epoch), "{order:?}");
}

#[test]
fn a_name_may_be_used_again_at_once() {
    let etcd = Etcd::start();
    let first = etcd.broker("first", &[]);
    let second = etcd.broker("second", &[&first]);
    for round in 0..10 {
        done(&first, &["create", "acme/weekly"]);
        done(&first, &["do", "acme/weekly", r#"{"do": "finish"}"#]);
        // By way of a server that has it not.
        eventually("it is forgotten", || {
            session(&second, &["forget", "acme/weekly"]).is_ok()
        });
        let shown = done(&first, &["create", "acme/weekly"]);
        assert_eq!(shown["state"], "activated", "round {round}");
        done(&first, &["do", "acme/weekly", r#"{"do": "finish"}"#]);
        done(&first, &["forget", "acme/weekly"]);
    }
}

#[test]
fn sessions_wait_for_etcd_and_media_does_not() {
    let mut etcd = Etcd::start();
    let broker = etcd.broker("first", &[]);
    done(&broker, &["create", "acme/weekly"]);
    let _anna = join(&broker, "anna", "participant");
    let mut talk = Talk::begin(&broker, "m1");
    let grant = r#"{"do": "grant", "medium": "audio", "member": "m1"}"#;
    done(&broker, &["do", "acme/weekly", grant]);
    eventually("the word is given", || talk.say() > 0);
    etcd.die();
    let lock = ["do", "acme/weekly", r#"{"do": "lock", "locked": true}"#];
    eventually("nothing is promised", || session(&broker, &lock).is_err());
    let (said, mut heard) = (20, 0);
    for _ in 0..said {
        heard += talk.say();
    }
    assert!(heard >= said - 1, "{heard} of {said} heard meanwhile");
    etcd.start_again();
    eventually("it goes on", || session(&broker, &lock).is_ok());
    assert_eq!(done(&broker, &["show", "acme/weekly"])["locked"], true);
}

/// Two brokers with a session of the first, over a cluster of three.
fn over_three() -> (Etcd, Broker, Broker) {
    let etcd = Etcd::of(3);
    let first = etcd.broker("first", &[]);
    done(&first, &["create", "acme/weekly"]);
    let second = etcd.broker("second", &[&first]);
    eventually("both know where it is", || {
        session(&second, &["show", "acme/weekly"]).is_ok()
    });
    (etcd, first, second)
}

fn lock(broker: &Broker, locked: bool) -> Result<Value, String> {
    let lock = format!(r#"{{"do": "lock", "locked": {locked}}}"#);
    session(broker, &["do", "acme/weekly", &lock])
}

#[test]
fn nobody_notices_that_one_of_three_members_of_etcd_dies() {
    let (mut etcd, first, second) = over_three();
    etcd.lose_one(false);
    // Longer than a lease lasts, and often enough for the dead member's turn to come.
    let until = Instant::now() + Duration::from_secs(5);
    let mut count = 0;
    while Instant::now() < until || count < 30 {
        for broker in [&first, &second] {
            lock(broker, count % 2 == 0).unwrap();
        }
        count += 1;
    }
    let events = call(&second, ("GET", "/v1/sessions/acme/weekly/events"), "");
    let events = events["events"].as_array().unwrap();
    let taken = events.iter().filter(|event| event["event"] == "fenced");
    assert_eq!(
        taken.count(),
        0,
        "the session stayed where it was: {events:?}"
    );
    assert!(holds(&first));
}

#[test]
fn sessions_go_on_when_the_leader_of_etcd_dies() {
    let (mut etcd, first, second) = over_three();
    etcd.lose_one(true);
    for locked in [true, false] {
        eventually("another leads", || lock(&first, locked).is_ok());
        eventually("the other server knows", || {
            let shown = session(&second, &["show", "acme/weekly"]);
            shown.is_ok_and(|shown| shown["locked"] == locked)
        });
    }
}

/// A server and etcd die at the same moment, or etcd before it.
fn both_die(etcd_first: bool) {
    let mut etcd = Etcd::start();
    let first = etcd.broker("first", &[]);
    let second = etcd.broker("second", &[&first]);
    let third = etcd.broker("third", &[&first, &second]);
    done(&first, &["create", "acme/weekly"]);
    eventually("all know where it is", || {
        session(&third, &["show", "acme/weekly"]).is_ok()
    });
    let _chair = join(&third, "chair", "chair");
    let _anna = join(&second, "anna", "participant");
    let mut talk = Talk::begin(&third, "m2");
    let audio = r#"{"do": "grant", "medium": "audio", "member": "m2"}"#;
    done(&second, &["do", "acme/weekly", audio]);
    eventually("the word is given", || talk.say() > 0);
    talk.begin_anew();

    let mut heard = 0;
    if etcd_first {
        etcd.die();
        eventually("nothing is promised", || {
            heard += talk.say();
            session(&second, &["do", "acme/weekly", audio]).is_err()
        });
        first.process.signal("KILL");
    } else {
        first.process.signal("KILL");
        etcd.die();
    }
    drop(first);
    // Longer than leases and beliefs last, and whatever is tried meanwhile.
    for _ in 0..300 {
        heard += talk.say();
    }
    assert!(
        !holds(&second) && !holds(&third),
        "nobody decides without etcd"
    );
    etcd.start_again();
    let back = Instant::now();
    eventually("another server has it", || {
        heard += talk.say();
        holds(&second) || holds(&third)
    });
    println!("taken over {:?} after etcd was back", back.elapsed());
    let invited = || {
        let invite = ["invite", "acme/weekly", "--identity", "bert"];
        session(&second, &invite).is_ok()
    };
    eventually("people can be let in again", invited);
    let _bert = join(&second, "bert", "participant");
    talk.all_is_heard(heard);
    let shown = done(&third, &["show", "acme/weekly"]);
    assert_eq!(shown["state"], "activated", "{shown}");
    // Brokers believe the new one. Whoever was too long without it has lost the word already.
    let mute = r#"{"do": "mute", "member": "m2", "medium": "audio", "muted": true}"#;
    let _ = session(&third, &["do", "acme/weekly", mute]);
    eventually("the word is taken", || (0..5).all(|_| talk.say() == 0));
}

#[test]
fn media_goes_on_when_etcd_dies_and_then_the_server() {
    both_die(true);
}

#[test]
fn media_goes_on_when_the_server_and_etcd_die_at_once() {
    both_die(false);
}

#[test]
fn a_new_session_goes_to_a_server_that_has_room() {
    let etcd = Etcd::start();
    let mut command = etcd.command("first", &[]);
    command.env("SANGAM_SESSIONS_LIMIT", "1");
    let first = Broker::of(command);
    let create = |broker: &Broker, name: &str| {
        let body = format!(r#"{{"tenant": "acme", "name": "{name}", "title": "{name}"}}"#);
        let token = format!("Authorization: Bearer {OPERATOR}");
        let headers = [token.as_str(), "Content-Type: application/json"];
        broker.request("POST", "/v1/sessions", &headers, &body)
    };
    assert_eq!(create(&first, "s0").0, 201);
    let (status, body) = create(&first, "s1");
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("busy"), "{body}");

    let mut command = etcd.command("second", &[&first]);
    command.env("SANGAM_SESSIONS_LIMIT", "1");
    let second = Broker::of(command);
    let mut answer = (0, String::new());
    eventually("the first knows of the second", || {
        answer = create(&first, "s1");
        answer.0 != 503
    });
    assert_eq!(answer.0, 307, "{}", answer.1);
    assert!(answer.1.contains(&url(&second)), "{}", answer.1);
    assert_eq!(create(&second, "s1").0, 201);
    // And none is left now.
    eventually("both know that both are full", || {
        create(&first, "s2").0 == 503 && create(&second, "s2").0 == 503
    });
}

/// Says something in the meeting twenty times a second, as long as it may.
struct Chatterer(std::process::Child);

impl Chatterer {
    fn start(broker: &Broker, identity: &str) -> Self {
        let invite = ["invite", "acme/weekly", "--identity", identity];
        let token = done(broker, &invite)["token"].as_str().unwrap().to_owned();
        let mut command = sangam(&["session", "--server", &url(broker), "join", "acme/weekly"]);
        command.env("SANGAM_TOKEN", token).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::spawn(move || {
            while writeln!(stdin, r#"{{"do": "react", "text": "+"}}"#).is_ok() {
                std::thread::park_timeout(Duration::from_millis(50));
            }
        });
        Self(child)
    }
}

impl Drop for Chatterer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Share of its time that a session server says to be busy, in percent.
fn busy(broker: &Broker) -> u64 {
    let (_, metrics) = broker.get("/metrics");
    let mut lines = metrics.lines();
    let share = lines.find_map(|line| line.strip_prefix("sangam_session_busy_percent "));
    share.map_or(0, |share| share.parse().unwrap())
}

#[test]
fn a_new_session_goes_to_the_server_that_is_less_busy() {
    let etcd = Etcd::start();
    let first = etcd.broker("first", &[]);
    let second = etcd.broker("second", &[&first]);
    done(&first, &["create", "acme/weekly"]);
    assert!(holds(&first));
    // Those who come and talk until the first has more to do than a few sessions more would be.
    let mut crowd = Vec::new();
    eventually("the first is busy", || {
        if crowd.len() < 40 {
            let identity = format!("p{}", crowd.len());
            crowd.push(Chatterer::start(&first, &identity));
        }
        busy(&first) > busy(&second) + 30
    });
    let mut made = 0;
    eventually("a new session goes to the second", || {
        made += 1;
        // Far fewer than would move one by their number.
        assert!(made < 12, "{} % and {} %", busy(&first), busy(&second));
        let name = format!("acme/s{made}");
        done(&first, &["create", &name]);
        std::thread::park_timeout(Duration::from_millis(500));
        held(&second) > 0
    });
    println!(
        "by {made} sessions; busy for {} and {} %",
        busy(&first),
        busy(&second)
    );
}
