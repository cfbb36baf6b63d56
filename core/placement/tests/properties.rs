//! What every placement keeps, whatever the disks: evenness, least movement, one answer, apart.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sangam_model::Random;
use sangam_placement::{
    Disk, DiskId, Disks, Layout, NodeId, Placement, Scaddar, Slicing, Straw2, Stripe, moves, xor,
};

type Ways = [Box<dyn Placement>; 3];

fn ways(disks: &Disks) -> Ways {
    [
        Box::new(Straw2::new(disks.clone())),
        Box::new(Scaddar::new(disks.clone()).unwrap()),
        Box::new(Slicing::new(disks.clone())),
    ]
}

/// Disks of unlike weights, a few on each node.
fn disks(ids: impl IntoIterator<Item = u32>, weight: impl Fn(u32) -> u32) -> Disks {
    let disk = |id| Disk {
        id: DiskId(id),
        node: NodeId(id / 3),
        weight: weight(id),
    };
    Disks::new(ids.into_iter().map(disk)).unwrap()
}

fn keys(seed: u64, count: usize) -> impl Iterator<Item = u64> {
    let mut random = Random::new(seed);
    (0..count).map(move |_| random.bits())
}

fn counts(placement: &dyn Placement, keys: impl Iterator<Item = u64>) -> BTreeMap<DiskId, f64> {
    let mut counts = BTreeMap::new();
    for key in keys {
        *counts.entry(placement.draw(key, &[]).unwrap()).or_default() += 1.0;
    }
    counts
}

