//! What operators and thresholds say about links holds, whichever way the links go.

use sangam_model::BrokerId;
use sangam_node::{BrokerConfig, LinkRules, PinnedBy};

use crate::support::*;

/// What the broker's link to another costs, and by whom, while there is one.
fn cost(broker: &sangam_node::Broker, peer: u32) -> Option<(u16, Option<PinnedBy>)> {
    let weights = broker.brief(0).weights;
    let of = |(id, weight, by): (BrokerId, u16, _)| (id == BrokerId(peer)).then_some((weight, by));
    weights.into_iter().find_map(of)
}

#[test]
fn a_weight_that_is_taken_back_while_the_link_is_down_does_not_come_back_with_it() {
    let first = start(config(1));
    let second = start(linked(2, &[&first]));
    links_up(&first, 1);
    let threshold = |weight| first.weigh(BrokerId(2), PinnedBy::Threshold, weight);
    threshold(Some(10_000));
    assert_eq!(cost(&first, 2), Some((10_000, Some(PinnedBy::Threshold))));
    drop(second);
    eventually("the link is down", || cost(&first, 2).is_none());
    threshold(None);
    let _second = start(linked(2, &[&first]));
    links_up(&first, 1);
    eventually("the link is measured", || {
        cost(&first, 2).is_some_and(|(weight, by)| weight < 10_000 && by.is_none())
    });
}

#[test]
fn the_configuration_outranks_a_threshold_and_a_command_both() {
    let first = start(config(1));
    let weights = [(BrokerId(1), 500)].into();
    let second = start(BrokerConfig {
        rules: LinkRules {
            weights,
            ..LinkRules::default()
        },
        ..linked(2, &[&first])
    });
    links_up(&second, 1);
    second.weigh(BrokerId(1), PinnedBy::Threshold, Some(10_000));
    let configured = PinnedBy::Configuration;
    eventually("the link is there", || cost(&second, 1).is_some());
    assert_eq!(cost(&second, 1), Some((500, Some(configured))));
    second.weigh(BrokerId(1), PinnedBy::Command, Some(7));
    assert_eq!(cost(&second, 1), Some((7, Some(PinnedBy::Command))));
    second.set_rules(LinkRules::default());
    second.weigh(BrokerId(1), PinnedBy::Command, None);
    assert_eq!(cost(&second, 1), Some((10_000, Some(PinnedBy::Threshold))));
}

#[test]
fn a_link_that_is_forbidden_ends_and_comes_again_when_it_is_allowed() {
    let first = start(config(1));
    let second = start(linked(2, &[&first]));
    for broker in [&first, &second] {
        let peer = BrokerId(3 - broker.id().0);
        links_up(broker, 1);
        broker.forbid(peer, true);
        links_up(&first, 0);
        links_up(&second, 0);
        assert_eq!(broker.rules().forbidden, [(peer, true)]);
        broker.forbid(peer, false);
        links_up(&first, 1);
        links_up(&second, 1);
    }
}

#[test]
fn a_broker_that_joins_plans_without_those_that_are_forbidden() {
    let first = start(config(1));
    let seed = udp_of(&first);
    let join = |id, forbidden: &[u32]| {
        start(BrokerConfig {
            join: vec![seed.into()],
            rules: LinkRules {
                forbidden: forbidden.iter().copied().map(BrokerId).collect(),
                ..LinkRules::default()
            },
            ..config(id)
        })
    };
    let second = join(2, &[]);
    links_up(&second, 1);
    let third = join(3, &[2]);
    let fourth = join(4, &[]);
    // Of four each would be linked with all others.
    links_up(&first, 3);
    links_up(&fourth, 3);
    links_up(&third, 2);
    links_up(&second, 2);
    let known = third.map().expect("a map");
    assert!(known.brokers.iter().any(|one| one.id == BrokerId(2)));
    assert_eq!(cost(&third, 2), None);
}
