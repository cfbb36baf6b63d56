//! What brokers tell of themselves and their links.

use super::*;

#[test]
fn a_record_is_passed_on_once_and_not_back() {
    let mut broker = broker();
    let news = state(C, 2, &[(A, 3)]);
    let said = broker.hears(TO_A, news.clone());
    assert_eq!(said, [(TO_B, news.clone())]);
    assert_eq!(broker.hears(TO_B, news), []);
}

#[test]
fn a_replayed_record_is_counted_and_answered_with_the_newer_one() {
    let mut broker = broker();
    let new = state(C, 2, &[(A, 3)]);
    broker.hears(TO_A, new.clone());
    let said = broker.hears(TO_B, state(C, 1, &[(A, 3), (B, 3)]));
    assert_eq!(said, [(TO_B, new)]);
    assert_eq!(broker.routing.refused().stale, 1);
}

#[test]
fn a_forged_record_of_ours_is_overtaken() {
    let mut broker = broker();
    let said = broker.hears(TO_A, state(US, 70, &[]));
    assert_eq!(broker.routing.refused().invalid, 1);
    let said = [said, broker.later(Duration::from_millis(30))].concat();
    let own = states(&said);
    assert_eq!(own.len(), 2, "one for each link");
    let (_, state) = &own[0];
    assert_eq!((state.version.sequence, state.links.len()), (71, 2));
}

#[test]
fn another_broker_with_our_id_is_told_apart_by_its_life() {
    let mut broker = broker();
    let mut other = match state(US, 1, &[]) {
        Message::LinkState(state) => state,
        _ => unreachable!(),
    };
    other.version.incarnation = Incarnation(1);
    broker.hears(TO_A, Message::LinkState(other));
    assert_eq!(broker.routing.refused().identity, 1);
}

#[test]
fn both_sides_of_a_new_link_send_what_the_other_lacks() {
    let mut broker = broker();
    let entries = [(A, 1), (B, 7)].map(|(origin, sequence)| Version {
        origin,
        incarnation: Incarnation(0),
        sequence,
    });
    let digest = Message::Digest {
        last: true,
        entries: entries.to_vec(),
    };
    let said = broker.hears(TO_A, digest);
    let told: Vec<_> = states(&said)
        .iter()
        .map(|(_, state)| state.version.origin)
        .collect();
    assert_eq!(told, [US, C]);
}

#[test]
fn brokers_are_forgotten_when_they_are_silent_for_long() {
    let mut broker = broker();
    broker.later(EXPIRY);
    assert_eq!(broker.routing.brokers().count(), 1);
    assert_eq!(
        broker.routing.standing(C, Incarnation(0)),
        Standing::Unknown
    );
}

#[test]
fn our_record_is_told_again_in_time() {
    let mut broker = broker();
    broker.later(Duration::from_secs(1));
    assert_eq!(states(&broker.later(REFRESH / 2)), []);
    assert_eq!(states(&broker.later(REFRESH / 2)).len(), 2);
}

#[test]
fn a_broker_that_drains_is_avoided() {
    let mut broker = broker();
    broker.routing.add(broker.now, &filter("a/room/#")).unwrap();
    broker.hears(TO_B, sources(B, &[C]));
    let Message::LinkState(mut leaving) = state(A, 2, &[(US, 3), (B, 3), (C, 3)]) else {
        unreachable!()
    };
    leaving.draining = true;
    let said = broker.hears(TO_A, Message::LinkState(leaving));
    assert_eq!(joins(&said), [(TO_B, join(C, &["a/room/#"]))]);
}

#[test]
fn what_links_measure_becomes_their_weight() {
    let mut broker = broker();
    broker.later(Duration::from_secs(1));
    broker.later(Duration::from_secs(1));
    let measured = Measured {
        rtt: Duration::from_millis(40),
        ..Measured::default()
    };
    let said = broker.does(RoutingInput::LinkMeasured(TO_A, &measured));
    let own = states(&said);
    let weights: Vec<_> = own[0].1.links.iter().map(|link| link.weight).collect();
    assert_eq!(weights, [203, 3]);
    broker.routing.pin(broker.now, TO_A, Some(5));
    broker.later(Duration::from_millis(20));
    assert_eq!(broker.routing.links().next().unwrap().weight, 5);
}

#[test]
fn what_a_broker_says_of_itself_reaches_its_neighbours() {
    let mut broker = broker();
    broker.later(Duration::from_secs(1));
    broker.later(Duration::from_secs(1));
    let description = Description {
        region: "eu".to_owned(),
        address: "192.0.2.1:4600".to_owned(),
        load: 40,
        draining: true,
    };
    broker.routing.describe(broker.now, description);
    let said = broker.said();
    let (_, state) = &states(&said)[0];
    assert_eq!(
        (state.region.as_str(), state.load, state.draining),
        ("eu", 40, true)
    );
}

#[test]
fn ways_follow_the_first_of_many_records_at_once_and_the_others_together() {
    let mut broker = broker();
    let epoch = broker.routing.epoch();
    broker.hears(TO_A, state(C, 2, &[(A, 3)]));
    let first = broker.routing.epoch();
    assert_ne!(first, epoch);
    broker.hears(TO_A, state(C, 3, &[]));
    assert_eq!(broker.routing.epoch(), first);
    assert_eq!(broker.routing.deadline(), Some(broker.now + PAUSE));
    broker.later(PAUSE);
    assert!(!broker.routing.has_way(C));
    // A link of our own does not wait.
    broker.does(RoutingInput::LinkDown(TO_B));
    assert!(broker.routing.has_way(B));
    broker.does(RoutingInput::LinkDown(TO_A));
    assert!(!broker.routing.has_way(A));
}
