//! What happens in a session, followed on its reliable topic at another broker.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod common;
#[path = "common/meetings.rs"]
mod meetings;

use std::time::{Duration, Instant};

use common::{Broker, run, text};
use meetings::*;
use sangam_client::{Client, ClientOptions, Received, ReliableEvent, Target, Token};
use sangam_control::session::news::{News, Order, topic};
use sangam_model::Topic;
use sangam_session::SessionId;
use sangam_wire::Refusal;
use serde_json::Value;
use tempfile::TempDir;

/// Longer than a silent link lives.
const OUTAGE: Duration = Duration::from_millis(900);
/// Changes between what happens to the network.
const CHANGES: u64 = 20;

/// A service that follows the session at a broker.
struct Follower {
    client: Client,
    order: Order,
    events: Vec<Value>,
}

impl Follower {
    fn start(broker: &Broker) -> Self {
        let client = client(broker);
        client.subscribe_reliable(&events(), 1_000).unwrap();
        Self {
            client,
            order: Order::default(),
            events: Vec::new(),
        }
    }

    /// Waits until everything has come up to a number.
    #[track_caller]
    fn until(&mut self, seq: u64) {
        let until = Instant::now() + 2 * PATIENCE;
        while self.order.seq() < seq {
            let missing = self.order.missing();
            assert!(
                Instant::now() < until,
                "{} of {seq}, {missing:?}",
                self.order.seq()
            );
            if let Some(Received::Reliable(ReliableEvent::Received { payload, .. })) =
                self.client.recv(PAUSE)
            {
                let news: News = serde_json::from_slice(&payload).unwrap();
                self.events.extend(self.order.take(news));
            }
        }
    }
}

fn events() -> Topic {
    topic(&SessionId::new("acme", "weekly").unwrap()).unwrap()
}

/// Changes the session so many times; its number afterwards.
#[track_caller]
fn change(broker: &Broker, times: u64) -> u64 {
    let mut seq = 0;
    for n in 0..times {
        let lock = format!(r#"{{"do": "lock", "locked": {}}}"#, n % 2 == 0);
        let done = call(broker, ("POST", "/v1/sessions/acme/weekly/commands"), &lock);
        seq = done["seq"].as_u64().unwrap();
    }
    seq
}

#[test]
fn a_subscriber_elsewhere_gets_every_change_once_over_a_cut_link_and_a_takeover() {
    let etcd = Etcd::start();
    let first = etcd.broker("first", &[]);
    let mut command = etcd.command("between", &[&first]);
    command.env("SANGAM_SESSIONS_ENABLED", "false");
    let between = Broker::of(command);
    let second = etcd.broker("second", &[&between]);
    done(&first, &["create", "acme/weekly"]);
    let mut follower = Follower::start(&second);
    follower.until(change(&first, CHANGES));

    // The only way between the two is gone, and sessions do not care.
    between.process.signal("STOP");
    let seq = change(&first, CHANGES);
    std::thread::park_timeout(OUTAGE);
    between.process.signal("CONT");
    follower.until(seq);
    let before = follower.order.epoch();

    let seq = change(&first, CHANGES);
    first.process.signal("KILL");
    drop(first);
    eventually("another server has it", || holds(&second));
    let last = change(&second, CHANGES);
    follower.until(last);
    assert!(last > seq && follower.order.epoch() > before);

    let path = "/v1/sessions/acme/weekly/events?after=0&limit=500";
    let kept = call(&second, ("GET", path), "");
    assert_eq!(follower.events, *kept["events"].as_array().unwrap());
    let mut late = Follower::start(&between);
    late.until(last);
    assert_eq!(late.events, follower.events);
}

#[test]
fn nobody_but_session_servers_tells_what_happens_in_sessions() {
    let broker = Broker::start(&[]);
    let mut stranger = client(&broker);
    let publisher = stranger.publish_reliable(&events()).unwrap();
    publisher.send(b"{}").unwrap();
    let until = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < until, "it is not refused");
        match stranger.recv(PAUSE) {
            Some(Received::Reliable(ReliableEvent::PublisherEnded(ended, why))) => {
                assert_eq!((ended, why), (publisher.id(), Refusal::Forbidden));
                break;
            }
            Some(Received::Reliable(ReliableEvent::Held(_))) => panic!("it is taken"),
            _ => {}
        }
    }
}

#[test]
fn a_grant_for_the_session_hears_what_happens_and_one_for_a_room_does_not() {
    let folder = TempDir::new().unwrap();
    let key = folder.path().join("tokens").display().to_string();
    assert!(run(&["token", "key", "--out", &key]).status.success());
    let mut command = Broker::command(&[]);
    command.env("SANGAM_AUTH_REQUIRED", "true");
    command.env("SANGAM_AUTH_KEYS", format!("{key}.pub"));
    command.env("SANGAM_SESSIONS_KEY", format!("{key}.key"));
    command.env("SANGAM_API_TOKEN", OPERATOR);
    let broker = Broker::of(command);
    done(&broker, &["create", "acme/weekly"]);
    let hears = |filter: &str| {
        let key = format!("{key}.key");
        let issue = [
            "token",
            "issue",
            "--key",
            &key,
            "--sub",
            "x",
            "--subscribe",
            filter,
        ];
        let token = text(&run(&issue).stdout).trim().to_owned();
        let options = ClientOptions {
            token: Some(Token::new(&token).unwrap()),
            ..ClientOptions::default()
        };
        let mut client = Client::connect(Target::Udp(broker.udp), options).unwrap();
        client.wait_up(PATIENCE).unwrap();
        client.subscribe_reliable(&events(), 1_000).unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            assert!(
                Instant::now() < until,
                "{filter}: neither heard nor refused"
            );
            match client.recv(PAUSE) {
                Some(Received::Reliable(ReliableEvent::Received { payload, .. })) => {
                    let news: News = serde_json::from_slice(&payload).unwrap();
                    assert_eq!(
                        (news.after, &news.events[0]["event"]),
                        (0, &"created".into())
                    );
                    return true;
                }
                Some(Received::Reliable(ReliableEvent::SubscriptionEnded(topic, why))) => {
                    assert_eq!((topic, why), (events(), Refusal::Forbidden));
                    return false;
                }
                _ => {}
            }
        }
    };
    assert!(hears("acme/weekly/#"));
    assert!(!hears("acme/weekly/main/#"));
}
