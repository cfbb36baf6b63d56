//! Past every limit there is an answer or a counter, and nobody else notices.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use sangam_broker::{DropReason, WIDE_FILTERS_MAX};
use sangam_client::{Client, ClientError, Outgoing, Received, SendError, Target};
use sangam_model::{MediaInfo, limits};
use sangam_node::BrokerConfig;
use sangam_wire::{Frame, Message, Refusal};

use crate::support::raw::*;
use crate::support::*;

#[test]
fn subscriptions_past_the_limit_are_refused_and_the_others_stay() {
    let broker = start(config(1));
    let mut witness = Witness::of(&broker);
    let mut publisher = udp(&broker);
    let last = format!("many/{}", limits::FILTERS_PER_CLIENT - 1);
    let mut flow = Flow::new(publish(&mut publisher, &last));
    for mut greedy in [Raw::udp(udp_of(&broker)), Raw::tcp(tcp_of(&broker))] {
        for number in 0..limits::FILTERS_PER_CLIENT {
            let answer = greedy.subscribe(&format!("many/{number}"));
            assert!(
                matches!(answer, Message::Accepted { .. }),
                "{number}: {answer:?}"
            );
        }
        let before = dropped(&broker, DropReason::FiltersFull);
        let answer = greedy.subscribe("one/more");
        assert!(
            matches!(
                answer,
                Message::Refused {
                    reason: Refusal::Limit,
                    ..
                }
            ),
            "{answer:?}"
        );
        comes_to(before + 1, || dropped(&broker, DropReason::FiltersFull));
        // To say a filter again is no further one.
        assert!(matches!(greedy.subscribe(&last), Message::Accepted { .. }));

        eventually("what was accepted is delivered", || {
            flow.pump(1, &mut []);
            greedy.event(Duration::from_millis(20)).is_some()
        });
        witness.is_unharmed();
    }
}

#[test]
fn a_filter_that_neighbours_cannot_be_asked_for_is_refused_to_all_who_hold_it() {
    let far = start(config(1));
    let near = start(linked(2, &[&far]));
    links_up(&near, 1);
    let mut full = udp(&near);
    for number in 0..WIDE_FILTERS_MAX {
        subscribe(&mut full, &format!("+/wide{number}"));
    }
    // More than there are shards, so some share one.
    let mut late: Vec<Client> = (0..6).map(|_| tcp(&near)).collect();
    for client in &late {
        client.subscribe(&filter("+/late/#")).expect("room");
    }
    for client in &mut late {
        let refused = wait_for(client, "it is refused", |one| {
            matches!(one, Received::Refused { .. })
        });
        let Received::Refused { filter, reason } = refused else {
            unreachable!("that was waited for")
        };
        assert_eq!((filter.as_str(), reason), ("+/late/#", Refusal::Full));
        client.unsubscribe(&filter).expect("room");
    }
    comes_to(6, || dropped(&near, DropReason::FiltersFull));
    // What has room stays, and what finds room later is taken.
    let mut publisher = udp(&far);
    let mut early = Flow::new(publish(&mut publisher, "a/wide7"));
    early.reach(&mut [&mut full]);
    full.unsubscribe(&filter("+/wide0")).expect("room");
    eventually("there is room", || near.brief(0).filters < WIDE_FILTERS_MAX);
    subscribe(&mut late[5], "+/late/#");
    let mut flow = Flow::new(publish(&mut publisher, "a/late/1"));
    flow.reach(&mut [&mut late[5]]);
    assert_eq!(dropped(&near, DropReason::FiltersFull), 6);
}

