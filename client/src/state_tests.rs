use sangam_model::{BrokerId, Incarnation};

use super::*;

const INFO: UpInfo = UpInfo {
    broker: None,
    clock_domain: 0,
    datagram_max: 1_472,
    keepalive: None,
};

fn stream(local: u32) -> StreamId {
    StreamId::new(BrokerId(1), Incarnation(1), local)
}

fn published(state: &mut State) -> (Arc<Publication>, u32) {
    let topic = Topic::new("a/b").unwrap();
    let (publication, message) = state.publish(&topic, MediaInfo::data()).unwrap();
    let Message::Publish { request, .. } = message else {
        panic!("{message:?}")
    };
    (publication, request)
}

/// Takes an answer; what is told in return.
fn applied(state: &mut State, message: &Message) -> Vec<Message> {
    let mut replies = Vec::new();
    state.apply(message, |reply| replies.push(reply));
    replies
}

fn token(text: &str) -> Token {
    Token::new(text).unwrap()
}

fn request_of(message: &Message) -> u32 {
    match message {
        Message::Authenticate { request, .. } | Message::Publish { request, .. } => *request,
        other => panic!("{other:?}"),
    }
}

/// A state that is up with a live publication under an accepted token: all of it, and the
/// token's request.
fn live_with_token() -> (State, Arc<Publication>, u32) {
    let mut state = State::new(Link::Down, Some(token("one")));
    let (publication, _) = published(&mut state);
    let mut asked = Vec::new();
    state.up(INFO, |message| asked.push(message));
    let (shown, wish) = (request_of(&asked[0]), request_of(&asked[1]));
    applied(&mut state, &Message::Accepted { request: shown });
    let answer = Message::Published {
        request: wish,
        stream: stream(1),
    };
    applied(&mut state, &answer);
    (state, publication, shown)
}

#[test]
fn the_token_is_shown_before_anything_is_asked_for() {
    let mut state = State::new(Link::Down, Some(token("one")));
    state.subscribe(&Filter::new("a").unwrap()).unwrap();
    assert_eq!(state.verdict(), None);
    for _ in 0..2 {
        let mut asked = Vec::new();
        state.up(INFO, |message| asked.push(message));
        let [
            Message::Authenticate { request, token },
            Message::Subscribe { .. },
        ] = &asked[..]
        else {
            panic!("{asked:?}")
        };
        assert_eq!(token, "one");
        assert_eq!(state.verdict(), None);
        applied(&mut state, &Message::Accepted { request: *request });
        assert_eq!(state.verdict(), Some(Ok(())));
    }
}

#[test]
fn what_ends_with_a_token_is_asked_for_again_under_the_next() {
    let (mut state, publication, shown) = live_with_token();
    let over = Message::Refused {
        request: shown,
        reason: Refusal::Expired,
    };
    assert_eq!(applied(&mut state, &over), []);
    assert_eq!(state.verdict(), Some(Err(Refusal::Expired)));
    assert_eq!(
        state.standing(&publication),
        Standing::Refused(Refusal::Expired)
    );
    assert!(matches!(
        state.read(over),
        Some(Received::Token(Err(Refusal::Expired)))
    ));

    let request = request_of(&state.set_token(token("two")));
    let asked = applied(&mut state, &Message::Accepted { request });
    assert!(matches!(asked[..], [Message::Publish { .. }]), "{asked:?}");
}

#[test]
fn a_newer_token_goes_on_without_a_gap_and_a_wrong_one_changes_nothing() {
    let (mut state, publication, shown) = live_with_token();
    let request = request_of(&state.set_token(token("wrong")));
    let reason = Refusal::Unauthenticated;
    applied(&mut state, &Message::Refused { request, reason });
    assert_eq!(state.verdict(), Some(Ok(())));
    assert!(publication.stream().is_some());

    let request = request_of(&state.set_token(token("two")));
    assert_eq!(applied(&mut state, &Message::Accepted { request }), []);
    assert!(publication.stream().is_some());
    // The broker has replaced the first one, whose end means nothing any more.
    let late = Message::Refused {
        request: shown,
        reason: Refusal::Expired,
    };
    applied(&mut state, &late);
    assert!(publication.stream().is_some());
}

#[test]
fn a_stream_that_a_narrower_token_does_not_grant_is_refused() {
    let (mut state, publication, _) = live_with_token();
    applied(&mut state, &Message::Retire { stream: stream(1) });
    assert_eq!(
        state.standing(&publication),
        Standing::Refused(Refusal::Forbidden)
    );
}

#[test]
fn a_reconnection_asks_again_under_new_numbers() {
    let mut state = State::new(Link::Down, None);
    let first = state
        .subscribe(&Filter::new("a/#").unwrap())
        .unwrap()
        .unwrap();
    let (publication, request) = published(&mut state);
    let answer = Message::Published {
        request,
        stream: stream(1),
    };
    assert_eq!(applied(&mut state, &answer), []);
    assert_eq!(publication.stream(), Some(stream(1)));

    let mut asked = Vec::new();
    state.up(INFO, |message| asked.push(message));
    assert_eq!(publication.stream(), None);
    let [
        Message::Subscribe { request: again, .. },
        Message::Publish { request: new, .. },
    ] = asked[..]
    else {
        panic!("{asked:?}");
    };
    assert!(!matches!(first, Message::Subscribe { request, .. } if request == again));
    // The answer of the earlier link comes late.
    let late = Message::Published {
        request,
        stream: stream(2),
    };
    assert_eq!(
        applied(&mut state, &late),
        [Message::Unpublish { stream: stream(2) }]
    );
    assert_eq!(publication.stream(), None);
    let answer = Message::Published {
        request: new,
        stream: stream(3),
    };
    assert_eq!(applied(&mut state, &answer), []);
    assert_eq!(publication.stream(), Some(stream(3)));
}

#[test]
fn a_subscription_is_asked_for_once() {
    let mut state = State::new(Link::Down, None);
    let filter = Filter::new("a/+").unwrap();
    assert!(state.subscribe(&filter).unwrap().is_some());
    assert!(state.subscribe(&filter).unwrap().is_none());
    assert!(state.unsubscribe(&filter).is_some());
    assert!(state.unsubscribe(&filter).is_none());
}

#[test]
fn limits_are_told_before_the_broker_has_to() {
    let mut state = State::new(Link::Up(INFO), None);
    for number in 0..FILTERS_PER_CLIENT {
        state
            .subscribe(&Filter::new(&format!("a/{number}")).unwrap())
            .unwrap();
    }
    let one_more = state.subscribe(&Filter::new("b").unwrap());
    assert!(matches!(one_more, Err(ClientError::Filters)));
    for _ in 0..STREAMS_PER_CLIENT {
        published(&mut state);
    }
    let one_more = state.publish(&Topic::new("b").unwrap(), MediaInfo::data());
    assert!(matches!(one_more, Err(ClientError::Streams)));
}
