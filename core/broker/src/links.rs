//! Numbers of neighbour links and sets of them.

use core::fmt;

use sangam_model::limits::LINKS_PER_BROKER;

const _: () = assert!(LINKS_PER_BROKER <= 64, "a LinkSet is one u64");

/// A link to a neighbour broker: its place in the broker's link table, `0..LINKS_PER_BROKER`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u16);

/// A set of links. A number past the limit is never a member.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct LinkSet(u64);

impl LinkSet {
    /// No link.
    pub const EMPTY: Self = Self(0);

    /// Adds a link.
    pub const fn insert(&mut self, link: LinkId) {
        self.0 |= bit(link);
    }

    /// Takes a link out.
    pub const fn remove(&mut self, link: LinkId) {
        self.0 &= !bit(link);
    }

    /// Whether the link is in the set.
    #[must_use]
    pub const fn contains(self, link: LinkId) -> bool {
        self.0 & bit(link) != 0
    }

    /// What both sets hold.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// This set without what the other holds.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// What exactly one of both sets holds.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }

    /// Whether no link is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Number of links.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The links in rising order.
    pub fn iter(self) -> impl Iterator<Item = LinkId> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let next = rest.trailing_zeros();
            (next < u64::BITS).then(|| {
                rest &= rest - 1;
                LinkId(next as u16)
            })
        })
    }
}

impl FromIterator<LinkId> for LinkSet {
    fn from_iter<I: IntoIterator<Item = LinkId>>(links: I) -> Self {
        let mut set = Self::EMPTY;
        links.into_iter().for_each(|link| set.insert(link));
        set
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for LinkSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|l| l.0)).finish()
    }
}

const fn bit(link: LinkId) -> u64 {
    if link.0 < 64 { 1 << link.0 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_returns_its_links_in_order() {
        let set: LinkSet = [LinkId(63), LinkId(0), LinkId(7)].into_iter().collect();
        let links: Vec<_> = set.iter().map(|l| l.0).collect();
        assert_eq!(links, [0, 7, 63]);
        assert_eq!(set.len(), 3);
    }

    #[test]
    fn a_number_past_the_limit_is_never_a_member() {
        let mut set = LinkSet::EMPTY;
        set.insert(LinkId(64));
        assert!(set.is_empty() && !set.contains(LinkId(64)));
    }
}
