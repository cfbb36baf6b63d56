//! Links that measure now this and now that.

use std::time::Duration;

use sangam_sim::brokers::study::Swing;

#[test]
fn streams_keep_their_ways_while_links_jitter() {
    for seed in 1..4 {
        let swing = Swing::measure(seed, Duration::from_millis(3), Duration::from_secs(120));
        assert!(swing.copies < 1.02, "{swing:?}");
    }
}
