//! What it costs to see how all brokers are, and how soon it is seen.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use sangam_sim::brokers::study::Monitored;
use sangam_sim::brokers::{Plan, Shape};

/// Virtual time: the figures are the same on every machine.
#[test]
fn merged_reports_tell_of_everybody_in_less_than_a_hundredth_of_a_link() {
    let plan = Plan {
        shape: Shape::Regions,
        brokers: 70,
        sessions: 60,
        seed: 7,
    };
    let (_, monitored) = Monitored::of(&plan, |_| {}).unwrap();
    let (merged, full) = (&monitored.merged, monitored.full.unwrap());
    assert!(merged.busiest < 1.0, "{merged:?}");
    assert!(merged.busiest < full.busiest / 4.0, "{full:?}, {merged:?}");
    let ages = &monitored.ages;
    assert_eq!((ages.known, ages.brokers), (70, 70));
    assert!(ages.oldest_s < 20.0, "{ages:?}");
    assert!(ages.down_worst_s < 10.0, "{ages:?}");
}
