//! A network that is parted and grows together again.

use std::time::Duration;

use sangam_sim::brokers::{Plan, Shape, World, check, sessions};

#[test]
fn three_hundred_brokers_become_one_network_again_within_two_seconds() {
    let plan = Plan {
        shape: Shape::Regions,
        brokers: 300,
        sessions: 100,
        seed: 1,
    };
    let mut world = World::new(&plan);
    assert_eq!(check::maps_agree(&world.network), Ok(()), "at first");
    let across = world.topology.across(5);
    for (a, b) in &across {
        world.network.blackhole(*a, *b);
    }
    world.network.run(Duration::from_secs(2));
    assert!(world.network.distances(0).contains(&None), "it is parted");
    assert_eq!(check::maps_agree(&world.network), Ok(()), "parted");
    for (a, b) in &across {
        world.network.heal(*a, *b);
    }
    world.network.run(Duration::from_secs(2));
    assert!(!world.network.distances(0).contains(&None), "it is whole");
    assert_eq!(check::maps_agree(&world.network), Ok(()), "healed");
}

/// Each of them is told to a new directory at once when the halves meet, and links are full.
#[test]
fn a_thousand_sessions_on_sixty_brokers_are_served_two_seconds_after_a_partition() {
    let plan = Plan {
        shape: Shape::Regions,
        brokers: 60,
        sessions: 1_000,
        seed: 7,
    };
    let mut world = World::new(&plan);
    let across = world.topology.across(1);
    let far = |from: usize, to: usize| world.topology.regions[from] != world.topology.regions[to];
    let mut crossing = Vec::new();
    for each in &world.sessions.published {
        let listeners = sessions::listeners(&world.network, each);
        let listeners = listeners.into_iter().filter(|to| far(each.broker, *to));
        crossing.extend(listeners.map(|to| (each.broker, each.stream, to)));
    }
    assert!(crossing.len() > 100, "{} cross", crossing.len());
    for (a, b) in &across {
        world.network.blackhole(*a, *b);
    }
    // Longer than sources linger that nobody tells any more.
    world.network.run(Duration::from_secs(100));
    for (a, b) in &across {
        world.network.heal(*a, *b);
    }
    world.network.run(Duration::from_secs(2));
    for (from, stream, _) in &crossing {
        world.network.emit(*from, *stream, 9);
    }
    world.network.run(Duration::from_secs(1));
    let delivered = &world.network.traffic.delivered;
    crossing.retain(|(_, stream, to)| !delivered.contains_key(&(*stream, 9, *to)));
    assert_eq!(crossing, [], "not served");
}
