//! Whose reports are merged by whom.

use std::collections::BTreeMap;

use sangam_model::{BrokerId, hash};

use crate::plan::Member;

/// Brokers of one cell.
pub const CELL_MAX: usize = 32;

/// With more regions than this small ones share cells, as each cell's events have headers.
const REGIONS_APART: usize = 64;

/// Brokers of one region whose reports are merged together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its name: equal for all who know the same region and as many cells of it.
    pub name: u32,
    /// At most [`CELL_MAX`], in the order of ids, never none.
    pub members: Vec<BrokerId>,
}

impl Cell {
    /// Who merges: the lowest id of those that may, or of all if none may.
    #[must_use]
    pub fn head(&self, may: impl Fn(BrokerId) -> bool) -> Option<BrokerId> {
        let mut members = self.members.iter().copied();
        let first = self.members.first().copied();
        members.find(|id| may(*id)).or(first)
    }
}

/// All cells of a network: those of each region in the order of its brokers' ids, which is the
/// order of the circle in which they are linked ([`crate::neighbours`]).
///
/// A region has 1, 2, 4, ... cells, so that a broker that comes or goes moves the border of each
/// by at most one, but where their number doubles. All brokers with the same map agree.
#[must_use]
pub fn cells(members: &[Member<'_>]) -> Vec<Cell> {
    let mut regions: BTreeMap<&str, Vec<BrokerId>> = BTreeMap::new();
    for member in members {
        regions.entry(member.region).or_default().push(member.id);
    }
    if regions.len() > REGIONS_APART {
        regions = gathered(regions);
    }
    let mut cells = Vec::new();
    for (region, mut ids) in regions {
        ids.sort_unstable();
        ids.dedup();
        let count = ids.len().div_ceil(CELL_MAX).next_power_of_two();
        let border = |cell: usize| cell * ids.len() / count;
        cells.extend((0..count).map(|cell| Cell {
            name: name(region, (cell, count)),
            members: ids[border(cell)..border(cell + 1)].to_vec(),
        }));
    }
    cells
}

/// Regions under the name of the first of as many as fit one cell.
fn gathered(regions: BTreeMap<&str, Vec<BrokerId>>) -> BTreeMap<&str, Vec<BrokerId>> {
    let mut gathered: BTreeMap<&str, Vec<BrokerId>> = BTreeMap::new();
    for (region, ids) in regions {
        match gathered.last_entry() {
            Some(mut last) if last.get().len() + ids.len() <= CELL_MAX => {
                last.get_mut().extend(ids)
            }
            _ => _ = gathered.insert(region, ids),
        }
    }
    gathered
}

fn name(region: &str, (cell, count): (usize, usize)) -> u32 {
    let bytes = region.bytes().map(u64::from);
    let place = [0x100 + cell as u64, count as u64];
    let folded = bytes
        .chain(place)
        .fold(0, |name, part| hash::fold(name ^ part, hash::KEY));
    (folded >> 32) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn members(count: u32, regions: &[&'static str]) -> Vec<Member<'static>> {
        let member = |n: u32| Member {
            id: BrokerId(n.wrapping_mul(0x9e37_79b9)),
            region: regions[n as usize % regions.len()],
        };
        (0..count).map(member).collect()
    }

    #[test]
    fn a_region_that_fits_is_one_cell_and_its_lowest_id_is_the_head() {
        let cells = cells(&members(60, &["east", "west"]));
        assert_eq!(cells.len(), 2);
        assert_ne!(cells[0].name, cells[1].name);
        let (first, second) = (cells[0].members[0], cells[0].members[1]);
        assert_eq!(cells[0].head(|_| true), Some(first));
        assert_eq!(cells[0].head(|id| id != first), Some(second));
        assert_eq!(cells[0].head(|_| false), Some(first), "somebody must");
    }

    #[test]
    fn a_thousand_small_regions_share_cells() {
        let names: Vec<String> = (0..1_000).map(|n| format!("place-{n}")).collect();
        let member = |(n, region): (u32, &'static str)| Member {
            id: BrokerId(n),
            region,
        };
        let names = names.into_iter().map(|name| &*name.leak());
        let members: Vec<Member<'_>> = (0..).zip(names).map(member).collect();
        let cells = cells(&members);
        assert_eq!(cells.len(), 1_000_usize.div_ceil(CELL_MAX));
    }

    proptest! {
        #[test]
        fn everybody_is_in_one_cell_and_none_is_too_large(count in 1_u32..600) {
            let members = members(count, &["", "a", "b"]);
            let cells = cells(&members);
            let all = cells.iter().flat_map(|cell| &cell.members);
            let all: BTreeSet<BrokerId> = all.copied().collect();
            let sum: usize = cells.iter().map(|cell| cell.members.len()).sum();
            prop_assert_eq!((all.len(), sum), (members.len(), members.len()));
            prop_assert!(cells.iter().all(|cell| (1..=CELL_MAX).contains(&cell.members.len())));
            let names: BTreeSet<u32> = cells.iter().map(|cell| cell.name).collect();
            prop_assert_eq!(names.len(), cells.len());
        }

        #[test]
        fn who_goes_moves_each_border_by_one_at_most(count in 140_u32..255, gone in 0_usize..140) {
            let mut members = members(count, &["all"]);
            let place = |cells: &[Cell]| {
                let all = cells.iter().flat_map(|cell| {
                    cell.members.iter().map(|id| (*id, cell.name))
                });
                all.collect::<BTreeMap<BrokerId, u32>>()
            };
            let before = cells(&members);
            members.remove(gone);
            let after = place(&cells(&members));
            let moved = place(&before).into_iter().filter(|(id, cell)| {
                after.get(id).is_some_and(|now| now != cell)
            });
            prop_assert!(moved.count() < before.len());
        }
    }
}
