//! The broker dies and returns.

use sangam_client::{Client, ClientError, Outgoing, Received, SendError};
use sangam_model::MediaInfo;
use sangam_wire::{Event, Refusal};

use crate::broker::Conduct;
use crate::support::{PATIENCE, TestBroker, Way, calm, event, eventually, options, topic, wait};

/// A dead broker is missed soon.
fn nervous(incarnation: u8) -> Conduct {
    Conduct {
        keepalive_ms: 250,
        incarnation,
        ..calm()
    }
}

const NETWORK: [Way; 4] = [Way::Udp, Way::Udp6, Way::Tcp, Way::Tcp6];

#[test]
fn subscriptions_and_publications_are_restored() {
    for way in NETWORK {
        let mut broker = TestBroker::start(way, nervous(1));
        let mut subscriber = broker.subscriber("a/#");
        let mut publisher = broker.client();
        let mut stream = publisher
            .publish(&topic("a/b"), MediaInfo::data(), PATIENCE)
            .unwrap();
        let first = stream.stream();
        stream.send(Outgoing::new(b"before")).unwrap();
        assert_eq!(
            Event::decode(&event(&mut subscriber)).unwrap().payload,
            b"before"
        );

        broker.stop();
        wait(&mut subscriber, |one| matches!(one, Received::Down(_)));
        wait(&mut publisher, |one| matches!(one, Received::Down(_)));
        assert_eq!(stream.stream(), None);
        assert_eq!(stream.send(Outgoing::new(b"lost")), Err(SendError::Down));
        assert_eq!(publisher.counters().dropped_down, 1);

        broker.restart(nervous(2));
        wait(&mut subscriber, |one| matches!(one, Received::Up(_)));
        wait(&mut subscriber, |one| {
            matches!(one, Received::Subscribed(_))
        });
        // The publisher needs nobody who receives.
        eventually(|| stream.stream().is_some());
        assert_ne!(stream.stream(), first, "{way:?}");
        stream.send(Outgoing::new(b"after")).unwrap();
        let (_, before) = wait(&mut subscriber, |one| matches!(one, Received::Event(_)));
        let announced = before.iter().any(|one| {
            matches!(one, Received::Announce { stream: id, .. } if Some(*id) == stream.stream())
        });
        assert!(announced, "{way:?}: {before:?}");
        assert_eq!(publisher.counters().ups, 2);
    }
}

#[test]
fn a_client_may_be_there_before_its_broker() {
    for way in NETWORK {
        let mut broker = TestBroker::start(way, calm());
        broker.stop();
        let mut client = Client::connect(broker.target(), options()).unwrap();
        client.subscribe(&crate::support::filter("a")).unwrap();
        broker.restart(calm());
        let mut stream = client
            .publish(&topic("a"), MediaInfo::data(), PATIENCE)
            .unwrap();
        wait(&mut client, |one| matches!(one, Received::Subscribed(_)));
        stream.send(Outgoing::new(b"here")).unwrap();
        assert_eq!(
            Event::decode(&event(&mut client)).unwrap().payload,
            b"here",
            "{way:?}"
        );
    }
}

#[test]
fn a_client_without_a_broker_says_what_to_check() {
    for way in NETWORK {
        let mut broker = TestBroker::start(way, calm());
        broker.stop();
        let mut client = Client::connect(broker.target(), options()).unwrap();
        let brief = std::time::Duration::from_millis(50);
        let error = client.wait_up(brief).unwrap_err();
        assert!(matches!(error, ClientError::NoAnswer { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&broker.target().to_string()), "{text}");
        assert!(text.contains("check the address"), "{text}");
    }
}

#[test]
fn a_refused_client_hears_the_reason_and_stays_away() {
    for way in NETWORK {
        let never = Conduct {
            refuse: Some((Refusal::Forbidden, 0)),
            ..calm()
        };
        let broker = TestBroker::start(way, never);
        let mut client = Client::connect(broker.target(), options()).unwrap();
        let error = client.wait_up(PATIENCE).unwrap_err();
        let refused = matches!(
            error,
            ClientError::Refused {
                reason: Refusal::Forbidden,
                ..
            }
        );
        assert!(refused, "{way:?}: {error:?}");
        wait(&mut client, |one| {
            matches!(one, Received::Down(Refusal::Forbidden))
        });
    }
}

#[test]
fn a_full_broker_is_asked_again_when_it_says_so() {
    for way in NETWORK {
        let full = Conduct {
            refuse: Some((Refusal::Full, 10)),
            ..calm()
        };
        let mut broker = TestBroker::start(way, full);
        let mut client = Client::connect(broker.target(), options()).unwrap();
        wait(&mut client, |one| {
            matches!(one, Received::Down(Refusal::Full))
        });
        broker.restart(calm());
        client.wait_up(PATIENCE).unwrap();
    }
}

#[test]
fn the_end_of_a_broker_in_process_is_told_once() {
    let mut broker = TestBroker::start(Way::Door, calm());
    let mut client = broker.client();
    let mut stream = client
        .publish(&topic("a"), MediaInfo::data(), PATIENCE)
        .unwrap();
    broker.stop();
    wait(&mut client, |one| {
        matches!(one, Received::Down(Refusal::Leaving))
    });
    assert!(client.recv(PATIENCE).is_none());
    assert!(client.is_closed());
    assert_eq!(stream.send(Outgoing::new(b"x")), Err(SendError::Closed));
    assert!(matches!(client.wait_up(PATIENCE), Err(ClientError::Closed)));
}
