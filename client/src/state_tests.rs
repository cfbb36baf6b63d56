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

#[test]
fn a_reconnection_asks_again_under_new_numbers() {
    let mut state = State::new(Link::Down);
    let first = state
        .subscribe(&Filter::new("a/#").unwrap())
        .unwrap()
        .unwrap();
    let (publication, request) = published(&mut state);
    state.apply(&Message::Published {
        request,
        stream: stream(1),
    });
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
        state.apply(&late),
        Some(Message::Unpublish { stream: stream(2) })
    );
    assert_eq!(publication.stream(), None);
    state.apply(&Message::Published {
        request: new,
        stream: stream(3),
    });
    assert_eq!(publication.stream(), Some(stream(3)));
}

#[test]
fn a_subscription_is_asked_for_once() {
    let mut state = State::new(Link::Down);
    let filter = Filter::new("a/+").unwrap();
    assert!(state.subscribe(&filter).unwrap().is_some());
    assert!(state.subscribe(&filter).unwrap().is_none());
    assert!(state.unsubscribe(&filter).is_some());
    assert!(state.unsubscribe(&filter).is_none());
}

#[test]
fn limits_are_told_before_the_broker_has_to() {
    let mut state = State::new(Link::Up(INFO));
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
