//! A broker whose clients need tokens: what they may do, until when, and who is kept out.

use std::sync::Arc;
use std::time::Duration;

use sangam_broker::DropReason;
use sangam_client::{Client, ClientError, ClientOptions, Outgoing, Received, Target, Token};
use sangam_io::clock;
use sangam_model::{Filter, Grants, MediaInfo, Time};
use sangam_node::{AuthError, Authority, Broker, BrokerConfig};
use sangam_wire::Refusal;

use crate::support::*;

/// Believes tokens of the form `good:MILLISECONDS:PUBLISH:SUBSCRIBE`, for the tenant `acme`.
#[derive(Debug)]
struct Trusting;

impl Authority for Trusting {
    fn verify(&self, token: &str, now: Time) -> Result<Grants, AuthError> {
        let parts: Vec<_> = token.split(':').collect();
        let ["good", ms, publish, subscribe] = parts[..] else {
            return Err(AuthError::Invalid("it is not good".to_owned()));
        };
        let ms = ms.parse().map_err(|_| AuthError::Expired)?;
        let filter = |text: &str| Filter::new(text).map(|filter| vec![filter]);
        Ok(Grants {
            tenant: "acme".to_owned(),
            publish: filter(publish).unwrap_or_default(),
            subscribe: filter(subscribe).unwrap_or_default(),
            gated: false,
            expires: now + Duration::from_millis(ms),
        })
    }
}

const LONG: &str = "good:3600000:acme/#:acme/#";

fn guarded(id: u32) -> BrokerConfig {
    BrokerConfig {
        authority: Some(Arc::new(Trusting)),
        ..config(id)
    }
}

fn with_token(token: &str) -> ClientOptions {
    ClientOptions {
        token: Some(Token::new(token).expect("a token")),
        ..options()
    }
}

fn ways(broker: &Broker) -> [Target; 2] {
    [Target::Udp(udp_of(broker)), Target::Tcp(tcp_of(broker))]
}

#[track_caller]
fn is_refused(client: &mut Client, text: &str, reason: Refusal) {
    let wanted = filter(text);
    client.subscribe(&wanted).expect("room");
    let answer = wait_for(client, "an answer", |one| {
        matches!(one, Received::Refused { .. } | Received::Subscribed(_))
    });
    let Received::Refused {
        filter,
        reason: why,
    } = answer
    else {
        panic!("{answer:?}")
    };
    assert_eq!((filter, why), (wanted, reason));
    client.unsubscribe(&self::filter(text)).expect("room");
}

