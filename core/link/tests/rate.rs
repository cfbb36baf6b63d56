//! The controller at a bottleneck, alone, beside its like and beside TCP.
//!
//! Bounds, not exact values: the same runs print their figures in `docs/adr/0025-congestion.md`.

mod bottleneck;

use std::time::Duration;

use bottleneck::{Bottleneck, Law, Way, jain};
use sangam_link::Mode;

/// Of a way's rate, what our packets may carry: the rest is headers.
const PAYLOAD: f64 = 1_200.0 / 1_228.0;

#[test]
fn alone_a_link_fills_its_path_and_keeps_the_queue_short() {
    // Mb/s, round trip in ms, buffer in products of both, longest mean wait in ms.
    let ways = [
        (1.0, 50, 1.0, 40.0),
        (1.0, 10, 0.5, 40.0),
        (5.0, 20, 4.0, 30.0),
        (10.0, 50, 1.0, 20.0),
        (10.0, 200, 0.5, 25.0),
        (50.0, 10, 0.5, 8.0),
    ];
    for (mbps, rtt, depth, most) in ways {
        let mut net = Bottleneck::new(Way::new(mbps, rtt, depth), 1);
        let link = net.ours(0, 30);
        net.run(30);
        let (rate, wait) = (net.rate(link, 10..30), net.wait(link, 10..30));
        assert!(
            rate > 0.88 * mbps * PAYLOAD,
            "{mbps} Mb/s, {rtt} ms: {rate:.2}"
        );
        assert!(wait < most, "{mbps} Mb/s, {rtt} ms: {wait:.1} ms");
    }
}

#[test]
fn random_loss_alone_does_not_starve_a_link() {
    for (mbps, rtt, loss) in [(10.0, 100, 0.05), (5.0, 200, 0.03), (20.0, 50, 0.01)] {
        for seed in 1..=2 {
            let way = Way::new(mbps, rtt, 1.0);
            let mut net = Bottleneck::new(Way { loss, ..way }, seed);
            let link = net.ours(0, 40);
            net.run(40);
            let rate = net.rate(link, 15..40);
            assert!(
                rate > 0.8 * mbps * PAYLOAD,
                "{mbps} Mb/s, {loss}, seed {seed}: {rate:.2}"
            );
        }
    }
}

/// Our share beside a greedy flow, and what happens after that has gone.
fn beside(law: Law, (mbps, rtt, depth): (f64, u64, f64)) -> f64 {
    let mut net = Bottleneck::new(Way::new(mbps, rtt, depth), 1);
    let ours = net.ours(0, 110);
    let tcp = net.tcp(law, 5, 80);
    net.run(110);
    let (us, them) = (net.rate(ours, 20..80), net.rate(tcp, 20..80));
    let about = format!("{law:?}, {mbps} Mb/s, {rtt} ms, {depth}");
    assert!(
        us + them > 0.8 * mbps * PAYLOAD,
        "{about}: {us:.2} and {them:.2}"
    );
    // Alone again, it has the path and a short queue.
    let (rate, wait) = (net.rate(ours, 100..110), net.wait(ours, 100..110));
    assert!(
        rate > 0.85 * mbps * PAYLOAD,
        "{about}: {rate:.2} afterwards"
    );
    assert!(wait < 30.0, "{about}: waits {wait:.1} ms afterwards");
    us / (us + them)
}

#[test]
fn beside_newreno_a_link_has_its_fair_share_and_goes_back_to_short_queues() {
    for way in [(10.0, 50, 0.5), (10.0, 50, 4.0), (20.0, 20, 2.0)] {
        let share = beside(Law::NewReno, way);
        assert!((0.35..=0.65).contains(&share), "{way:?}: {share:.2}");
    }
}

#[test]
fn beside_cubic_a_link_has_its_fair_share_and_goes_back_to_short_queues() {
    for way in [(10.0, 50, 0.5), (10.0, 50, 1.0), (20.0, 50, 1.0)] {
        let share = beside(Law::Cubic, way);
        assert!((0.35..=0.65).contains(&share), "{way:?}: {share:.2}");
    }
}

#[test]
fn links_of_ours_share_a_path_evenly_and_keep_its_queue_short() {
    for (mbps, rtt, depth, count) in [(10.0, 50, 1.0, 2), (10.0, 50, 2.0, 4), (20.0, 10, 1.0, 3)] {
        let mut net = Bottleneck::new(Way::new(mbps, rtt, depth), 1);
        let links: Vec<_> = (0..count).map(|i| net.ours(5 * i, 70)).collect();
        net.run(70);
        let rates: Vec<_> = links.iter().map(|link| net.rate(*link, 30..70)).collect();
        let wait = net.wait(0, 30..70);
        assert!(jain(&rates) > 0.9, "{mbps} Mb/s, {rtt} ms: {rates:.2?}");
        assert!(wait < 25.0, "{mbps} Mb/s, {rtt} ms: {wait:.1} ms");
    }
}

