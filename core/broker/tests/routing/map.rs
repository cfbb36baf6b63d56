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

/// A and B have a link of their own, by which each tells the other of itself.
#[test]
fn a_record_is_left_to_its_broker_where_that_tells_it_as_soon() {
    let mut broker = broker();
    let of_a = |sequence, to_b| state(A, sequence, &[(US, 3), (B, to_b), (C, 3)]);
    assert_eq!(broker.hears(TO_A, of_a(2, 3)), []);
    // By us it is faster.
    let slow = of_a(3, 5_000);
    assert_eq!(broker.hears(TO_A, slow.clone()), [(TO_B, slow)]);
    // B has not seen that link come up, or has seen it die.
    let of_b = state(B, 2, &[(US, 3), (C, 3)]);
    assert_eq!(broker.hears(TO_B, of_b.clone()), [(TO_A, of_b)]);
    let again = of_a(4, 3);
    assert_eq!(broker.hears(TO_A, again.clone()), [(TO_B, again)]);
    // A has seen it die.
    broker.hears(TO_B, state(B, 3, &[(US, 3), (A, 3), (C, 3)]));
    let cut = state(A, 5, &[(US, 3), (C, 3)]);
    assert_eq!(broker.hears(TO_A, cut.clone()), [(TO_B, cut)]);
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
    for _ in 0..2 {
        let heard = Message::LinkState(other.clone());
        let input = RoutingInput::Message(TO_A, &heard);
        broker.routing.handle(broker.now, input);
        other.version.sequence += 1;
    }
    assert_eq!(broker.routing.refused().identity, 2);
    let outputs = core::iter::from_fn(|| broker.routing.poll());
    let displaced = outputs.filter(|output| *output == RoutingOutput::Displaced);
    assert_eq!(displaced.count(), 1, "the later life has the better right");
}

/// What becomes of us when a twin in the same life insists, whose address is this.
fn displaced_by_twin_at(address: &str) -> (bool, u64) {
    let mut broker = broker();
    let own = Description {
        address: "192.0.2.5:4600".to_owned(),
        ..Description::default()
    };
    broker.routing.describe(broker.now, own);
    let mut displaced = false;
    for step in 1..30 {
        let Message::LinkState(mut twin) = state(US, step * 100, &[(A, 3)]) else {
            unreachable!();
        };
        twin.address = address.to_owned();
        let heard = Message::LinkState(twin);
        let input = RoutingInput::Message(TO_A, &heard);
        broker.routing.handle(broker.now, input);
        broker.now += Duration::from_millis(30);
        let mut outputs = core::iter::from_fn(|| broker.routing.poll());
        displaced |= outputs.any(|output| output == RoutingOutput::Displaced);
    }
    (displaced, broker.routing.refused().invalid)
}

#[test]
fn of_twins_in_one_life_the_one_with_the_lower_address_steps_aside() {
    let (displaced, _) = displaced_by_twin_at("192.0.2.9:4600");
    assert!(displaced);
    let (displaced, overtaken) = displaced_by_twin_at("192.0.2.1:4600");
    assert_eq!((displaced, overtaken), (false, 29));
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
    assert_eq!(origins(&said), BTreeSet::from([US, C]));
}

fn origins(said: &[(LinkId, Message)]) -> BTreeSet<BrokerId> {
    let states = states(said);
    let origins = states.iter().map(|(_, state)| state.version.origin);
    origins.collect()
}

#[test]
fn what_a_neighbour_lacks_is_sent_at_a_pace_that_news_need_not_keep() {
    let mut broker = broker();
    for id in 100..1_100 {
        broker.hears(TO_B, state(BrokerId(id), 1, &[]));
    }
    let third = LinkId(2);
    broker.does(RoutingInput::LinkUp(third, BrokerId(40)));
    let entries = Vec::new();
    let last = true;
    let mut bytes = 0;
    let mut told = BTreeSet::new();
    let mut said = broker.hears(third, Message::Digest { last, entries });
    for step in 0..1_000 {
        let to_third: Vec<_> = said
            .into_iter()
            .filter(|(link, _)| *link == third)
            .collect();
        for (_, message) in &to_third {
            let mut frame = Vec::new();
            message.encode(&mut frame).unwrap();
            bytes += frame.len();
        }
        told.extend(origins(&to_third));
        if step == 100 {
            assert!(
                (4_000..13_000).contains(&bytes),
                "{bytes} in the first second"
            );
            // A record that says something new does not wait behind the others.
            let news = broker.hears(TO_A, state(C, 2, &[(A, 9)]));
            assert!(origins(&news).contains(&C));
        }
        said = broker.later(Duration::from_millis(10));
    }
    assert!(told.len() > 1_000, "all of them at last: {}", told.len());
}

