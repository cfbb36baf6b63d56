//! What brokers tell a session's directory, how often, and what it answers.

use super::*;

fn register(from: BrokerId, session: u32, (source, quiet): (bool, bool)) -> Message {
    let route = Route {
        to: US,
        from,
        hop_limit: 9,
    };
    Message::Register(Register {
        route,
        scope: scope(&format!("a/{session}")),
        source,
        sink: !source,
        quiet,
    })
}

fn answered(said: &[(LinkId, Message)]) -> Vec<(BrokerId, Vec<BrokerId>)> {
    let answers = said.iter().filter_map(|(_, message)| match message {
        Message::Sources(sources) => Some((sources.route.to, sources.brokers.clone())),
        _ => None,
    });
    answers.collect()
}

/// A broker that listens in a session, and the other brokers that keep its directory; they have
/// answered.
fn member() -> (Broker, Vec<BrokerId>) {
    let mut broker = broker();
    broker.routing.add(broker.now, &filter("a/room/#")).unwrap();
    let asked = registers(&broker.said());
    let homes: Vec<BrokerId> = asked.iter().map(|register| register.route.to).collect();
    assert!(!homes.is_empty() && asked.iter().all(|register| !register.quiet));
    for home in &homes {
        broker.hears(TO_A, sources(*home, &[]));
    }
    (broker, homes)
}

#[test]
fn what_is_told_again_while_it_waits_is_told_once() {
    let mut broker = broker();
    let routed = |session: u32, source: bool| {
        let Message::Register(mut register) = register(B, session, (source, false)) else {
            unreachable!("it is one");
        };
        register.route.to = C;
        Message::Register(register)
    };
    let mut said = Vec::new();
    for session in 0..1_000 {
        said.extend(broker.hears(TO_B, routed(session, true)));
    }
    let at_once = registers(&said).len();
    assert!(at_once < 500, "the others wait, {at_once} left");
    for _ in 0..20 {
        said.extend(broker.hears(TO_B, routed(999, false)));
    }
    for _ in 0..1_000 {
        said.extend(broker.later(Duration::from_millis(1)));
    }
    let told = registers(&said);
    assert_eq!(told.len(), 1_000, "each session once");
    let last = told.iter().filter(|told| told.scope == scope("a/999"));
    let last: Vec<bool> = last.map(|told| told.sink).collect();
    assert_eq!(last, [true], "what was said last");
    assert_eq!(broker.routing.refused().lost, 0);
}

#[test]
fn past_the_burst_routed_messages_leave_by_frames() {
    let mut broker = broker();
    for session in 0..1_000 {
        let Message::Register(mut register) = register(B, session, (true, false)) else {
            unreachable!("it is one");
        };
        register.route.to = C;
        broker.hears(TO_B, Message::Register(register));
    }
    let mut frames = Vec::new();
    for _ in 0..100 {
        frames.push(registers(&broker.later(Duration::from_millis(1))).len());
    }
    frames.retain(|messages| *messages > 0);
    assert!(frames.iter().all(|messages| *messages >= 60), "{frames:?}");
    assert!(frames.len() >= 5, "{frames:?}");
}

#[test]
fn a_registration_that_is_only_told_again_is_answered_if_there_is_something_to_say() {
    let mut broker = broker();
    let first = broker.hears(TO_A, register(A, 1, (false, true)));
    assert_eq!(answered(&first), [(A, vec![])], "it was not known");
    let again = broker.hears(TO_A, register(A, 1, (false, true)));
    assert_eq!(answered(&again), [], "nothing has changed");
    let changed = broker.hears(TO_B, register(B, 1, (true, false)));
    assert_eq!(answered(&changed), [(A, vec![B]), (B, vec![])]);
    let lost = broker.hears(TO_A, register(A, 1, (false, true)));
    assert_eq!(answered(&lost), [(A, vec![B])], "it may have been lost");
    let again = broker.hears(TO_A, register(A, 1, (false, true)));
    assert_eq!(answered(&again), []);
    let other = broker.hears(TO_A, register(A, 1, (true, true)));
    assert_eq!(answered(&other), [(A, vec![])], "another part");
}

