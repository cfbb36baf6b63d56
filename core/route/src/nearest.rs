//! Which measured brokers deserve a link that the plan does not have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sangam_model::BrokerId;

/// Nearer by this and a fifth, or it is not worth a link: less is what a busy machine may add, and
/// within a data centre nobody is.
const MARGIN: Duration = Duration::from_millis(3);

/// Those to link with besides the planned ones, so that the `count` nearest are among all of them.
///
/// `rtts` are the round trips measured from here. `planned` and `chosen` are linked already, and
/// another one takes the place of one of them only if its round trip is shorter by a fifth and
/// 3 ms: links do not swing between brokers that are about as near. Whom nobody measured is neither
/// chosen nor near.
#[must_use]
pub fn nearest(
    rtts: &BTreeMap<BrokerId, Duration>,
    planned: &BTreeSet<BrokerId>,
    chosen: &BTreeSet<BrokerId>,
    count: usize,
) -> BTreeSet<BrokerId> {
    let is_linked = |id: &BrokerId| planned.contains(id) || chosen.contains(id);
    let by_rtt = |linked: bool| {
        let of_kind = rtts.iter().filter(|(id, _)| is_linked(id) == linked);
        let mut all: Vec<(Duration, BrokerId)> = of_kind.map(|(id, rtt)| (*rtt, *id)).collect();
        all.sort_unstable();
        all
    };
    let mut near = by_rtt(true);
    near.truncate(count);
    for (rtt, id) in by_rtt(false).into_iter().take(count) {
        if near.len() < count {
            near.push((rtt, id));
            continue;
        }
        let farthest = near.iter_mut().max();
        let Some(farthest) = farthest.filter(|(other, _)| is_nearer(rtt, *other)) else {
            break;
        };
        *farthest = (rtt, id);
    }
    let near = near.into_iter().map(|(_, id)| id);
    near.filter(|id| !planned.contains(id)).collect()
}

fn is_nearer(rtt: Duration, than: Duration) -> bool {
    rtt.saturating_add(MARGIN) < than - than / 5
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(all: &[u32]) -> BTreeSet<BrokerId> {
        all.iter().copied().map(BrokerId).collect()
    }

    fn rtts(all: &[(u32, u64)]) -> BTreeMap<BrokerId, Duration> {
        let all = all.iter();
        all.map(|(id, ms)| (BrokerId(*id), Duration::from_millis(*ms)))
            .collect()
    }

    #[test]
    fn the_nearest_are_linked_beside_the_planned_ones() {
        let measured = rtts(&[(1, 40), (2, 50), (3, 5), (4, 9), (5, 30)]);
        let planned = ids(&[1, 2]);
        assert_eq!(nearest(&measured, &planned, &ids(&[]), 2), ids(&[3, 4]));
        assert_eq!(nearest(&measured, &planned, &ids(&[]), 1), ids(&[3]));
        // A planned neighbour that is near counts as one of them.
        assert_eq!(nearest(&measured, &ids(&[1, 3]), &ids(&[]), 2), ids(&[4]));
    }

    #[test]
    fn who_is_hardly_nearer_takes_nobodys_place() {
        let measured = rtts(&[(1, 10), (2, 11), (3, 8), (4, 9)]);
        assert_eq!(nearest(&measured, &ids(&[1, 2]), &ids(&[]), 2), ids(&[]));
        assert_eq!(
            nearest(&measured, &ids(&[2]), &ids(&[1]), 2),
            ids(&[1]),
            "who was chosen stays"
        );
        // In one data centre no link is worth another's place.
        let close = rtts(&[(1, 3), (2, 2), (3, 0), (4, 0)]);
        assert_eq!(nearest(&close, &ids(&[1, 2]), &ids(&[]), 2), ids(&[]));
    }

    #[test]
    fn who_went_far_or_was_not_measured_is_chosen_no_more() {
        let measured = rtts(&[(1, 40), (2, 50), (3, 60), (4, 9), (5, 8)]);
        let planned = ids(&[1, 2]);
        assert_eq!(nearest(&measured, &planned, &ids(&[3, 6]), 2), ids(&[4, 5]));
    }

    proptest! {
        #[test]
        fn what_is_chosen_is_chosen_again(
            ms in prop::collection::vec(0_u64..100, 0..20),
            planned in prop::collection::btree_set(0_u32..20, 0..6),
            count in 1_usize..4,
        ) {
            let measured: Vec<_> = (0..).zip(ms).collect();
            let measured = rtts(&measured);
            let planned: BTreeSet<_> = planned.into_iter().map(BrokerId).collect();
            let mut chosen = BTreeSet::new();
            for _ in 0..4 {
                chosen = nearest(&measured, &planned, &chosen, count);
                prop_assert!(chosen.len() <= count && chosen.is_disjoint(&planned));
            }
            prop_assert_eq!(nearest(&measured, &planned, &chosen, count), chosen);
        }
    }
}
