//! Which links a broker shall have so that the whole is well connected.

use std::collections::{BTreeMap, BTreeSet};

use sangam_model::BrokerId;

/// A broker as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Who.
    pub id: BrokerId,
    /// Where, as its operator calls the place.
    pub region: &'a str,
}

/// The brokers that `own` shall be linked with.
///
/// Within a region brokers stand in a circle by id, and each is linked with those 1, 2, 4, ...
/// places away. The two lowest ids of a region are its heads; regions stand in a circle by name,
/// and heads are linked with the heads of the regions 1, 2, 4, ... places away, first with first
/// and second with second. So links are counted by logarithms, everybody is a few hops from
/// everybody, and no single broker cuts others off. All brokers with the same map plan the same,
/// so that both ends of a link want it.
#[must_use]
pub fn neighbours(own: BrokerId, members: &[Member<'_>]) -> BTreeSet<BrokerId> {
    let Some((home, regions)) = regions(own, members) else {
        return BTreeSet::new();
    };
    let mut wanted: BTreeSet<BrokerId> = BTreeSet::new();
    if let Ok(place) = regions[home].binary_search(&own) {
        wanted.extend(circle(place, regions[home].len()).map(|at| regions[home][at]));
    }
    for head in 0..HEADS {
        if head_of(&regions[home], head) == Some(own) {
            let others = circle(home, regions.len());
            wanted.extend(others.filter_map(|at| head_of(&regions[at], head)));
        }
    }
    wanted.remove(&own);
    wanted
}

/// Those whose distance from `own` matters beyond the plan: the others of its region, and, if it is
/// a head, the heads of all other regions that it could be linked with. No others.
#[must_use]
pub fn candidates(own: BrokerId, members: &[Member<'_>]) -> [BTreeSet<BrokerId>; 2] {
    let Some((home, regions)) = regions(own, members) else {
        return [BTreeSet::new(), BTreeSet::new()];
    };
    let near = regions[home].iter().copied().filter(|id| *id != own);
    let heads = (0..HEADS).filter(|head| head_of(&regions[home], *head) == Some(own));
    let others = || (0..).zip(&regions).filter(|(at, _)| *at != home);
    let far = heads.flat_map(|head| others().filter_map(move |(_, region)| head_of(region, head)));
    [near.collect(), far.collect()]
}

/// Regions in the order of their names, each with its brokers in order, and which is `own`'s.
fn regions(own: BrokerId, members: &[Member<'_>]) -> Option<(usize, Vec<Vec<BrokerId>>)> {
    let mut regions: BTreeMap<&str, BTreeSet<BrokerId>> = BTreeMap::new();
    for member in members {
        regions.entry(member.region).or_default().insert(member.id);
    }
    let regions: Vec<Vec<BrokerId>> = regions
        .into_values()
        .map(|ids| ids.into_iter().collect())
        .collect();
    let home = regions.iter().position(|region| region.contains(&own))?;
    Some((home, regions))
}

/// Brokers of a region that are linked with other regions.
const HEADS: usize = 2;

/// A region of one broker has that for both heads.
fn head_of(region: &[BrokerId], head: usize) -> Option<BrokerId> {
    region.get(head).or(region.first()).copied()
}

/// Places 1, 2, 4, ... away in a circle, both ways.
fn circle(place: usize, len: usize) -> impl Iterator<Item = usize> {
    let steps = (0..usize::BITS).map(|bit| 1_usize << bit);
    steps
        .take_while(move |step| *step <= len / 2)
        .flat_map(move |step| [(place + step) % len, (place + len - step) % len])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REGIONS: [&str; 5] = ["asia", "europe", "africa", "america", "oceania"];

    fn members(places: &[usize]) -> Vec<Member<'static>> {
        let ids = (0..).map(|n: u32| BrokerId(n.wrapping_mul(0x9e37_79b9)));
        let places = places.iter().map(|at| REGIONS[at % REGIONS.len()]);
        ids.zip(places)
            .map(|(id, region)| Member { id, region })
            .collect()
    }

    /// Hops from the first of `ids` to the farthest, without crossing `but`; `None` if cut off.
    fn farthest(members: &[Member<'_>], but: Option<BrokerId>) -> Option<usize> {
        let here: BTreeSet<BrokerId> = members.iter().map(|member| member.id).collect();
        let here: BTreeSet<BrokerId> = here.into_iter().filter(|id| Some(*id) != but).collect();
        let mut seen: BTreeSet<BrokerId> = here.iter().take(1).copied().collect();
        let (mut edge, mut hops) = (seen.clone(), 0);
        while seen.len() < here.len() {
            let next: BTreeSet<BrokerId> = edge
                .iter()
                .flat_map(|id| neighbours(*id, members))
                .filter(|id| here.contains(id) && !seen.contains(id))
                .collect();
            if next.is_empty() {
                return None;
            }
            seen.extend(&next);
            (edge, hops) = (next, hops + 1);
        }
        Some(hops)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn both_ends_want_a_link(places in prop::collection::vec(0_usize..5, 1..60)) {
            let members = members(&places);
            for member in &members {
                for other in neighbours(member.id, &members) {
                    prop_assert!(neighbours(other, &members).contains(&member.id));
                }
            }
        }

        #[test]
        fn no_single_broker_cuts_others_off(places in prop::collection::vec(0_usize..5, 3..24)) {
            let members = members(&places);
            prop_assert!(farthest(&members, None).is_some());
            for gone in &members {
                prop_assert!(farthest(&members, Some(gone.id)).is_some(), "{gone:?}");
            }
        }
    }

    #[test]
    fn distance_matters_within_a_region_and_between_heads() {
        // Two in each of five regions, and a third in the first two.
        let members = members(&[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]);
        let ids: Vec<BrokerId> = members.iter().map(|member| member.id).collect();
        let of = |own: BrokerId| candidates(own, &members).map(|all| all.len());
        let mut region = [ids[0], ids[5], ids[10]];
        region.sort_unstable();
        assert_eq!(region.map(of), [[2, 4], [2, 4], [2, 0]]);
        assert_eq!(
            candidates(BrokerId(7), &members),
            [BTreeSet::new(), BTreeSet::new()]
        );
    }

    #[test]
    fn a_thousand_brokers_are_a_few_hops_apart_by_few_links() {
        let places: Vec<usize> = (0..1_000).collect();
        let members = members(&places);
        let most = members
            .iter()
            .map(|member| neighbours(member.id, &members).len());
        assert!(most.max() <= Some(20));
        assert!(farthest(&members, None) <= Some(12));
    }
}
