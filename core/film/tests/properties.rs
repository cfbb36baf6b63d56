//! What must hold for every film, network and buffer.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use sangam_film::{
    Ask, Dialog, Flow, Held, Losses, Numbers, Order, RATE_MAX, RATE_MIN, THRESHOLDS_MAX, extend,
};
use sangam_model::{Random, Time};

/// Between two packets of the films here.
const STEP: Duration = Duration::from_millis(2);

fn held(number: u64) -> Held<u64> {
    Held {
        at: STEP * number as u32,
        bytes: 1_316,
        payload: number,
    }
}

proptest! {
    #[test]
    fn a_rate_changes_only_where_a_threshold_lies_between_two_looks(
        thresholds in 0_usize..40,
        looks in prop::collection::vec(-0.2_f64..1.3, 1..200),
    ) {
        let mut flow = Flow::new(thresholds);
        let count = thresholds.clamp(1, THRESHOLDS_MAX);
        let place = |n: usize| match count {
            1 => 0.5,
            _ => 0.1 + 0.8 * n as f64 / (count - 1) as f64,
        };
        let (mut last, mut rate, mut changes) = (None, 1.0, 0);
        for look in looks {
            let asked = flow.sample(look, 1.0);
            let look = look.clamp(0.0, 1.0);
            let between = last.is_some_and(|last: f64| {
                let (low, high) = (last.min(look), last.max(look));
                (0..count).any(|n| low < place(n) && place(n) <= high)
            });
            if let Some(asked) = asked {
                prop_assert!(between);
                prop_assert!((RATE_MIN..=RATE_MAX).contains(&asked));
                prop_assert!(asked != rate, "{asked} again");
                changes += 1;
                rate = asked;
            }
            prop_assert_eq!((flow.rate(), flow.changes()), (rate, changes));
            last = Some(look);
        }
    }

    #[test]
    fn an_emptier_buffer_asks_for_no_slower_a_rate(from in 0.0_f64..1.0, to in 0.0_f64..1.0) {
        let mut flow = Flow::new(7);
        flow.sample(0.5, 1.0);
        flow.sample(from, 1.0);
        let before = flow.rate();
        flow.sample(to, 1.0);
        prop_assert!(to >= from || flow.rate() >= before);
        prop_assert!(to <= from || flow.rate() <= before);
    }

    #[test]
    fn what_comes_in_time_is_played_once_and_in_order(
        count in 1_u64..400,
        jitter in 0_u64..50,
        seed in any::<u64>(),
    ) {
        let mut random = Random::new(seed);
        // Each packet comes up to `jitter` packets late, some of them twice.
        let mut arrivals: Vec<(u64, u64)> = Vec::new();
        for number in 0..count {
            let copies = 1 + u64::from(random.chance(0.1));
            for _ in 0..copies {
                arrivals.push((number + random.below(jitter as usize + 1) as u64, number));
            }
        }
        arrivals.sort_unstable();
        let begin = STEP * (jitter as u32 + 2);
        let mut order = Order::new(0, (begin, u64::MAX));
        let mut played = Vec::new();
        for (tick, number) in arrivals {
            let now = Time::ZERO + STEP * tick as u32;
            order.arrive(number, held(number));
            order.advance(now, |packet| played.push(packet.payload));
        }
        order.end();
        let late = Time::ZERO + STEP * (3 * count as u32 + 1_000);
        // Once to begin, if it has not, and once when all is due.
        order.advance(Time::ZERO + STEP * count as u32, |packet| played.push(packet.payload));
        order.advance(late, |packet| played.push(packet.payload));
        prop_assert!(order.is_over());
        prop_assert_eq!(played, (0..count).collect::<Vec<_>>());
        prop_assert_eq!((order.played().lost, order.played().starved), (0, 0));
        prop_assert_eq!(order.bytes(), 0);
    }

    #[test]
    fn every_packet_is_played_or_lost_and_none_is_both(
        count in 1_u64..500,
        share in 0.0_f64..0.9,
        seed in any::<u64>(),
    ) {
        let mut random = Random::new(seed);
        let mut order = Order::new(10, (STEP * 5, u64::MAX));
        let mut played = Vec::new();
        let mut came = BTreeSet::new();
        for number in 10..10 + count {
            let now = Time::ZERO + STEP * number as u32;
            if !random.chance(share) {
                came.insert(number);
                order.arrive(number, held(number));
            }
            order.advance(now, |packet| played.push(packet.payload));
        }
        order.end();
        for more in 0..20 {
            let now = Time::ZERO + STEP * (2 * count as u32 + more * 100);
            order.advance(now, |packet| played.push(packet.payload));
        }
        prop_assert!(played.is_sorted());
        let lost = order.next() - 10 - played.len() as u64;
        prop_assert_eq!(order.played().lost, lost);
        prop_assert_eq!(order.played().played, played.len() as u64);
        // It waits for what is missing as long as nothing behind it is due, not longer.
        prop_assert_eq!(played, came.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn what_nodes_lost_is_asked_of_them_until_it_came(
        nodes in 1_u16..5,
        share in 0.0_f64..0.3,
        seed in any::<u64>(),
    ) {
        let mut random = Random::new(seed);
        let mut losses = Losses::new(0);
        let mut counts = vec![0_u32; usize::from(nodes)];
        let mut lost: BTreeSet<(u16, u16)> = BTreeSet::new();
        let mut sent = Vec::new();
        let at = Duration::from_secs(60);
        for gsn in 0..600_u64 {
            let node = random.below(nodes.into()) as u16;
            let lsn = counts[usize::from(node)];
            counts[usize::from(node)] += 1;
            let now = Time::ZERO + STEP * gsn as u32;
            // The last of each node comes, or nothing would show that it is missing.
            if gsn < 500 && random.chance(share) {
                lost.insert((node, lsn as u16));
                sent.push((gsn, node, lsn));
                continue;
            }
            let numbers = Numbers { node, lsn: Some(lsn) };
            losses.arrive(now, gsn, Some(numbers), at);
        }
        let shown: BTreeSet<(u16, u16)> = lost
            .iter()
            .copied()
            .filter(|(node, lsn)| u32::from(*lsn) + 1 < counts[usize::from(*node)])
            .collect();
        let now = Time::ZERO + STEP * 700;
        let mut asked = BTreeSet::new();
        losses.asks(now, Duration::ZERO, |Ask { node, numbers }| {
            asked.extend(node.into_iter().flat_map(|node| numbers.iter().map(move |n| (node, *n))));
        });
        prop_assert!(asked.is_subset(&lost));
        prop_assert!(shown.is_superset(&asked));
        prop_assert_eq!(losses.missed(), shown_before_end(&lost, &counts, &sent));
        // Asked again when no answer came, and no more once it did.
        for (gsn, node, lsn) in &sent {
            let numbers = Numbers { node: *node, lsn: Some(*lsn) };
            losses.arrive(now, *gsn, Some(numbers), at);
        }
        let mut again = Vec::new();
        losses.asks(now + Duration::from_secs(2), Duration::ZERO, |ask| again.push(ask));
        prop_assert_eq!(again, Vec::new());
    }

    #[test]
    fn numbers_are_extended_to_the_nearest(near in 0_u64..1 << 40, apart in -30_000_i64..30_000) {
        let wanted = near.checked_add_signed(apart);
        if let Some(wanted) = wanted {
            prop_assert_eq!(extend(near, wanted as u16), wanted);
        }
    }

    #[test]
    fn no_server_is_too_strange(
        parts in prop::collection::vec("(RTSP/1.0 )?[0-9A-Za-z :\r\n$-]{0,60}", 0..20),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut dialog = Dialog::new("rtsp://127.0.0.1/archive/film", None).unwrap();
        let text = parts.concat();
        for part in [text.as_bytes(), &bytes] {
            if dialog.push(part).is_err() {
                break;
            }
            while let Ok(Some(_)) = dialog.heard() {}
        }
    }
}

/// Packets whose loss a later one of the same node showed.
fn shown_before_end(lost: &BTreeSet<(u16, u16)>, counts: &[u32], sent: &[(u64, u16, u32)]) -> u64 {
    let last_that_came = |node: u16| {
        let all = (0..counts[usize::from(node)]).rev();
        let mut came = all.filter(|lsn| !sent.iter().any(|(_, n, l)| (*n, *l) == (node, *lsn)));
        came.next()
    };
    let shown = lost
        .iter()
        .filter(|(node, lsn)| last_that_came(*node).is_some_and(|last| u32::from(*lsn) < last));
    shown.count() as u64
}
