//! Networks in which nothing fails.

use super::*;

/// Links of a tree on the way from the stream's broker to its listeners.
fn branches(network: &Network, published: &Published) -> BTreeSet<(usize, usize)> {
    let distances = network.distances(published.broker);
    let mut branches = BTreeSet::new();
    for mut at in listeners(network, published) {
        while at != published.broker {
            let mut near = network.neighbours(at).map(|(_, far)| far);
            let nearer = near.find(|far| distances[*far] < distances[at]).unwrap();
            branches.insert((nearer, at));
            at = nearer;
        }
    }
    branches
}

#[test]
fn in_a_tree_streams_cross_each_link_once_and_only_where_somebody_listens() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let (mut network, _) = graph(Shape::Tree, &mut random);
        network.use_windows = false;
        let published = populate(&mut network, &mut random);
        network.run(SETTLE);
        for each in &published {
            network.traffic.forget();
            network.emit(each.broker, each.stream, 1);
            network.run(SETTLE);
            let crossings = network.traffic.crossings.iter();
            let crossed: BTreeSet<_> = crossings.map(|((_, _, a, b), _)| (*a, *b)).collect();
            assert_eq!(crossed, branches(&network, each), "seed {seed}");
            assert_eq!(
                check::links_are_crossed_once(&network),
                Ok(()),
                "seed {seed}"
            );
        }
        check_all(&mut network, &published, 2, &format!("seed {seed}"));
    }
}

#[test]
fn after_the_last_unsubscribe_nothing_remote_is_left() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let shape = [Shape::Tree, Shape::Cyclic][seed as usize % 2];
        let (mut network, _) = graph(shape, &mut random);
        populate(&mut network, &mut random);
        network.run(SETTLE);
        for broker in 0..network.brokers.len() {
            for text in FILTERS {
                network.unsubscribe(broker, &filter(text));
            }
        }
        network.run(SETTLE);
        assert_eq!(
            check::nothing_remote_is_left(&network),
            Ok(()),
            "seed {seed}"
        );
    }
}

#[test]
fn in_any_graph_each_listener_gets_each_event_once() {
    use Shape::*;
    for shape in [Chain, Ring, Star, Mesh, Cyclic, Geometric, Regions] {
        for seed in 0..5 {
            let mut random = Random::new(seed);
            let (mut network, _) = graph(shape, &mut random);
            let published = populate(&mut network, &mut random);
            network.run(SETTLE);
            check_all(
                &mut network,
                &published,
                1,
                &format!("{shape:?}, seed {seed}"),
            );
        }
    }
}

#[test]
fn without_windows_the_hop_limit_alone_bounds_a_loop() {
    // Every broker of a ring that sends everything on, whatever came before.
    let mut network = Topology::new(Shape::Ring, 3, &mut Random::new(0)).build(0);
    (0..3).for_each(|broker| network.subscribe(broker, &filter("#")));
    let stream = publish(&mut network, 0, "a/b").stream;
    network.run(SETTLE);
    network.send_everywhere(stream);
    network.use_windows = false;
    network.emit(0, stream, 1);
    network.run(SETTLE);
    let total: u32 = network.traffic.crossings.values().sum();
    let chase = 2 * (u32::from(HOP_LIMIT) - 1);
    assert_eq!(total, chase, "two events chase each other to the limit");
    network.use_windows = true;
    network.traffic.forget();
    network.emit(0, stream, 2);
    network.run(SETTLE);
    let total: u32 = network.traffic.crossings.values().sum();
    assert!(total <= 4, "what comes a second time goes no further");
}