#[test]
fn what_all_homes_have_answered_is_told_again_quietly_and_not_asked_twice() {
    let (mut broker, homes) = member();
    let mut passed = Duration::ZERO;
    let step = Duration::from_secs(1);
    let again = loop {
        passed += step;
        let again = registers(&broker.later(step));
        if !again.is_empty() || passed > Duration::from_secs(100) {
            break again;
        }
    };
    let bounds = Duration::from_secs(30)..=Duration::from_secs(91);
    assert!(bounds.contains(&passed), "{passed:?}");
    let to: Vec<BrokerId> = again.iter().map(|register| register.route.to).collect();
    assert_eq!(to, homes);
    assert!(again.iter().all(|register| register.quiet));
    assert_eq!(registers(&broker.later(50 * step)), [], "no answer is due");
    assert_eq!(registers(&broker.later(11 * step)).len(), homes.len());
}

#[test]
fn sources_that_linger_are_asked_for() {
    let (mut broker, homes) = member();
    broker.hears(TO_A, sources(homes[0], &[C]));
    broker.hears(TO_A, sources(homes[0], &[]));
    let again = registers(&broker.later(Duration::from_secs(91)));
    assert!(!again.is_empty() && again.iter().all(|register| !register.quiet));
}

#[test]
fn a_home_in_another_life_is_told_at_once() {
    let (mut broker, homes) = member();
    let links: Vec<(BrokerId, u16)> = [US, A, B, C].map(|id| (id, 3)).to_vec();
    let Message::LinkState(mut reborn) = state(homes[0], 1, &links) else {
        unreachable!("it is one");
    };
    reborn.version.incarnation = Incarnation(1);
    let said = registers(&broker.hears(TO_A, Message::LinkState(reborn)));
    let told: Vec<_> = said
        .iter()
        .map(|told| (told.route.to, told.quiet))
        .collect();
    assert_eq!(told, [(homes[0], false)]);
}

/// The first of several parts of an answer, with as many sources as fit.
fn first_part(from: BrokerId, sources: core::ops::Range<u32>) -> Message {
    let Message::Sources(answer) = self::sources(from, &[]) else {
        unreachable!("it is one");
    };
    Message::Sources(Sources {
        parts: 255,
        brokers: sources.map(BrokerId).collect(),
        ..answer
    })
}

#[test]
fn only_a_sessions_homes_say_who_publishes_in_it() {
    let (mut broker, homes) = member();
    let stranger = [A, B, C, BrokerId(77)];
    let stranger = stranger.into_iter().find(|id| !homes.contains(id)).unwrap();
    assert_eq!(joins(&broker.hears(TO_A, sources(stranger, &[C]))), []);
    assert_eq!(broker.routing.refused().invalid, 1);
    let before = broker.routing.footprint().directory;
    for forged in 1_000..2_000 {
        broker.hears(TO_A, first_part(BrokerId(forged), 0..190));
    }
    assert_eq!(broker.routing.refused().invalid, 1_001);
    assert_eq!(broker.routing.footprint().directory, before);
    assert_eq!(joins(&broker.hears(TO_A, sources(homes[0], &[C]))).len(), 1);
}

#[test]
fn an_answer_in_parts_names_no_more_brokers_than_there_are() {
    let (mut broker, homes) = member();
    for part in 0..40 {
        let Message::Sources(mut answer) = first_part(homes[0], part * 190..(part + 1) * 190)
        else {
            unreachable!("it is one");
        };
        answer.part = part as u8;
        broker.hears(TO_A, Message::Sources(answer));
    }
    assert!(broker.routing.refused().invalid > 0);
    let held = broker.routing.footprint().directory / size_of::<BrokerId>();
    assert!(held < 4_500, "{held}");
}

#[test]
fn a_full_directory_keeps_no_empty_sessions() {
    let mut broker = broker();
    for session in 0..262_144 {
        broker.hears(TO_A, register(A, session, (true, false)));
    }
    assert_eq!(broker.routing.refused().full, 0);
    let sessions = broker.routing.sizes().2;
    broker.hears(TO_A, register(A, 262_144, (true, false)));
    assert_eq!(broker.routing.refused().full, 1);
    assert_eq!(broker.routing.sizes().2, sessions);
}
