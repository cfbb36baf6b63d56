//! Who gets which event.

use sangam_client::Received;
use sangam_node::Queuing;

use crate::support::*;

#[test]
fn clients_over_udp_tcp_and_doors_see_the_same_events() {
    let broker = start(config(1));
    let (mut by_udp, mut by_tcp, mut by_door) = (udp(&broker), tcp(&broker), door(&broker));
    let mut subscribers = [&mut by_udp, &mut by_tcp, &mut by_door];
    subscribers
        .iter_mut()
        .for_each(|subscriber| subscribe(subscriber, "hall/stage"));
    for publisher in &mut [udp(&broker), tcp(&broker), door(&broker)] {
        let mut flow = Flow::open(publisher, "hall/stage", &mut subscribers);
        flow.pump(200, &mut subscribers);
    }
    assert_eq!(drops(&broker), []);
}

#[test]
fn clients_reach_a_broker_over_ipv6() {
    let broker = start(config_v6(1));
    assert!(udp_of(&broker).is_ipv6() && tcp_of(&broker).is_ipv6());
    let (mut by_udp, mut by_tcp, mut publisher) = (udp(&broker), tcp(&broker), udp(&broker));
    for subscriber in [&mut by_udp, &mut by_tcp] {
        subscribe(subscriber, "hall/+");
    }
    let mut subscribers = [&mut by_udp, &mut by_tcp];
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut subscribers);
    flow.pump(100, &mut subscribers);
    assert_eq!(drops(&broker), []);
}

#[test]
fn one_broker_serves_both_address_families() {
    let mut both = config(1);
    both.udp.extend(config_v6(1).udp);
    both.tcp.extend(config_v6(1).tcp);
    let broker = start(both);
    let addresses = broker.addresses().clone();
    assert_eq!(addresses.udp[0].port(), addresses.udp[1].port());
    let mut clients: Vec<_> = addresses
        .udp
        .iter()
        .map(|address| connect(sangam_client::Target::Udp(*address)))
        .chain(
            addresses
                .tcp
                .iter()
                .map(|address| connect(sangam_client::Target::Tcp(*address))),
        )
        .collect();
    clients
        .iter_mut()
        .for_each(|client| subscribe(client, "hall/#"));
    let mut publisher = connect(sangam_client::Target::Udp(addresses.udp[1]));
    let mut subscribers: Vec<_> = clients.iter_mut().collect();
    let mut flow = Flow::open(&mut publisher, "hall/stage", &mut subscribers);
    flow.pump(50, &mut subscribers);
}

#[test]
fn wildcards_select_as_topics_say() {
    let broker = start(config(1));
    let mut publisher = udp(&broker);
    let mut one_level = udp(&broker);
    let mut all_below = udp(&broker);
    let mut exact = udp(&broker);
    subscribe(&mut one_level, "acme/+/audio");
    subscribe(&mut all_below, "acme/#");
    subscribe(&mut exact, "acme/daily/audio");

    let mut everybody = [&mut one_level, &mut all_below, &mut exact];
    let mut daily = Flow::open(&mut publisher, "acme/daily/audio", &mut everybody);
    daily.pump(10, &mut everybody);
    let mut wild = [&mut one_level, &mut all_below];
    let mut weekly = Flow::open(&mut publisher, "acme/weekly/audio", &mut wild);
    weekly.pump(10, &mut wild);
    let mut deep = Flow::open(
        &mut publisher,
        "acme/weekly/audio/left",
        &mut [&mut all_below],
    );
    deep.pump(10, &mut [&mut all_below]);
    let mut video = Flow::open(&mut publisher, "acme/weekly/video", &mut [&mut all_below]);
    video.pump(10, &mut [&mut all_below]);

    silent(&mut one_level);
    silent(&mut exact);
}