#[track_caller]
fn token_verdict(client: &mut Client) -> Result<(), Refusal> {
    let told = wait_for(client, "a verdict", |one| matches!(one, Received::Token(_)));
    match told {
        Received::Token(verdict) => verdict,
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_token_nothing_is_published_or_received() {
    let broker = start(guarded(1));
    for way in ways(&broker) {
        let mut client = connect(way);
        is_refused(&mut client, "acme/a", Refusal::Forbidden);
        let error = client.publish(&topic("acme/a"), MediaInfo::data(), PATIENCE);
        let Err(ClientError::Publication { reason, .. }) = error else {
            panic!("{error:?}")
        };
        assert_eq!(reason, Refusal::Forbidden);
    }
    comes_to(4, || dropped(&broker, DropReason::NotGranted));
    assert!(broker.streams().is_empty());
}

#[test]
fn clients_in_the_process_need_no_token() {
    let broker = start(guarded(1));
    let mut client = door(&broker);
    subscribe(&mut client, "other/#");
}

#[test]
fn a_broker_that_asks_for_no_tokens_accepts_them_unread() {
    let broker = start(config(1));
    for way in ways(&broker) {
        let mut client = connect_with(way, with_token("whatever"));
        subscribe(&mut client, "other/#");
    }
}

#[test]
fn a_token_grants_its_topics_and_no_others() {
    let broker = start(guarded(1));
    for way in ways(&broker) {
        let token = "good:3600000:acme/weekly/anna:acme/weekly/+";
        let mut client = connect_with(way, with_token(token));
        subscribe(&mut client, "acme/weekly/+");
        subscribe(&mut client, "acme/weekly/bert");
        is_refused(&mut client, "acme/weekly/#", Refusal::Forbidden);
        is_refused(&mut client, "acme/daily/anna", Refusal::Forbidden);
        is_refused(&mut client, "other/weekly/anna", Refusal::Forbidden);
        let stream = publish(&mut client, "acme/weekly/anna");
        drop(stream);
        let error = client.publish(&topic("acme/weekly/bert"), MediaInfo::data(), PATIENCE);
        assert!(
            matches!(error, Err(ClientError::Publication { .. })),
            "{error:?}"
        );
    }
}

#[test]
fn what_is_asked_for_before_the_verdict_waits_for_it() {
    let broker = start(guarded(1));
    for way in ways(&broker) {
        let mut client = Client::connect(way, with_token(LONG)).unwrap();
        client.subscribe(&filter("acme/a")).unwrap();
        client.subscribe(&filter("acme/b")).unwrap();
        client.unsubscribe(&filter("acme/b")).unwrap();
        wait_for(
            &mut client,
            "it is taken",
            |one| matches!(one, Received::Subscribed(filter) if filter.as_str() == "acme/a"),
        );
    }
    assert_eq!(dropped(&broker, DropReason::NotGranted), 0);
}

#[test]
fn a_wrong_token_is_told_apart_from_an_expired_one() {
    let broker = start(guarded(1));
    for (token, reason) in [
        ("bad", Refusal::Unauthenticated),
        ("good:past:a:a", Refusal::Expired),
    ] {
        let target = Target::Udp(udp_of(&broker));
        let mut client = Client::connect(target, with_token(token)).unwrap();
        let error = client.wait_up(PATIENCE).unwrap_err();
        let ClientError::Token(why) = error else {
            panic!("{error:?}")
        };
        assert_eq!(why, reason);
        is_refused(&mut client, "acme/a", Refusal::Forbidden);
    }
    comes_to(2, || dropped(&broker, DropReason::TokenRefused));
}

#[test]
fn when_a_token_ends_so_does_what_it_granted_and_nothing_else() {
    let broker = start(guarded(1));
    for way in ways(&broker) {
        let mut other = connect_with(Target::Udp(udp_of(&broker)), with_token(LONG));
        subscribe(&mut other, "acme/short");
        let mut steady = publish(&mut other, "acme/steady");

        let mut client = connect_with(way, with_token("good:1500:acme/#:acme/#"));
        subscribe(&mut client, "acme/steady");
        let stream = publish(&mut client, "acme/short");
        let id = announced(&mut other, "acme/short");
        wait_for(&mut client, "its time is over", |one| {
            matches!(one, Received::Token(Err(Refusal::Expired)))
        });
        wait_for(&mut client, "the stream is gone", |one| {
            matches!(one, Received::Retired(_))
        });
        wait_for(
            &mut other,
            "the stream is gone",
            |one| matches!(one, Received::Retired(gone) if *gone == id),
        );
        assert_eq!(stream.stream(), None);
        steady.send(Outgoing::new(b"to nobody")).unwrap();

        client.set_token(Token::new(LONG).unwrap()).unwrap();
        assert_eq!(token_verdict(&mut client), Ok(()));
        announced(&mut client, "acme/steady");
        announced(&mut other, "acme/short");
        eventually("it is published again", || {
            stream.stream().is_some_and(|new| new != id)
        });
    }
}

#[test]
fn a_newer_token_goes_on_without_a_gap() {
    let broker = start(guarded(1));
    let mut publisher = connect_with(Target::Udp(udp_of(&broker)), with_token(LONG));
    let mut stream = publish(&mut publisher, "acme/a");
    let mut client = connect_with(
        Target::Udp(udp_of(&broker)),
        with_token("good:2000:a:acme/#"),
    );
    subscribe(&mut client, "acme/a");
    announced(&mut client, "acme/a");
    let first = clock::now();
    client
        .set_token(Token::new("good:3600000:a:acme/a").unwrap())
        .unwrap();
    let mut numbers = Vec::new();
    let mut take = |client: &mut Client| match client.recv(Duration::from_millis(1)) {
        Some(Received::Event(packet)) => numbers.push(number_of(&packet)),
        Some(Received::Token(verdict)) => assert_eq!(verdict, Ok(())),
        Some(other) => panic!("{other:?}"),
        None => {}
    };
    let mut sent = 0;
    while clock::now() - first < Duration::from_millis(3_000) {
        stream.send(Outgoing::new(&numbered(sent, 100))).unwrap();
        sent += 1;
        // The one that was sent, and a pause: who sends without one is a flood.
        take(&mut client);
        take(&mut client);
    }
    (0..100).for_each(|_| take(&mut client));
    // The way for the first may not have been open yet.
    let begin = numbers[0];
    assert!(begin < 3, "{begin}");
    assert!(numbers.into_iter().eq(begin..sent), "a gap among {sent}");
}

#[test]
fn a_narrower_token_ends_what_it_does_not_grant() {
    let broker = start(guarded(1));
    let mut other = connect_with(Target::Udp(udp_of(&broker)), with_token(LONG));
    let _a = publish(&mut other, "acme/a");
    let _b = publish(&mut other, "acme/b");
    let mut client = connect_with(Target::Udp(udp_of(&broker)), with_token(LONG));
    client.subscribe(&filter("acme/a")).unwrap();
    client.subscribe(&filter("acme/b")).unwrap();
    let (a, b) = (
        announced(&mut client, "acme/a"),
        announced(&mut client, "acme/b"),
    );
    let stream = publish(&mut client, "acme/c");
    client
        .set_token(Token::new("good:3600000:acme/x:acme/a").unwrap())
        .unwrap();
    let mut gone = Vec::new();
    while gone.len() < 2 {
        let retired = wait_for(&mut client, "an end", |one| {
            matches!(one, Received::Retired(_))
        });
        if let Received::Retired(id) = retired {
            gone.push(id);
        }
    }
    assert!(gone.contains(&b) && !gone.contains(&a), "{gone:?}");
    assert_eq!(stream.stream(), None);
    eventually("the stream ends", || broker.streams().len() == 2);
}

#[test]
fn a_flood_of_wrong_tokens_is_counted_and_no_longer_looked_at() {
    let broker = start(guarded(1));
    let mut good = connect_with(Target::Udp(udp_of(&broker)), with_token(LONG));
    subscribe(&mut good, "acme/a");
    let mut client = connect(Target::Tcp(tcp_of(&broker)));
    let mut limited = 0;
    for _ in 0..40 {
        client.set_token(Token::new("bad").unwrap()).unwrap();
        limited += usize::from(token_verdict(&mut client) == Err(Refusal::Limit));
    }
    assert!(limited >= 10, "{limited}");
    eventually("each is counted", || {
        dropped(&broker, DropReason::FloodToken) >= 10
    });
    let mut stream = publish(&mut good, "acme/b");
    stream.send(Outgoing::new(b"unharmed")).unwrap();
}

#[test]
fn an_address_has_so_many_clients_and_no_more() {
    let broker = start(BrokerConfig {
        clients_per_address: 2,
        ..config(1)
    });
    let first = udp(&broker);
    let _second = tcp(&broker);
    for way in ways(&broker) {
        let mut third = Client::connect(way, options()).unwrap();
        let error = third.wait_up(Duration::from_millis(500)).unwrap_err();
        let ClientError::Refused { reason, .. } = error else {
            panic!("{error:?}")
        };
        assert_eq!(reason, Refusal::Limit);
    }
    eventually("they are counted", || {
        dropped(&broker, DropReason::AddressFull) >= 2
    });
    drop(first);
    let _again = udp(&broker);
}