#[test]
fn a_record_that_the_neighbour_has_told_itself_is_not_sent_to_it() {
    let mut broker = broker();
    for id in 100..300 {
        broker.hears(TO_B, state(BrokerId(id), 1, &[]));
    }
    let third = LinkId(2);
    broker.does(RoutingInput::LinkUp(third, BrokerId(40)));
    let (last, entries) = (true, Vec::new());
    let mut told = origins(&broker.hears(third, Message::Digest { last, entries }));
    for id in 100..300 {
        told.extend(origins(&broker.hears(third, state(BrokerId(id), 1, &[]))));
    }
    (0..300).for_each(|_| told.extend(origins(&broker.later(Duration::from_millis(10)))));
    assert!(told.len() < 150, "{}", told.len());
}

#[test]
fn a_record_told_again_is_passed_on_without_haste() {
    let mut broker = broker();
    let again = broker.hears(TO_A, state(C, 2, &[(A, 3), (B, 3)]));
    assert_eq!(again, [(TO_B, state(C, 2, &[(A, 3), (B, 3)]))]);
    let changed = |sequence| state(C, sequence, &[(A, 3), (B, sequence as u16)]);
    for sequence in 10..100 {
        // Every one is new, and leaves at once.
        assert_eq!(broker.hears(TO_A, changed(sequence)).len(), 1);
    }
    let mut passed = 0;
    for sequence in 100..400 {
        let told = state(C, sequence, &[(A, 3), (B, 99)]);
        passed += broker.hears(TO_A, told).len();
    }
    assert!(passed < 150, "{passed}");
    let last = (0..100).flat_map(|_| broker.later(Duration::from_millis(12)));
    let last = last.last().map(|(_, message)| message);
    assert_eq!(last, Some(state(C, 399, &[(A, 3), (B, 99)])));
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
    let pin = (PinnedBy::Threshold, Some(5));
    assert!(broker.routing.pin(broker.now, A, pin));
    broker.later(Duration::from_millis(20));
    assert_eq!(broker.routing.links().next().unwrap().weight, 5);
}

#[test]
fn a_weight_belongs_to_the_neighbour_and_not_to_the_number_of_the_link() {
    let mut broker = broker();
    let pin = |weight| (PinnedBy::Threshold, weight);
    assert!(broker.routing.pin(broker.now, A, pin(Some(10_000))));
    broker.does(RoutingInput::LinkDown(TO_A));
    broker.does(RoutingInput::LinkUp(TO_A, C));
    let route = |broker: &Broker, peer| broker.routing.links().find(|link| link.peer == peer);
    let weight = |broker: &Broker, peer| route(broker, peer).map(|link| link.weight);
    assert_eq!(
        weight(&broker, C),
        weight(&broker, B),
        "as any that is not measured"
    );
    broker.does(RoutingInput::LinkUp(LinkId(9), A));
    assert_eq!(weight(&broker, A), Some(10_000), "by whichever link");
    broker.does(RoutingInput::LinkDown(LinkId(9)));
    assert!(broker.routing.pin(broker.now, A, pin(None)));
    broker.does(RoutingInput::LinkUp(LinkId(9), A));
    assert_eq!(
        weight(&broker, A),
        weight(&broker, B),
        "taken back while it was down"
    );
    assert_eq!(route(&broker, A).and_then(|link| link.pinned), None);
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
        keeps: true,
        organises: true,
        ways: vec!["quic://192.0.2.1:4603".to_owned()],
    };
    broker.routing.describe(broker.now, description);
    let said = broker.said();
    let (_, state) = &states(&said)[0];
    assert_eq!(
        (state.region.as_str(), state.load, state.draining),
        ("eu", 40, true)
    );
    assert!(state.organises && state.ways == ["quic://192.0.2.1:4603"]);
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
