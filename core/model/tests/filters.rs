//! One filter contains another exactly if it selects all that the other selects.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use proptest::prelude::*;
use sangam_model::{Filter, Topic};

/// `z` stands for every name that no filter mentions, `$z` for every such system name.
const NAMES: [&str; 5] = ["a", "b", "$s", "z", "$z"];
/// One level deeper than the deepest filter.
const DEPTH: usize = 4;

fn filter() -> impl Strategy<Value = Filter> {
    let level = prop::sample::select(vec!["a", "b", "$s", "+", "+"]);
    (prop::collection::vec(level, 0..DEPTH - 1), any::<bool>()).prop_map(|(mut levels, rest)| {
        if rest || levels.is_empty() {
            levels.push("#");
        }
        Filter::new(&levels.join("/")).unwrap()
    })
}

/// Every topic that could tell two filters apart.
fn universe() -> Vec<Topic> {
    let mut topics: Vec<String> = Vec::new();
    let mut layer = vec![String::new()];
    for _ in 0..DEPTH {
        let longer = |start: &String| NAMES.map(|name| format!("{start}{name}/"));
        layer = layer.iter().flat_map(longer).collect();
        topics.extend(layer.iter().cloned());
    }
    let topic = |text: &String| Topic::new(text.trim_end_matches('/')).unwrap();
    topics.iter().map(topic).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn containing_means_selecting_all_that_the_other_selects(wide in filter(), narrow in filter()) {
        let selected = |topic: &Topic| narrow.matches(topic) && !wide.matches(topic);
        let escaped = universe().into_iter().find(selected);
        prop_assert_eq!(wide.contains(&narrow), escaped.is_none(), "{:?}", escaped);
    }

    #[test]
    fn every_filter_contains_itself_and_the_topics_it_selects(one in filter()) {
        prop_assert!(one.contains(&one));
        for topic in universe() {
            prop_assert_eq!(one.contains(&Filter::from(&topic)), one.matches(&topic));
        }
    }
}
