//! Sources, joins and the ways they take.

use super::*;

#[test]
fn a_session_is_looked_for_in_its_directory_and_then_its_sources_are_joined() {
    let mut broker = broker();
    broker.routing.add(broker.now, &filter("a/room/#")).unwrap();
    let asked = registers(&broker.said());
    assert!(
        !asked.is_empty()
            && asked
                .iter()
                .all(|register| register.sink && !register.source)
    );
    // A directory may be further away than events may go.
    assert!(asked.iter().all(|register| register.route.hop_limit == 64));
    let said = broker.hears(TO_B, sources(B, &[A, US]));
    assert_eq!(joins(&said), [(TO_A, join(A, &["a/room/#"]))]);
    // A source that is told no more is left, but not in haste.
    assert_eq!(joins(&broker.hears(TO_B, sources(B, &[]))), []);
    broker.later(LINGER);
    let said = broker.hears(TO_B, sources(B, &[]));
    let none = Join {
        classes: 0,
        ..join(A, &[])
    };
    assert_eq!(joins(&said), [(TO_A, none)]);
}

#[test]
fn a_source_that_was_cut_off_has_time_to_register_when_it_returns() {
    let mut broker = broker();
    broker.routing.add(broker.now, &filter("a/room/#")).unwrap();
    assert_eq!(joins(&broker.hears(TO_B, sources(B, &[C]))).len(), 1);
    broker.hears(TO_A, state(C, 2, &[]));
    broker.hears(TO_B, sources(B, &[]));
    broker.later(2 * LINGER);
    let back = broker.hears(TO_A, state(C, 3, &[(A, 3), (B, 3)]));
    // The home answers us before it hears of C.
    let answered = broker.hears(TO_B, sources(B, &[]));
    assert_eq!(joins(&[back, answered].concat()), [], "C stays joined");
    broker.later(LINGER);
    let said = joins(&broker.hears(TO_B, sources(B, &[])));
    assert!(said.len() == 1 && said[0].1.filters.is_empty(), "{said:?}");
}

#[test]
fn a_directory_that_does_not_answer_is_asked_again() {
    let mut broker = broker();
    broker.routing.add(broker.now, &filter("a/room/#")).unwrap();
    let asked = registers(&broker.said());
    let repeated = registers(&broker.later(Duration::from_millis(300)));
    assert_eq!(asked, repeated);
}

#[test]
fn the_directory_answers_who_asks_and_tells_who_listens() {
    let mut broker = broker();
    let register = |from: BrokerId, source: bool| {
        Message::Register(Register {
            route: Route {
                to: US,
                from,
                hop_limit: 9,
            },
            scope: scope("a/room"),
            source,
            sink: !source,
            quiet: false,
        })
    };
    let told = |said: &[(LinkId, Message)]| -> Vec<(BrokerId, Vec<BrokerId>)> {
        let answers = said.iter().filter_map(|(_, message)| match message {
            Message::Sources(sources) => Some((sources.route.to, sources.brokers.clone())),
            _ => None,
        });
        answers.collect()
    };
    assert_eq!(told(&broker.hears(TO_A, register(A, false))), [(A, vec![])]);
    let said = broker.hears(TO_B, register(B, true));
    // Who only publishes needs no more than to be heard.
    assert_eq!(told(&said), [(A, vec![B]), (B, vec![])]);
    let said = broker.later(Duration::from_secs(210));
    assert_eq!(told(&said), [], "who listens is forgotten as well");
    assert_eq!(broker.routing.sizes().2, 0);
}

#[test]
fn wide_filters_join_every_broker() {
    let mut broker = broker();
    broker.routing.add(broker.now, &filter("#")).unwrap();
    let said = broker.said();
    let joined: Vec<_> = joins(&said)
        .into_iter()
        .map(|(link, join)| (link, join.origin))
        .collect();
    assert_eq!(joined, [(TO_A, A), (TO_A, C), (TO_B, B)]);
}

