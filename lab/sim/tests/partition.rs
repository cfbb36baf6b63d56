//! A network that is parted and grows together again.

use std::time::Duration;

use sangam_sim::brokers::{Plan, Shape, World, check};

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
