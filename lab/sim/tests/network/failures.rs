//! Networks in which links and brokers come and go.

use super::*;

#[test]
fn a_graph_heals_when_links_die_and_return() {
    for seed in 0..15 {
        let mut random = Random::new(seed);
        let (mut network, edges) = graph(Shape::Cyclic, &mut random);
        let published = populate(&mut network, &mut random);
        network.run(SETTLE);
        let dying = edges.iter().copied().filter(|_| random.chance(0.25));
        let dead: Edges = dying.collect();
        for (a, b) in &dead {
            // Half of them in silence.
            if a % 2 == 0 {
                network.unlink(*a, *b);
            } else {
                network.blackhole(*a, *b);
            }
        }
        network.run(SETTLE);
        let note = format!("seed {seed}, links dead");
        check_all(&mut network, &published, 1, &note);
        for (a, b) in dead {
            network.heal(a, b);
        }
        network.run(SETTLE);
        let note = format!("seed {seed}, links back");
        check_all(&mut network, &published, 2, &note);
    }
}

#[test]
fn a_tree_heals_at_once_when_a_link_returns() {
    for seed in 0..15 {
        let mut random = Random::new(seed);
        let (mut network, edges) = graph(Shape::Tree, &mut random);
        let published = populate(&mut network, &mut random);
        network.run(SETTLE);
        let (a, b) = edges[random.below(edges.len())];
        network.unlink(a, b);
        network.run(ORPHAN_GRACE / 2);
        network.link(a, b, Path::of_delay(Duration::from_millis(30)));
        network.run(Duration::from_secs(2));
        check_all(&mut network, &published, 1, &format!("seed {seed}"));
        for it in &network.brokers {
            let ended = published
                .iter()
                .filter(|each| it.removed.contains(&each.stream));
            let missed = ended.filter(|each| it.wants(&each.topic)).count();
            assert_eq!(
                missed, 0,
                "seed {seed}: a short absence ends no stream for a listener"
            );
        }
    }
}

#[test]
fn a_tree_turns_around_at_once_when_a_link_behind_it_dies() {
    let mut network = Network::new(4, 1);
    for (a, b) in [(0, 1), (1, 2), (2, 3), (0, 3)] {
        network.link(a, b, Path::of_delay(Duration::from_millis(10)));
    }
    let filter = sangam_model::Filter::new(TOPICS[0]).unwrap();
    (0..4).for_each(|broker| network.subscribe(broker, &filter));
    let published = [publish(&mut network, 1, TOPICS[0])];
    network.run(SETTLE);
    // Of its two ways to broker 1, broker 3 takes the one by broker 0, which now needs it.
    network.unlink(0, 1);
    network.run(Duration::from_millis(100));
    check_all(&mut network, &published, 1, "0 is served by 3");
}

#[test]
fn a_stream_ends_where_its_neighbour_does_not_return() {
    let mut network = Topology::new(Shape::Chain, 3, &mut Random::new(0)).build(0);
    network.subscribe(2, &filter("a/#"));
    let stream = publish(&mut network, 0, TOPICS[0]).stream;
    network.run(SETTLE);
    assert!(network.brokers[2].streams.get(stream).is_some());
    network.stop(0);
    network.run(ORPHAN_GRACE - Duration::from_millis(1));
    assert!(network.brokers[2].streams.get(stream).is_some());
    network.run(Duration::from_millis(200));
    assert_eq!(network.brokers[1].removed, [stream]);
    assert_eq!(network.brokers[2].removed, [stream]);
}

#[test]
fn a_restarted_broker_replaces_its_earlier_life() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (mut network, _) = graph(Shape::Cyclic, &mut random);
        let mut published = populate(&mut network, &mut random);
        network.run(SETTLE);
        let again = random.below(network.brokers.len());
        network.restart(again);
        network.subscribe(again, &filter("b/#"));
        published.retain(|each| each.broker != again);
        published.push(publish(&mut network, again, TOPICS[3]));
        network.run(SETTLE);
        check_all(&mut network, &published, 1, &format!("seed {seed}"));
        let ghosts = check::no_stream_outlives_its_publisher(&network, &published);
        assert_eq!(ghosts, Ok(()), "seed {seed}");
    }
}

#[test]
fn after_any_history_every_table_is_right() {
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let (mut network, edges) = graph(Shape::Cyclic, &mut random);
        let mut published = populate(&mut network, &mut random);
        for _ in 0..100 {
            disturb(&mut network, &mut published, &mut random);
            let (a, b) = edges[random.below(edges.len())];
            match random.below(10) {
                0 => network.blackhole(a, b),
                1 => network.unlink(a, b),
                2..6 => network.heal(a, b),
                _ => {}
            }
            network.run(random.time(Duration::from_millis(400)));
        }
        network.run(Duration::from_secs(80));
        check_all(&mut network, &published, 1, &format!("seed {seed}"));
        let ghosts = check::no_stream_outlives_its_publisher(&network, &published);
        assert_eq!(ghosts, Ok(()), "seed {seed}");
    }
}

fn disturb(network: &mut Network, published: &mut Vec<Published>, random: &mut Random) {
    let broker = random.below(network.brokers.len());
    let filter = filter(FILTERS[random.below(FILTERS.len())]);
    match random.below(5) {
        0 | 1 => network.subscribe(broker, &filter),
        2 | 3 => network.unsubscribe(broker, &filter),
        _ if random.chance(0.5) => {
            published.push(publish(network, broker, TOPICS[random.below(TOPICS.len())]));
        }
        _ if !published.is_empty() => {
            let gone = published.swap_remove(random.below(published.len()));
            network.unpublish(gone.broker, gone.stream);
        }
        _ => {}
    }
}
