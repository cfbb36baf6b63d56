//! What a broker grants, and what it does not.

use std::time::{Duration, Instant};

use sangam_client::{Client, ClientError, ClientOptions, Outgoing, Received, Token};
use sangam_model::{Class, MediaInfo};
use sangam_wire::Refusal;

use crate::broker::{Command, Conduct};
use crate::support::{
    PATIENCE, TestBroker, Way, calm, event, eventually, filter, options, topic, wait,
};

#[test]
fn requests_past_the_brokers_limit_are_refused_with_the_reason() {
    for way in Way::ALL {
        let broker = TestBroker::start(
            way,
            Conduct {
                requests_max: 1,
                ..calm()
            },
        );
        let mut client = broker.subscriber("a");
        client.subscribe(&filter("b")).unwrap();
        let (refused, _) = wait(&mut client, |one| matches!(one, Received::Refused { .. }));
        let Received::Refused {
            filter: which,
            reason,
        } = refused
        else {
            panic!("{refused:?}")
        };
        assert_eq!((which, reason), (filter("b"), Refusal::Limit), "{way:?}");
        let error = client
            .publish(&topic("c"), MediaInfo::data(), PATIENCE)
            .unwrap_err();
        let ClientError::Publication { topic, reason } = error else {
            panic!("{error:?}")
        };
        assert_eq!((topic.as_str(), reason), ("c", Refusal::Limit));
    }
}

#[test]
fn a_wrong_token_is_told_and_a_right_one_brings_what_was_asked_for() {
    for way in Way::ALL {
        let conduct = Conduct {
            token: Some("right"),
            ..calm()
        };
        let broker = TestBroker::start(way, conduct);
        let options = ClientOptions {
            token: Some(Token::new(" wrong\n").unwrap()),
            ..options()
        };
        let mut client = Client::connect(broker.target(), options).unwrap();
        let error = client.wait_up(PATIENCE).unwrap_err();
        let reason = Refusal::Unauthenticated;
        assert!(
            matches!(error, ClientError::Token(told) if told == reason),
            "{error:?}"
        );
        client.set_token(Token::new("right").unwrap()).unwrap();
        wait(&mut client, |one| matches!(one, Received::Token(Ok(()))));
        client.wait_up(PATIENCE).unwrap();
    }
}

#[test]
fn an_unsubscribed_client_gets_nothing_more() {
    for way in Way::ALL {
        let broker = TestBroker::start(way, calm());
        let mut client = broker.subscriber("a/#");
        client.subscribe(&filter("b")).unwrap();
        client.unsubscribe(&filter("a/#")).unwrap();
        eventually(|| broker.seen().filters == 1);
        let mut other = client
            .publish(&topic("a/x"), MediaInfo::data(), PATIENCE)
            .unwrap();
        let mut wanted = client
            .publish(&topic("b"), MediaInfo::data(), PATIENCE)
            .unwrap();
        other.send(Outgoing::new(b"no")).unwrap();
        wanted.send(Outgoing::new(b"yes")).unwrap();
        let packet = event(&mut client);
        assert_eq!(
            packet.header().unwrap().stream,
            wanted.stream().unwrap(),
            "{way:?}"
        );
    }
}

#[test]
fn media_that_nobody_can_publish_is_refused_at_once() {
    let broker = TestBroker::start(Way::Udp, calm());
    let mut client = broker.client();
    let feedback = MediaInfo {
        class: Class::Feedback,
        ..MediaInfo::data()
    };
    let error = client.publish(&topic("a"), feedback, PATIENCE).unwrap_err();
    assert!(matches!(error, ClientError::Media(_)), "{error:?}");
}

#[test]
fn bytes_that_are_no_event_are_counted_and_harm_nothing() {
    let broker = TestBroker::start(Way::Udp, calm());
    let mut client = broker.subscriber("a");
    let junk: [&[u8]; 5] = [
        &[0],
        b"GET / HTTP/1.1",
        &[0x50],
        &[0x51, 0x0c, 0],
        &[0x5f, 99],
    ];
    for bytes in junk {
        broker.command(Command::Junk(bytes.to_vec()));
    }
    eventually(|| client.counters().dropped_malformed >= 5);
    let mut stream = client
        .publish(&topic("a"), MediaInfo::data(), PATIENCE)
        .unwrap();
    stream.send(Outgoing::new(b"fine")).unwrap();
    event(&mut client);
}

/// Who gathers what arrives naps after each arrival; what the application says ends the nap.
#[test]
fn what_the_application_says_does_not_wait_while_arrivals_are_gathered() {
    const WORDS: usize = 20;
    let gather = Duration::from_secs(1);
    let conduct = Conduct {
        keepalive_ms: 20_000,
        ..calm()
    };
    let broker = TestBroker::start(Way::Udp, conduct);
    let options = ClientOptions {
        gather,
        ..options()
    };
    let mut client = Client::connect(broker.target(), options).unwrap();
    client.wait_up(PATIENCE).unwrap();
    let begin = Instant::now();
    for number in 1..=WORDS {
        // The answer to the one before has come, and is being gathered.
        client.subscribe(&filter(&format!("a/{number}"))).unwrap();
        eventually(|| broker.seen().filters == number);
    }
    let naps = begin.elapsed().div_duration_f64(gather);
    assert!(naps < 5.0, "{WORDS} words took {naps:.1} naps");
    for _ in 0..WORDS {
        wait(&mut client, |one| matches!(one, Received::Subscribed(_)));
    }
}
