//! A version of a broker's interest, cut into messages and put together again.

use std::collections::BTreeMap;
use std::sync::Arc;

use sangam_model::limits::FILTERS_PER_BROKER;
use sangam_model::{BrokerId, Filter};
use sangam_wire::{FILTERS_MAX, INTEREST_ROOM};

/// All filters of one version as their origin cut them; every broker passes them on so.
pub(crate) type Parts = Arc<[Vec<Filter>]>;

/// Four of the longest filters fit a part.
const PARTS_MAX: usize = FILTERS_PER_BROKER / 4;

/// Cuts filters into parts; at least one, for a broker without interest must be heard of, too.
pub(crate) fn cut<'a>(filters: impl Iterator<Item = &'a Filter>) -> Parts {
    let mut parts = vec![Vec::new()];
    let mut len = 0;
    for filter in filters {
        let cost = filter.as_str().len() + 1;
        let last = parts.len() - 1;
        if parts[last].len() >= FILTERS_MAX || len + cost > INTEREST_ROOM {
            parts.push(vec![filter.clone()]);
            len = cost;
        } else {
            parts[last].push(filter.clone());
            len += cost;
        }
    }
    parts.into()
}

/// A version of which not all parts have come.
#[derive(Debug)]
pub(crate) struct Assembly {
    pub(crate) version: u32,
    origin: BrokerId,
    parts: u16,
    filters: usize,
    got: BTreeMap<u16, Vec<Filter>>,
}

/// One part as a message brings it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) version: u32,
    pub(crate) part: u16,
    pub(crate) parts: u16,
    pub(crate) filters: &'a [Filter],
}

impl Part<'_> {
    pub(crate) fn is_valid(&self) -> bool {
        self.part < self.parts
            && usize::from(self.parts) <= PARTS_MAX
            && self.filters.len() <= FILTERS_MAX
    }
}

impl Assembly {
    pub(crate) const fn new(origin: BrokerId, part: &Part<'_>) -> Self {
        Self {
            version: part.version,
            origin,
            parts: part.parts,
            filters: 0,
            got: BTreeMap::new(),
        }
    }

    /// Whether the part belongs to what was begun.
    pub(crate) const fn fits(&self, origin: BrokerId, part: &Part<'_>) -> bool {
        self.origin.0 == origin.0 && self.version == part.version && self.parts == part.parts
    }

    /// Adds a part; it may have come before.
    pub(crate) fn add(&mut self, part: &Part<'_>) {
        if !self.got.contains_key(&part.part) {
            self.filters += part.filters.len();
            self.got.insert(part.part, part.filters.to_vec());
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.got.len() == usize::from(self.parts)
    }

    /// Filters so far.
    pub(crate) const fn filters(&self) -> usize {
        self.filters
    }

    pub(crate) fn into_parts(self) -> Parts {
        self.got.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(n: usize, len: usize) -> Vec<Filter> {
        (0..n)
            .map(|i| Filter::new(&format!("{i:0len$}")).unwrap())
            .collect()
    }

    #[test]
    fn parts_keep_to_count_and_bytes() {
        for (len, per_part) in [(5, 32), (40, 26), (255, 4)] {
            let all = filters(200, len);
            let parts = cut(all.iter());
            assert_eq!(parts[0].len(), per_part, "{len}");
            assert_eq!(parts.concat(), all);
            for part in parts.iter() {
                let bytes: usize = part.iter().map(|f| f.as_str().len() + 1).sum();
                assert!(bytes <= INTEREST_ROOM && part.len() <= FILTERS_MAX);
            }
        }
        assert_eq!(cut([].iter()).len(), 1);
    }

    #[test]
    fn a_version_is_put_together_in_any_order_and_despite_repetition() {
        let all = filters(100, 5);
        let parts = cut(all.iter());
        let part = |at: usize| Part {
            version: 7,
            part: at as u16,
            parts: parts.len() as u16,
            filters: &parts[at],
        };
        let mut assembly = Assembly::new(BrokerId(1), &part(0));
        for at in [3, 0, 3, 2] {
            assembly.add(&part(at));
            assert!(!assembly.is_complete());
        }
        assembly.add(&part(1));
        assert!(assembly.is_complete());
        assert_eq!(assembly.filters(), 100);
        assert_eq!(assembly.into_parts().concat(), all);
    }
}