#[test]
fn a_link_follows_the_capacity_of_its_path() {
    let mut net = Bottleneck::new(Way::new(20.0, 50, 1.0), 1);
    let link = net.ours(0, 80);
    net.change(20, Way::new(5.0, 50, 4.0));
    net.change(40, Way::new(20.0, 50, 1.0));
    net.change(60, Way::new(1.0, 50, 20.0));
    net.run(80);
    for (seconds, mbps) in [(10..20, 20.0), (25..40, 5.0), (45..60, 20.0), (70..80, 1.0)] {
        let (rate, wait) = (net.rate(link, seconds.clone()), net.wait(link, seconds));
        assert!(rate > 0.88 * mbps * PAYLOAD, "{mbps} Mb/s: {rate:.2}");
        assert!(wait < 40.0, "{mbps} Mb/s: {wait:.1} ms");
    }
}

#[test]
fn a_longer_or_shorter_way_is_not_taken_for_a_queue_for_long() {
    let mut net = Bottleneck::new(Way::new(10.0, 50, 1.0), 1);
    let link = net.ours(0, 60);
    net.change(20, Way::new(10.0, 120, 1.0));
    net.change(40, Way::new(10.0, 30, 1.0));
    net.run(60);
    for seconds in [10..20, 26..40, 46..60] {
        let (rate, wait) = (
            net.rate(link, seconds.clone()),
            net.wait(link, seconds.clone()),
        );
        assert!(rate > 0.8 * 10.0 * PAYLOAD, "{seconds:?}: {rate:.2}");
        assert!(wait < 30.0, "{seconds:?}: {wait:.1} ms");
    }
}

#[test]
fn clocks_that_drift_apart_neither_starve_a_link_nor_fill_the_queue() {
    for drift in [-200, 200] {
        let mut net = Bottleneck::new(Way::new(10.0, 50, 2.0), 1);
        net.drift = drift;
        let link = net.ours(0, 60);
        net.run(60);
        let (rate, wait) = (net.rate(link, 20..60), net.wait(link, 20..60));
        assert!(rate > 0.88 * 10.0 * PAYLOAD, "{drift} ppm: {rate:.2}");
        assert!(wait < 30.0, "{drift} ppm: {wait:.1} ms");
    }
}

#[test]
fn a_link_with_little_to_send_keeps_its_rate_and_passes_beside_tcp() {
    let mut net = Bottleneck::new(Way::new(10.0, 50, 1.0), 1);
    let link = net.limited(2e6, 0, 60);
    net.run(20);
    let before = net.allowed(link);
    net.run(60);
    assert!(
        net.allowed(link) >= before,
        "{} < {before}",
        net.allowed(link)
    );
    assert!(net.rate(link, 5..60) > 1.95);

    let mut net = Bottleneck::new(Way::new(10.0, 50, 1.0), 1);
    let link = net.limited(2e6, 0, 60);
    let tcp = net.tcp(Law::Cubic, 5, 60);
    net.run(60);
    let (us, them) = (net.rate(link, 10..60), net.rate(tcp, 10..60));
    assert!(us > 1.8 && them > 6.5, "{us:.2} and {them:.2}");
}

#[test]
fn a_path_that_is_not_full_is_not_drained_however_near_its_rate_is_to_what_is_sent() {
    // Slow start ends at 10 Mb/s; then there is room for all, and the rate stays just above it.
    let mut net = Bottleneck::new(Way::new(10.0, 200, 0.5), 1);
    let link = net.limited(20e6, 0, 60);
    net.change(10, Way::new(200.0, 200, 1.0));
    net.run(60);
    for second in 30..60 {
        let rate = net.rate(link, second..second + 1);
        assert!(rate > 0.97 * 20.0, "second {second}: {rate:.2}");
    }
}

#[test]
fn a_run_replays_from_its_seed() {
    let run = || {
        let way = Way {
            loss: 0.02,
            rtt: Duration::from_millis(70),
            ..Way::new(5.0, 50, 1.0)
        };
        let mut net = Bottleneck::new(way, 7);
        let link = net.ours(0, 15);
        net.tcp(Law::NewReno, 3, 15);
        net.run(15);
        let modes = net.share_of(link, Mode::Compete, 0..15);
        (net.records[link].delivered.clone(), modes.to_bits())
    };
    assert_eq!(run(), run());
}