/// The least part of all blocks that has to move: what disks gain.
fn least(before: &Disks, after: &Disks) -> f64 {
    let share = |disks: &Disks, id| {
        let weight = disks.get(id).map_or(0, |disk| disk.weight);
        f64::from(weight) / disks.weight() as f64
    };
    let gains = after
        .iter()
        .map(|disk| share(after, disk.id) - share(before, disk.id));
    gains.filter(|gain| *gain > 0.0).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_disk_has_its_share(count in 2_u32..40, seed: u64) {
        let disks = disks(0..count, |id| 1 + id % 4);
        for placement in ways(&disks) {
            let total = 40_000.0;
            let counts = counts(&*placement, keys(seed, total as usize));
            for disk in disks.iter() {
                let expected = total * f64::from(disk.weight) / disks.weight() as f64;
                let found = counts.get(&disk.id).copied().unwrap_or(0.0);
                // Six deviations of a binomial variable.
                prop_assert!((found - expected).abs() < 6.0 * expected.sqrt() + 1.0);
            }
        }
    }

    #[test]
    fn no_more_moves_than_must(
        count in 2_u32..30,
        changed in 0_u32..30,
        adds: bool,
        seed: u64,
    ) {
        let all = disks(0..=count, |id| 1 + id % 4);
        let changed = changed % (count + 1);
        let fewer = disks((0..=count).filter(|id| *id != changed), |id| 1 + id % 4);
        let (before, after) = if adds { (&fewer, &all) } else { (&all, &fewer) };
        for mut placement in ways(before) {
            let old: Vec<_> = keys(seed, 20_000).map(|key| placement.draw(key, &[])).collect();
            placement.change(after.clone()).unwrap();
            let new: Vec<_> = keys(seed, 20_000).map(|key| placement.draw(key, &[])).collect();
            let mut moved = 0.0;
            for (old, new) in old.iter().zip(&new).filter(|(old, new)| old != new) {
                // Only towards what came, or away from what went.
                let touched = if adds { new } else { old };
                prop_assert_eq!(*touched, Some(DiskId(changed)));
                moved += 1.0;
                prop_assert!(old.is_some());
            }
            let least = 20_000.0 * least(before, after);
            prop_assert!((moved - least).abs() < 6.0 * least.sqrt() + 1.0, "{} {}", moved, least);
        }
    }

    #[test]
    fn every_node_says_the_same(count in 1_u32..40, changes in 0_u32..8, seed: u64) {
        // The order in which a node hears of disks does not matter.
        let mut here = ways(&disks(0..count, |id| 1 + id % 4));
        let mut there = ways(&disks((0..count).rev(), |id| 1 + id % 4));
        for change in 0..=changes {
            for (a, b) in here.iter().zip(&there) {
                for key in keys(seed, 300) {
                    prop_assert_eq!(a.draw(key, &[]), b.draw(key, &[]));
                }
            }
            let next = disks(0..count + change, |id| 1 + (id + change) % 4);
            for placement in here.iter_mut().chain(&mut there) {
                placement.change(next.clone()).unwrap();
            }
        }
    }

    #[test]
    fn pieces_part_as_far_as_the_disks_allow(
        ids in proptest::collection::btree_set(0_u32..40, 1..30),
        width in 1_u8..8,
        parity: bool,
        seed: u64,
    ) {
        let disks = disks(ids, |id| 1 + id % 4);
        let layout = if parity { Layout::Parity(width) } else { Layout::Copies(width) };
        let nodes: BTreeSet<_> = disks.iter().map(|disk| disk.node).collect();
        for placement in ways(&disks) {
            for object in keys(seed, 50) {
                let stripe = Stripe { object, number: 1 };
                let pieces = layout.pieces(&*placement, stripe);
                let distinct: BTreeSet<_> = pieces.iter().collect();
                let apart: BTreeSet<_> = pieces.iter().map(|id| disks.node(*id)).collect();
                prop_assert_eq!(pieces.len(), layout.width().min(disks.len()));
                prop_assert_eq!(distinct.len(), pieces.len());
                prop_assert_eq!(apart.len(), pieces.len().min(nodes.len()));
            }
        }
    }

    #[test]
    fn the_plan_leads_from_one_placement_to_the_other(count in 4_u32..20, parity: bool, seed: u64) {
        let layout = if parity { Layout::Parity(3) } else { Layout::Copies(3) };
        let before = disks(0..count, |_| 1);
        let after = disks(1..count + 3, |_| 1);
        let stripes = || keys(seed, 200).map(|object| Stripe { object, number: 0 });
        for (old, mut new) in ways(&before).into_iter().zip(ways(&before)) {
            new.change(after.clone()).unwrap();
            let mut at: BTreeMap<_, _> = stripes()
                .map(|stripe| (stripe, layout.pieces(&*old, stripe)))
                .collect();
            for step in moves(layout, (&*old, &*new), stripes()) {
                let pieces = at.get_mut(&step.stripe).unwrap();
                let place = if parity {
                    Some(step.piece)
                } else {
                    pieces.iter().position(|disk| Some(*disk) == step.from)
                };
                let piece = &mut pieces[place.unwrap()];
                prop_assert_eq!(Some(*piece), step.from);
                *piece = step.to;
            }
            for (stripe, mut found) in at {
                let mut expected = layout.pieces(&*new, stripe);
                if !parity {
                    found.sort_unstable();
                    expected.sort_unstable();
                }
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn a_lost_piece_is_the_sum_of_the_others(blocks: [[u8; 32]; 4], lost in 0_usize..4) {
        let mut parity = [0; 32];
        blocks.iter().for_each(|block| xor(&mut parity, block));
        let others = blocks.iter().enumerate().filter(|(place, _)| *place != lost);
        others.for_each(|(_, block)| xor(&mut parity, block));
        prop_assert_eq!(parity, blocks[lost]);
    }
}

#[test]
fn a_change_moves_hardly_more_of_a_parity_group_than_must() {
    let before = disks(0..30, |_| 1);
    let after = disks(0..31, |_| 1);
    let stripes = || keys(1, 20_000).map(|object| Stripe { object, number: 0 });
    // Copies are a set. Of five pieces on ten nodes one that moves often takes another's node.
    for (layout, most) in [(Layout::Copies(3), 1.35), (Layout::Parity(4), 1.6)] {
        for (way, (old, mut new)) in ways(&before).into_iter().zip(ways(&before)).enumerate() {
            new.change(after.clone()).unwrap();
            let moved = moves(layout, (&*old, &*new), stripes()).count() as f64;
            let least = 20_000.0 * layout.width() as f64 / 31.0;
            let ratio = moved / least;
            assert!(
                (0.9..most).contains(&ratio),
                "{layout:?}, way {way}: {ratio}"
            );
        }
    }
}

#[test]
fn scaddar_tells_when_its_numbers_wear_out() {
    let of = |count| disks(0..count, |_| 1);
    let mut worn = Vec::new();
    for bits in [64, 128] {
        let mut placement = Scaddar::with_bits(of(8), bits).unwrap();
        while !placement.wants_reshuffle() {
            let count = if placement.steps().is_multiple_of(2) {
                9
            } else {
                8
            };
            placement.change(of(count)).unwrap();
        }
        worn.push(placement.steps());
    }
    // (b - log2(100)) / log2(8.5), less the first placement and one in reserve.
    assert_eq!(worn, [17, 38]);
}