#[test]
fn only_the_broker_itself_publishes_on_system_topics() {
    let broker = start(config(1));
    let mut witness = Witness::of(&broker);
    let system = topic("$sangam/monitor/00000001");
    let before = dropped(&broker, DropReason::Forbidden);
    let door = || Target::Door(broker.door().expect("a door"));
    let strangers = [
        door(),
        Target::Udp(udp_of(&broker)),
        Target::Tcp(tcp_of(&broker)),
    ];
    for target in strangers {
        let mut client = Client::connect(target, options()).expect("a client");
        let refused = client.publish(&system, MediaInfo::data(), PATIENCE);
        let forbidden = matches!(
            &refused,
            Err(ClientError::Publication {
                reason: Refusal::Forbidden,
                ..
            })
        );
        assert!(forbidden, "{refused:?}");
    }
    comes_to(before + 3, || dropped(&broker, DropReason::Forbidden));

    let own = Target::Door(broker.system_door().expect("a door"));
    let mut own = Client::connect(own, options()).expect("a client");
    let published = own.publish(&system, MediaInfo::data(), PATIENCE);
    assert!(published.is_ok(), "{published:?}");
    witness.is_unharmed();
}

#[test]
fn aggregates_and_plans_are_published_only_from_where_brokers_may_link() {
    let wanted = ["$sangam/aggregate/east", "$sangam/plan/east"].map(topic);
    for trusted in [true, false] {
        let mut config = config(1);
        if !trusted {
            config.accept_links.clear();
        }
        let broker = start(config);
        let mut client = udp(&broker);
        for topic in &wanted {
            let published = client.publish(topic, MediaInfo::data(), PATIENCE);
            assert_eq!(published.is_ok(), trusted, "{published:?}");
        }
    }
}

#[test]
fn streams_past_the_limit_are_refused_even_when_asked_for_at_once() {
    let broker = start(config(1));
    let mut witness = Witness::of(&broker);
    let mut greedy = Raw::tcp(tcp_of(&broker));
    let wishes = (0..limits::STREAMS_PER_CLIENT as u32 + 6).map(|request| Message::Publish {
        request: 1_000 + request,
        topic: topic(&format!("many/{request}")),
        media: MediaInfo::data(),
    });
    let wishes: Vec<_> = wishes.collect();
    wishes.chunks(20).for_each(|some| greedy.tell(some));
    let answers: Vec<_> = (1_000..1_070)
        .map(|request| greedy.answer(request))
        .collect();
    let refused = answers.iter().filter(|answer| {
        matches!(
            answer,
            Message::Refused {
                reason: Refusal::Limit,
                ..
            }
        )
    });
    assert_eq!(refused.count(), 6);
    assert_eq!(broker.streams().len(), 1 + limits::STREAMS_PER_CLIENT);
    witness.is_unharmed();
}

#[test]
fn a_full_broker_refuses_further_clients_and_takes_them_when_one_leaves() {
    let broker = start(BrokerConfig {
        clients_max: 3,
        ..config(1)
    });
    let mut witness = Witness::of(&broker);
    let third = udp(&broker);
    eventually("three are counted", || broker.peers() == 3);
    let targets = || [Target::Udp(udp_of(&broker)), Target::Tcp(tcp_of(&broker))];
    let mut waiting: Vec<Client> = Vec::new();
    for target in targets() {
        let mut client = Client::connect(target, options()).expect("a client");
        let refused = client.wait_up(Duration::from_millis(300));
        let full = matches!(
            &refused,
            Err(ClientError::Refused {
                reason: Refusal::Full,
                ..
            })
        );
        assert!(full, "{refused:?}");
        waiting.push(client);
    }
    witness.is_unharmed();

    drop(third);
    waiting.pop();
    let mut patient = waiting.pop().expect("the first");
    patient.wait_up(PATIENCE).expect("room again");
}