#[test]
fn joins_of_neighbours_are_gathered_and_passed_towards_the_source() {
    let mut broker = broker();
    let said = broker.hears(TO_B, Message::Join(join(A, &["a/room/audio"])));
    assert_eq!(joins(&said), [(TO_A, join(A, &["a/room/audio"]))]);
    assert_eq!(broker.links_for("a/room/audio", Class::Audio, A), [TO_B.0]);
    assert!(broker.links_for("a/room/video", Class::Video, A).is_empty());
    assert!(broker.links_for("a/room/audio", Class::Audio, B).is_empty());
}

#[test]
fn what_the_parent_wants_is_not_asked_of_it() {
    let mut broker = broker();
    let said = broker.hears(TO_A, Message::Join(join(A, &["a/room/audio"])));
    assert_eq!(joins(&said), []);
}

#[test]
fn a_wish_of_many_filters_takes_several_messages_and_counts_when_whole() {
    let mut broker = broker();
    let names: Vec<String> = (0..100).map(|n| format!("a/room/audio/{n:0>3}")).collect();
    for name in &names {
        broker.routing.add(broker.now, &filter(name)).unwrap();
    }
    let said = broker.hears(TO_B, sources(B, &[A]));
    let parts = joins(&said);
    assert_eq!(parts.len(), 4);
    assert!(parts.iter().all(|(_, part)| part.parts == 4));

    let mut other = self::broker();
    for (at, (_, part)) in parts.iter().enumerate() {
        let wish = Join {
            origin: US,
            ..part.clone()
        };
        other.hears(TO_B, Message::Join(wish));
        let heard = !other
            .links_for("a/room/audio/099", Class::Audio, US)
            .is_empty();
        assert_eq!(heard, at == 3, "part {at}");
    }
}

/// The first of two parts of a wish in a session of its own.
fn half(session: u32) -> Message {
    let parts = 2;
    let wish = join(US, &[&format!("a/{session}/audio/#")]);
    Message::Join(Join { parts, ..wish })
}

#[test]
fn halves_of_wishes_are_bounded_like_whole_ones() {
    let mut broker = broker();
    let most = 262_144;
    for session in 0..most {
        broker.hears(TO_A, half(session));
    }
    assert_eq!(broker.routing.refused().full, 0);
    assert_eq!(broker.routing.sizes().1, most as usize);
    broker.hears(TO_A, half(most));
    assert_eq!(broker.routing.refused().full, 1);
    // One that begins anew takes no more room, and one that is whole no more than its first half.
    broker.hears(TO_A, half(7));
    let rest = join(US, &["a/7/video/#"]);
    let (part, parts) = (1, 2);
    broker.hears(
        TO_A,
        Message::Join(Join {
            part,
            parts,
            ..rest
        }),
    );
    assert_eq!(broker.routing.refused().full, 1);
    assert_eq!(broker.links_for("a/7/audio/1", Class::Audio, US), [0]);
    assert_eq!(broker.routing.sizes().1, most as usize);
    // What it began ends with the link.
    broker.does(RoutingInput::LinkDown(TO_A));
    assert_eq!(broker.routing.sizes().1, 0);
    assert_eq!(broker.routing.footprint().joins, 0);
}