#[test]
fn overlapping_filters_deliver_an_event_once() {
    let broker = start(config(1));
    let (mut publisher, mut subscriber) = (udp(&broker), udp(&broker));
    for text in ["acme/daily", "acme/+", "acme/#", "+/daily"] {
        subscribe(&mut subscriber, text);
    }
    let mut flow = Flow::open(&mut publisher, "acme/daily", &mut [&mut subscriber]);
    flow.pump(50, &mut [&mut subscriber]);

    // One of them is enough to go on.
    for text in ["acme/daily", "acme/#", "+/daily"] {
        subscriber
            .unsubscribe(&filter(text))
            .expect("room for a request");
    }
    flow.pump(50, &mut [&mut subscriber]);
    subscriber
        .unsubscribe(&filter("acme/+"))
        .expect("room for a request");
    wait_for(&mut subscriber, "the stream is retired", |received| {
        matches!(received, Received::Retired(_))
    });
}

#[test]
fn a_publisher_does_not_hear_itself() {
    let broker = start(config(1));
    for mut publisher in [udp(&broker), tcp(&broker), door(&broker)] {
        let mut other = udp(&broker);
        subscribe(&mut publisher, "echo/#");
        subscribe(&mut other, "echo/#");
        let mut flow = Flow::open(&mut publisher, "echo/chamber", &mut [&mut other]);
        flow.pump(20, &mut [&mut other]);
        silent(&mut publisher);
    }
}

#[test]
fn a_stream_that_ends_is_retired_everywhere() {
    let broker = start(config(1));
    let (mut publisher, mut subscriber) = (udp(&broker), tcp(&broker));
    subscribe(&mut subscriber, "hall/#");
    let flow = publish(&mut publisher, "hall/stage");
    let stream = announced(&mut subscriber, "hall/stage");
    drop(flow);
    wait_for(
        &mut subscriber,
        "the stream is retired",
        |received| matches!(received, Received::Retired(retired) if *retired == stream),
    );
    assert!(broker.streams().is_empty());

    // The client leaves without a word about its stream.
    let leaving = publish(&mut publisher, "hall/stage");
    let stream = announced(&mut subscriber, "hall/stage");
    drop(publisher);
    wait_for(
        &mut subscriber,
        "the stream of a client that left is retired",
        |received| matches!(received, Received::Retired(retired) if *retired == stream),
    );
    drop(leaving);
}

#[test]
fn a_broker_with_a_single_queue_serves_all_transports_and_links() {
    let single = |mut config: sangam_node::BrokerConfig| {
        config.queuing = Queuing::Single;
        start(config)
    };
    let first = single(config(1));
    let second = single(linked(2, &[&first]));
    links_up(&first, 1);
    let mut publishers = [udp(&first), tcp(&first), door(&first)];
    let mut near = udp(&first);
    let (mut by_udp, mut by_tcp, mut by_door) = (udp(&second), tcp(&second), door(&second));
    for (place, publisher) in publishers.iter_mut().enumerate() {
        let name = format!("hall/{place}");
        let mut subscribers = [&mut near, &mut by_udp, &mut by_tcp, &mut by_door];
        subscribers
            .iter_mut()
            .for_each(|subscriber| subscribe(subscriber, &name));
        let mut flow = Flow::open(publisher, &name, &mut subscribers);
        flow.pump(50, &mut subscribers);
    }
}

#[test]
fn large_events_reach_every_transport_whole() {
    let broker = start(config(1));
    let (mut publisher, mut by_udp, mut by_tcp) = (udp(&broker), udp(&broker), tcp(&broker));
    subscribe(&mut by_udp, "blobs");
    subscribe(&mut by_tcp, "blobs");
    let mut subscribers = [&mut by_udp, &mut by_tcp];
    let mut flow = Flow::open(&mut publisher, "blobs", &mut subscribers);
    for len in [1_458, 1_459, 2_048, 16_000] {
        flow.len = len;
        // A few at a time: each fills many datagrams.
        for _ in 0..4 {
            flow.pump(4, &mut subscribers);
        }
    }
    assert_eq!(drops(&broker), []);
}
