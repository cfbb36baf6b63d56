//! Which of several ways is kept, and for how long.

use sangam_broker::LOST_GRACE;

use super::*;

/// A broker that has joined C by way of A, as A's id is lower than B's.
pub(super) fn listener() -> Broker {
    let mut broker = broker();
    broker.routing.add(broker.now, &filter("a/room/#")).unwrap();
    let said = broker.hears(TO_B, sources(B, &[C]));
    assert_eq!(joins(&said), [(TO_A, join(C, &["a/room/#"]))]);
    broker
}

/// What is asked of a neighbour, and of which one.
pub(super) fn joined(said: &[(LinkId, Message)]) -> Vec<(LinkId, Option<BrokerId>)> {
    let asked = joins(said).into_iter();
    let asked = asked.filter(|(_, join)| !join.filters.is_empty());
    asked.map(|(link, join)| (link, join.avoid)).collect()
}

#[test]
fn a_way_that_costs_a_little_more_is_left_only_when_that_lasts() {
    let mut broker = listener();
    let dearer = |sequence, weight| state(A, sequence, &[(US, weight), (B, 3), (C, 3)]);
    broker.later(Duration::from_secs(1));
    assert_eq!(joined(&broker.hears(TO_A, dearer(2, 30))), []);
    assert_eq!(joined(&broker.later(Duration::from_secs(50))), []);
    // It is as short as the other again: the time begins anew.
    broker.hears(TO_A, dearer(3, 3));
    broker.later(PAUSE);
    broker.hears(TO_A, dearer(4, 30));
    assert_eq!(joined(&broker.later(Duration::from_secs(50))), []);
    let said = broker.later(Duration::from_secs(10));
    assert_eq!(joined(&said), [(TO_B, None)]);
}

#[test]
fn a_way_that_costs_much_more_is_left_after_seconds_and_a_hopeless_one_at_once() {
    let dearer = |weight| state(A, 2, &[(US, weight), (B, 3), (C, 3)]);
    let mut broker = listener();
    assert_eq!(joined(&broker.hears(TO_A, dearer(150))), []);
    let said = broker.later(Duration::from_secs(5));
    assert_eq!(joined(&said), [(TO_B, None)]);

    let mut broker = listener();
    let said = broker.hears(TO_A, dearer(900));
    assert_eq!(joined(&said), [(TO_B, None)]);
}

#[test]
fn a_neighbour_that_is_no_nearer_to_the_source_is_left_at_once() {
    let mut broker = listener();
    // Its own way is by B now, and might be by us if we kept to it.
    let said = broker.hears(TO_A, state(A, 2, &[(US, 3), (B, 3), (C, 30)]));
    assert_eq!(joined(&said), [(TO_B, None)]);
}

#[test]
fn a_link_in_doubt_is_no_reason_to_stay() {
    let mut broker = listener();
    broker.does(RoutingInput::LinkSuspect(TO_A));
    let said = broker.hears(TO_A, state(A, 2, &[(US, 30), (B, 3), (C, 3)]));
    assert!(joined(&said).contains(&(TO_B, None)), "{said:?}");
}

#[test]
fn a_detour_that_leads_nowhere_is_given_up() {
    let mut broker = broker();
    let third = LinkId(2);
    broker.does(RoutingInput::LinkUp(third, BrokerId(40)));
    let around = Join {
        avoid: Some(A),
        ..join(C, &["a/room/audio"])
    };
    let said = broker.hears(third, Message::Join(around));
    assert_eq!(joined(&said), [(TO_B, Some(A))]);
    // From now on there is a way to C, but only through A. What others want around it must not
    // be asked for ever: they might want it because of us.
    broker.hears(TO_B, state(B, 2, &[(US, 3), (A, 3)]));
    broker.hears(TO_B, state(C, 2, &[(A, 3)]));
    broker.later(PAUSE);
    assert_eq!(joins(&broker.later(LOST_GRACE / 2)), []);
    let said = broker.later(LOST_GRACE);
    let given_up = joins(&said);
    assert_eq!(given_up.len(), 1, "{said:?}");
    assert!(given_up[0].0 == TO_B && given_up[0].1.filters.is_empty());
}
