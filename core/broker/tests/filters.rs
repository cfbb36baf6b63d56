//! The index finds exactly what trying every filter would find.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;

use proptest::prelude::*;
use sangam_broker::{FilterIndex, Insert};
use sangam_model::{Filter, Topic};

type Pair = (Filter, u8);

fn topic() -> impl Strategy<Value = Topic> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "$s"]), 1..5)
        .prop_map(|levels| Topic::new(&levels.join("/")).unwrap())
}

fn filter() -> impl Strategy<Value = Filter> {
    let level = prop::sample::select(vec!["a", "b", "c", "$s", "+", "+"]);
    (prop::collection::vec(level, 0..5), any::<bool>()).prop_map(|(mut levels, rest)| {
        if rest || levels.is_empty() {
            levels.push("#");
        }
        Filter::new(&levels.join("/")).unwrap()
    })
}

/// Filters that come (true) or go, of few keys, so that they meet.
fn history() -> impl Strategy<Value = Vec<(bool, Pair)>> {
    prop::collection::vec((prop::bool::weighted(0.6), (filter(), 0_u8..4)), 0..80)
}

fn naive(held: &BTreeSet<Pair>, topic: &Topic) -> Vec<u8> {
    let keys: BTreeSet<_> = held
        .iter()
        .filter(|(filter, _)| filter.matches(topic))
        .map(|(_, key)| *key)
        .collect();
    keys.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_index_agrees_with_trying_every_filter(
        history in history(),
        topics in prop::collection::vec(topic(), 1..20),
    ) {
        let mut index = FilterIndex::new(1_000);
        let mut held = BTreeSet::new();
        let mut found = Vec::new();
        for (comes, (filter, key)) in history {
            if comes {
                let new = index.insert(&filter, key) == Insert::Added;
                prop_assert_eq!(new, held.insert((filter, key)));
            } else {
                prop_assert_eq!(index.remove(&filter, key), held.remove(&(filter, key)));
            }
            prop_assert_eq!(index.len(), held.len());
        }
        for topic in &topics {
            index.matches(topic, &mut found);
            prop_assert_eq!(&found, &naive(&held, topic), "{}", topic);
        }
        for (filter, key) in &held {
            prop_assert!(index.remove(filter, *key));
        }
        for topic in &topics {
            index.matches(topic, &mut found);
            prop_assert!(found.is_empty());
        }
    }
}

#[test]
fn a_full_index_takes_nothing_more_until_something_goes() {
    let filters = ["a/+", "a/b", "a/#"].map(|text| Filter::new(text).unwrap());
    let mut index = FilterIndex::new(2);
    assert_eq!(index.insert(&filters[0], 1), Insert::Added);
    assert_eq!(index.insert(&filters[1], 1), Insert::Added);
    assert_eq!(index.insert(&filters[2], 1), Insert::Full);
    assert_eq!(index.insert(&filters[1], 1), Insert::Present);
    assert!(index.remove(&filters[0], 1));
    assert_eq!(index.insert(&filters[2], 1), Insert::Added);
}

#[test]
fn removing_what_was_never_held_changes_nothing() {
    let mut index = FilterIndex::new(10);
    let held = Filter::new("a/b/c").unwrap();
    index.insert(&held, 1);
    for other in ["a/b", "a/b/c/d", "a/b/#", "a/+/c"] {
        assert!(!index.remove(&Filter::new(other).unwrap(), 1), "{other}");
    }
    assert!(!index.remove(&held, 2));
    assert_eq!(index.len(), 1);
}

#[test]
fn a_storm_of_different_filters_leaves_no_memory_behind() {
    let mut index = FilterIndex::new(100);
    for round in 0..10_000 {
        let filter = Filter::new(&format!("tenant/{round}/+/x")).unwrap();
        index.insert(&filter, 1);
        assert!(index.remove(&filter, 1));
    }
    assert!(index.is_empty());
    assert_eq!(index.nodes(), 1, "only the root is left");
}