#[test]
fn filters_of_halves_are_bounded_too() {
    let mut broker = broker();
    let names: Vec<String> = (0..32).map(|n| format!("a/room/{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for source in 0..32_769 {
        let (origin, parts) = (BrokerId(100 + source), 2);
        let wish = join(origin, &names);
        broker.hears(TO_A, Message::Join(Join { parts, ..wish }));
    }
    assert_eq!(broker.routing.refused().full, 1, "16 times 65,536 fit");
}

#[test]
fn the_old_way_is_left_after_the_new_one_stands() {
    let mut broker = broker();
    broker.hears(TO_B, Message::Join(join(C, &["a/room/#"])));
    broker.routing.add(broker.now, &filter("a/room/#")).unwrap();
    broker.hears(TO_B, sources(B, &[C]));
    // By way of A as its id is lower; now that costs more.
    let said = broker.hears(TO_A, state(A, 2, &[(US, 900), (B, 3), (C, 3)]));
    assert_eq!(joins(&said), [(TO_B, join(C, &["a/room/#"]))]);
    let said = broker.later(Duration::from_secs(1));
    assert_eq!(joins(&said).len(), 1);
    assert_eq!(joins(&said)[0].0, TO_A);
    assert!(joins(&said)[0].1.filters.is_empty());
}

#[test]
fn a_link_in_doubt_makes_a_detour_for_audio_that_ends_when_it_is_well() {
    let mut broker = broker();
    broker.hears(TO_B, Message::Join(join(A, &["a/hall/#"])));
    broker.routing.add(broker.now, &filter("a/room/#")).unwrap();
    broker.hears(TO_B, sources(B, &[C]));
    let said = broker.does(RoutingInput::LinkSuspect(TO_A));
    // C is behind A: around A. A itself: around us, as only the link is in doubt.
    let detours: Vec<_> = joins(&said)
        .into_iter()
        .map(|(link, join)| (link, join.origin, join.avoid, join.classes))
        .collect();
    let audio = 0b1101;
    assert_eq!(
        detours,
        [(TO_B, A, Some(US), audio), (TO_B, C, Some(A), audio)]
    );
    broker.does(RoutingInput::LinkRecovered(TO_A));
    let said = joins(&broker.later(DETOUR_VIDEO));
    assert_eq!(said, [], "the silence is over before video was asked for");
    let said = joins(&broker.later(Duration::from_secs(1)));
    assert_eq!(said.len(), 2);
    assert!(said.iter().all(|(_, join)| join.filters.is_empty()));
}

#[test]
fn video_takes_the_detour_before_the_link_is_dead_and_stays_until_another_way_stands() {
    let mut broker = broker();
    broker.routing.add(broker.now, &filter("a/room/#")).unwrap();
    broker.hears(TO_B, sources(B, &[C]));
    broker.does(RoutingInput::LinkSuspect(TO_A));
    let almost = DETOUR_VIDEO - Duration::from_millis(1);
    assert_eq!(joins(&broker.later(almost)), []);
    assert_eq!(
        broker.routing.deadline(),
        Some(broker.now + (DETOUR_VIDEO - almost))
    );
    let around = Join {
        avoid: Some(A),
        ..join(C, &["a/room/#"])
    };
    let said = broker.later(Duration::from_millis(1));
    assert_eq!(joins(&said), [(TO_B, around)]);
    // The link dies: everything moves, and the detour is left when that has long arrived.
    let said = broker.does(RoutingInput::LinkDown(TO_A));
    assert_eq!(joins(&said), [(TO_B, join(C, &["a/room/#"]))]);
    let said = joins(&broker.later(Duration::from_secs(1)));
    assert!(said.len() == 1 && said[0].1.filters.is_empty(), "{said:?}");
    assert_eq!(said[0].1.avoid, Some(A));
}

#[test]
fn a_link_in_doubt_anew_keeps_the_video_of_its_detour() {
    let mut broker = broker();
    broker.routing.add(broker.now, &filter("a/room/#")).unwrap();
    broker.hears(TO_B, sources(B, &[C]));
    broker.does(RoutingInput::LinkSuspect(TO_A));
    assert_eq!(joins(&broker.later(DETOUR_VIDEO)).len(), 1);
    broker.does(RoutingInput::LinkRecovered(TO_A));
    let said = [
        broker.later(Duration::from_millis(500)),
        broker.does(RoutingInput::LinkSuspect(TO_A)),
        broker.later(DETOUR_VIDEO / 2),
        broker.later(Duration::from_millis(600)),
    ];
    assert_eq!(joins(&said.concat()), []);
}

#[test]
fn a_detour_that_is_in_doubt_itself_is_asked_for_video_once_it_is_well() {
    let mut broker = broker();
    broker.routing.add(broker.now, &filter("a/room/#")).unwrap();
    broker.hears(TO_B, sources(B, &[C]));
    broker.does(RoutingInput::LinkSuspect(TO_A));
    broker.does(RoutingInput::LinkSuspect(TO_B));
    assert_eq!(joins(&broker.later(DETOUR_VIDEO)), []);
    let around = Join {
        avoid: Some(A),
        ..join(C, &["a/room/#"])
    };
    let said = broker.does(RoutingInput::LinkRecovered(TO_B));
    assert_eq!(joins(&said), [(TO_B, around)]);
}

#[test]
fn a_dead_link_moves_everything_at_once() {
    let mut broker = broker();
    broker.routing.add(broker.now, &filter("a/room/#")).unwrap();
    broker.hears(TO_B, sources(B, &[A, C]));
    let said = broker.does(RoutingInput::LinkDown(TO_A));
    let moved: Vec<_> = joins(&said)
        .into_iter()
        .map(|(link, join)| (link, join.origin))
        .collect();
    assert_eq!(moved, [(TO_B, A), (TO_B, C)]);
    let own = states(&[said, broker.later(Duration::from_millis(20))].concat());
    assert_eq!(own[0].1.links.len(), 1);
}

#[test]
fn a_routed_message_goes_on_until_its_hops_are_spent() {
    let mut broker = broker();
    let message = |hop_limit| {
        Message::Register(Register {
            route: Route {
                to: C,
                from: B,
                hop_limit,
            },
            scope: scope("a/room"),
            source: true,
            sink: false,
            quiet: false,
        })
    };
    assert_eq!(broker.hears(TO_B, message(5)), [(TO_A, message(4))]);
    assert_eq!(broker.hears(TO_B, message(1)), []);
    assert_eq!(broker.hears(TO_A, message(5)), [], "never back");
    assert_eq!(broker.routing.refused().lost, 2);
}

#[test]
fn wide_filters_are_few() {
    let mut broker = broker();
    for n in 0..WIDE_FILTERS_MAX {
        let wide = filter(&format!("tenant{n}/#"));
        assert_eq!(broker.routing.add(broker.now, &wide), Ok(()));
    }
    let one_more = broker.routing.add(broker.now, &filter("#"));
    assert_eq!(one_more, Err(RoutingError::Wide));
}

#[test]
fn streams_hear_of_joins_and_of_brokers_that_come_and_go() {
    let mut broker = broker();
    let changes = |broker: &mut Broker| -> Vec<Change> {
        let outputs = core::iter::from_fn(|| broker.routing.poll());
        let changes = outputs.filter_map(|output| match output {
            RoutingOutput::Changed(change) => Some(change),
            RoutingOutput::Send { .. } | RoutingOutput::Displaced => None,
        });
        changes.collect()
    };
    let message = Message::Join(join(A, &["a/room/audio"]));
    broker
        .routing
        .handle(broker.now, RoutingInput::Message(TO_B, &message));
    assert_eq!(changes(&mut broker), [Change::Origin(A)]);
    let gone = state(C, 2, &[]);
    broker
        .routing
        .handle(broker.now, RoutingInput::Message(TO_A, &gone));
    assert_eq!(changes(&mut broker), [Change::Origin(C)]);
    assert!(!broker.routing.has_way(C));
}

#[test]
fn joins_do_not_wait_behind_what_the_directory_is_told() {
    let mut broker = broker();
    let register = |session: u32| {
        Message::Register(Register {
            route: Route {
                to: C,
                from: B,
                hop_limit: 9,
            },
            scope: scope(&format!("a/{session}")),
            source: true,
            sink: false,
            quiet: false,
        })
    };
    let said: Vec<_> = (0..2_000)
        .flat_map(|session| broker.hears(TO_B, register(session)))
        .collect();
    assert!(registers(&said).len() < 1_000, "the others wait");
    let said = broker.hears(TO_B, Message::Join(join(C, &["a/room/audio"])));
    assert_eq!(joins(&said), [(TO_A, join(C, &["a/room/audio"]))]);
    let said = broker.later(Duration::from_millis(200));
    assert!(!registers(&said).is_empty());
}
