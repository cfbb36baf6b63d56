//! Several brokers: each stream crosses a link once, and only where somebody listens.

use std::time::Duration;

use sangam_node::Broker;

use crate::support::*;

const EVENTS: u32 = 100;

/// Events each broker has sent to neighbours.
fn relayed(brokers: &[Broker]) -> Vec<u64> {
    let of = |broker| counted(broker, "sangam_relayed_packets_total");
    brokers.iter().map(of).collect()
}

/// What each broker relays while something happens.
fn relayed_during(brokers: &[Broker], act: impl FnOnce()) -> Vec<u64> {
    let before = settled(|| relayed(brokers));
    act();
    let after = settled(|| relayed(brokers));
    after
        .iter()
        .zip(before)
        .map(|(after, before)| after - before)
        .collect()
}

#[test]
fn in_a_chain_each_stream_crosses_a_link_once_and_ends_with_its_last_listener() {
    let brokers = chain(4);
    let mut publisher = udp(&brokers[0]);
    let mut at: Vec<_> = brokers.iter().map(udp).collect();
    let [near, second, third, last] = &mut at[..] else {
        panic!("four clients");
    };
    subscribe(last, "hall/#");
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [last]);
    let all = u64::from(EVENTS);
    // An event may overtake the first news of its stream; later none is lost.
    let before: Vec<_> = brokers.iter().map(drops).collect();

    let crossed = relayed_during(&brokers, || flow.pump(EVENTS, &mut [last]));
    assert_eq!(crossed, [all, all, all, 0]);

    // More listeners on the way cost no link anything.
    for listener in [&mut *near, second, third] {
        subscribe(listener, "hall/+");
    }
    flow.reach(&mut [near, second, third, last]);
    let crossed = relayed_during(&brokers, || {
        flow.pump(EVENTS, &mut [near, second, third, last]);
    });
    assert_eq!(crossed, [all, all, all, 0]);

    // Without the last two it ends earlier.
    last.unsubscribe(&filter("hall/#"))
        .expect("room for a request");
    third
        .unsubscribe(&filter("hall/+"))
        .expect("room for a request");
    routed(&brokers[1], "hall/stage", 0);
    let crossed = relayed_during(&brokers, || flow.pump(EVENTS, &mut [near, second]));
    assert_eq!(crossed, [all, 0, 0, 0]);
    eventually("the streams are forgotten where nobody listens", || {
        brokers[2].streams().is_empty() && brokers[3].streams().is_empty()
    });
    assert_eq!(brokers.iter().map(drops).collect::<Vec<_>>(), before);
}

#[test]
fn streams_of_both_ends_of_a_chain_cross_it_at_once() {
    let brokers = chain(3);
    let mut left = Witness::between(&brokers[0], &brokers[2]);
    let mut right = Witness::between(&brokers[2], &brokers[0]);
    let crossed = relayed_during(&brokers, || {
        left.is_unharmed();
        right.is_unharmed();
    });
    assert_eq!(crossed, [40, 80, 40]);
}

#[test]
fn interest_that_was_there_before_the_link_counts() {
    let mut brokers = vec![start(config(1))];
    let mut publisher = udp(&brokers[0]);
    let publication = publish(&mut publisher, "hall/stage");
    let second = start(config(2));
    let mut subscriber = udp(&second);
    subscribe(&mut subscriber, "hall/#");
    // Only now somebody joins the two.
    brokers.push(second);
    let bridge = start(linked(3, &[&brokers[0], &brokers[1]]));
    links_up(&bridge, 2);
    let mut flow = Flow::new(publication);
    flow.reach(&mut [&mut subscriber]);
    flow.pump(EVENTS, &mut [&mut subscriber]);
}

/// Three brokers, each linked to both others.
fn triangle() -> Vec<Broker> {
    let first = start(config(1));
    let second = start(linked(2, &[&first]));
    let third = start(linked(3, &[&first, &second]));
    let brokers = vec![first, second, third];
    brokers.iter().for_each(|broker| links_up(broker, 2));
    brokers
}

#[test]
fn in_a_triangle_everybody_gets_each_event_once_and_nothing_circles() {
    let brokers = triangle();
    let mut publishers: Vec<_> = brokers.iter().map(udp).collect();
    let mut listeners: Vec<_> = brokers.iter().map(udp).collect();
    listeners
        .iter_mut()
        .for_each(|listener| subscribe(listener, "hall/#"));
    let mut listeners: Vec<_> = listeners.iter_mut().collect();
    let mut flows: Vec<_> = (0..3)
        .map(|n| Flow::open(&mut publishers[n], &format!("hall/{n}"), &mut listeners))
        .collect();
    for flow in &mut flows {
        let crossed = relayed_during(&brokers, || flow.pump(EVENTS, &mut listeners));
        let total: u64 = crossed.iter().sum();
        // Two links are needed; the third may carry copies while ways change, never more.
        let (least, most) = (2 * u64::from(EVENTS), 4 * u64::from(EVENTS));
        assert!((least..=most).contains(&total), "{crossed:?}");
    }
    for listener in &mut listeners {
        silent(listener);
        listener
            .unsubscribe(&filter("hall/#"))
            .expect("room for a request");
    }
    for (n, broker) in brokers.iter().enumerate() {
        routed(broker, &format!("hall/{n}"), 0);
    }
    eventually("nobody believes in streams of others", || {
        brokers
            .iter()
            .all(|broker| broker.streams().iter().all(|stream| stream.local))
    });
    let crossed = relayed_during(&brokers, || {
        flows.iter_mut().for_each(|flow| flow.pump(EVENTS, &mut []));
        for (n, broker) in brokers.iter().enumerate() {
            eventually("all are taken", || {
                counted(broker, "sangam_unwanted_total") >= 100
            });
            assert_eq!(broker.streams().len(), 1, "broker {n}");
        }
    });
    assert_eq!(crossed, [0, 0, 0]);
}

#[test]
fn a_triangle_that_loses_a_broker_still_reaches_the_others() {
    let mut brokers = triangle();
    let mut publisher = udp(&brokers[0]);
    let mut listener = udp(&brokers[2]);
    subscribe(&mut listener, "hall/#");
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut [&mut listener]);
    drop(brokers.remove(1));
    flow.pump(EVENTS, &mut [&mut listener]);
    assert!(listener.recv(Duration::ZERO).is_none());
}