#[test]
fn a_publisher_above_its_rate_loses_what_is_too_much() {
    const RATE: u32 = 200;
    let broker = start(BrokerConfig {
        publisher_packets_per_s: RATE,
        ..config(1)
    });
    let mut witness = Witness::of(&broker);
    for mut client in [udp(&broker), tcp(&broker), door(&broker)] {
        let mut flood = publish(&mut client, "flood");
        let before = dropped(&broker, DropReason::FloodPublisher);
        let mut sent = 0;
        eventually("the flood is cut", || {
            for _ in 0..50 {
                match flood.send(Outgoing::new(&[0; 100])) {
                    Ok(_) => sent += 1,
                    Err(error) => assert_eq!(error, SendError::Full),
                }
            }
            dropped(&broker, DropReason::FloodPublisher) >= before + 300
        });
        assert!(sent > RATE);
    }
    // A publisher has its own allowance, whatever the others do.
    let second = Instant::now();
    witness.is_unharmed();
    assert!(second.elapsed() < PATIENCE);
}

#[test]
fn a_flood_of_hellos_is_answered_up_to_a_rate_and_keeps_nobody_out() {
    let broker = start(BrokerConfig {
        hellos_per_s: 500,
        ..config(1)
    });
    let mut witness = Witness::of(&broker);
    // From another network than the clients.
    let flooder = UdpSocket::bind(("127.0.7.1", 0)).expect("a socket");
    let mut nonce = 0_u64;
    let mut flood = || {
        for _ in 0..500 {
            nonce += 1;
            let bytes = bytes_of(&Frame::Hello(hello(nonce, None)));
            flooder.send_to(&bytes, udp_of(&broker)).expect("sent");
        }
        witness.is_unharmed();
    };
    eventually("more hellos come than are answered", || {
        flood();
        dropped(&broker, DropReason::FloodHello) > 1_000
    });
    // No hello without a cookie has left anything behind.
    assert_eq!(broker.peers(), 2);
    std::thread::scope(|scope| {
        let late = scope.spawn(|| subscribe(&mut udp(&broker), "witness/#"));
        while !late.is_finished() {
            flood();
        }
    });
}

#[test]
fn an_answer_to_a_stranger_is_never_longer_than_the_question() {
    let broker = start(config(1));
    let socket = socket_beside(udp_of(&broker));
    let question = bytes_of(&Frame::Hello(hello(1, None)));
    socket.send_to(&question, udp_of(&broker)).expect("sent");
    assert!(datagram(&socket).len() <= question.len());
}

#[test]
fn a_flood_of_control_messages_is_refused_and_counted() {
    let broker = start(config(1));
    let mut witness = Witness::of(&broker);
    for mut flooder in [Raw::udp(udp_of(&broker)), Raw::tcp(tcp_of(&broker))] {
        let mut refused = 0;
        let before = dropped(&broker, DropReason::FloodControl);
        for round in 0..400_u32 {
            let first = 1_000 + round * 20;
            let some: Vec<_> = (0..10)
                .flat_map(|pair| {
                    let filter = filter(&format!("flood/{pair}"));
                    let request = first + pair * 2;
                    [
                        Message::Subscribe {
                            request,
                            filter: filter.clone(),
                        },
                        Message::Unsubscribe {
                            request: request + 1,
                            filter,
                        },
                    ]
                })
                .collect();
            flooder.tell(&some);
            // In step, so that the flood is one of messages and not of lost datagrams. What is not
            // subscribed cannot be unsubscribed.
            let [subscribed, _] = [18, 19].map(|last| flooder.answer(first + last));
            let limit = Refusal::Limit;
            refused +=
                u32::from(matches!(subscribed, Message::Refused { reason, .. } if reason == limit));
            if refused > 5 {
                break;
            }
        }
        assert!(refused > 5, "the flood is never refused");
        eventually("it is counted", || {
            dropped(&broker, DropReason::FloodControl) > before
        });
        witness.is_unharmed();
    }
}

#[test]
fn a_publisher_in_this_process_that_never_pauses_starves_nobody() {
    let broker = start(BrokerConfig {
        shards: 1,
        ..config(1)
    });
    let mut witness = Witness::of(&broker);
    let mut client = door(&broker);
    let mut flood = publish(&mut client, "flood");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                // What does not fit is what the test is about.
                let _ = flood.send(Outgoing::new(&[0; 100]));
            }
        });
        for _ in 0..10 {
            witness.is_unharmed();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
