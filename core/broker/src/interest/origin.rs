//! What is known of one other broker: its filters and the ways to it.

use sangam_model::{Incarnation, Time, limits::HOP_LIMIT};

use super::parts::{Assembly, Parts};
use crate::{LinkId, LinkSet};

/// One other broker.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) incarnation: Incarnation,
    /// The newest whole version; `None` until one came.
    pub(crate) version: Option<u32>,
    pub(crate) parts: Parts,
    /// When that version came.
    pub(crate) adopted: Option<Time>,
    /// The next hop towards it.
    pub(crate) next: Option<LinkId>,
    /// Brokers between, plus one, as the neighbours are told.
    pub(crate) hops: u8,
    /// Links that were told of a way by us.
    pub(crate) told: LinkSet,
    paths: Vec<Path>,
    /// A sweep found only longer ways than were told.
    waits: bool,
}

/// A way to the origin, as a neighbour told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Path {
    link: LinkId,
    version: u32,
    hops: u8,
}

impl Origin {
    pub(crate) fn new(incarnation: Incarnation) -> Self {
        Self {
            incarnation,
            version: None,
            parts: Parts::default(),
            adopted: None,
            next: None,
            hops: HOP_LIMIT,
            told: LinkSet::EMPTY,
            paths: Vec::new(),
            waits: false,
        }
    }

    /// Notes a way; whether it is news.
    pub(crate) fn note_path(&mut self, link: LinkId, version: u32, hops: u8) -> bool {
        let path = Path {
            link,
            version,
            hops,
        };
        match self.paths.iter_mut().find(|path| path.link == link) {
            Some(known) => core::mem::replace(known, path) != path,
            None => {
                self.paths.push(path);
                true
            }
        }
    }

    /// Forgets the way by `link` unless it is of a newer version; whether there was one.
    pub(crate) fn void_path(&mut self, link: LinkId, version: u32) -> bool {
        self.remove(|path| path.link == link && !is_newer(path.version, version))
    }

    /// Forgets the way by a link that is down; whether there was one.
    pub(crate) fn drop_path(&mut self, link: LinkId) -> bool {
        self.told.remove(link);
        self.remove(|path| path.link == link)
    }

    /// Forgets ways that did not bring the newest version; whether there were any.
    pub(crate) fn drop_stale_paths(&mut self) -> bool {
        let Some(version) = self.version else {
            return false;
        };
        self.remove(|path| is_newer(version, path.version))
    }

    /// Forgets all ways; whether there were any.
    pub(crate) fn drop_paths(&mut self) -> bool {
        let before = self.paths.len();
        self.paths.clear();
        before != 0
    }

    /// At the second sweep that finds only longer ways than were told, allows them: who came to us
    /// for the old one has heard by now that it is gone. Whether it did.
    pub(crate) fn relent(&mut self) -> bool {
        let longer = self.version.is_some() && self.paths.iter().all(|path| path.hops > self.hops);
        let stuck = longer && !self.paths.is_empty();
        let relents = stuck && self.waits;
        self.waits = stuck && !relents;
        if relents {
            self.hops = HOP_LIMIT;
        }
        relents
    }

    /// Takes a whole new version; every way that brought it may be used.
    pub(crate) fn adopt(&mut self, now: Time, assembly: Assembly) {
        self.version = Some(assembly.version);
        self.parts = assembly.into_parts();
        self.adopted = Some(now);
        self.hops = HOP_LIMIT;
    }

    /// Chooses the next hop anew.
    ///
    /// The shortest way of the newest version. Within a version our distance may only fall: a
    /// neighbour whose way leads through us then never looks nearer than we told it to be, so no
    /// loop lasts (as with the feasible distance of RFC 8966 section 2.4); a longer way waits for
    /// the next version or for [`Self::relent`]. The hop of the version before stays while nothing
    /// is shorter, so that a refresh whose copies overtake each other moves no stream.
    pub(crate) fn choose(&mut self) {
        let Some(version) = self.version else { return };
        let usable = |path: &&Path| !is_newer(version, path.version) && path.hops <= self.hops;
        let best = self
            .paths
            .iter()
            .filter(usable)
            .min_by_key(|path| path.hops);
        let kept = self.paths.iter().find(|path| Some(path.link) == self.next);
        let chosen = match (best, kept) {
            (Some(best), Some(kept)) if kept.hops <= best.hops => Some(kept),
            (Some(best), _) => Some(best),
            (None, kept) => kept,
        };
        self.next = chosen.map(|path| path.link);
        if best.is_some() {
            self.hops = chosen.map_or(HOP_LIMIT, |path| path.hops);
        }
    }

    /// Links to neighbours that are known to be no farther from the origin than we are.
    pub(crate) fn nearer(&self) -> LinkSet {
        let nearer = self.paths.iter().filter(|path| path.hops <= self.hops + 1);
        nearer
            .filter(|_| self.next.is_some())
            .map(|path| path.link)
            .collect()
    }

    fn remove(&mut self, gone: impl Fn(&Path) -> bool) -> bool {
        let (next, version, before) = (self.next, self.version, self.paths.len());
        let unconfirmed = |path: &Path| {
            Some(path.link) == next && version.is_some_and(|newest| is_newer(newest, path.version))
        };
        if self
            .paths
            .iter()
            .any(|path| gone(path) && unconfirmed(path))
        {
            // What was told of this version was the length of a way that never brought it.
            self.hops = HOP_LIMIT;
        }
        self.paths.retain(|path| !gone(path));
        self.paths.len() != before
    }

    /// Whether no way is left.
    pub(crate) const fn is_lost(&self) -> bool {
        self.paths.is_empty()
    }
}

/// Serial number arithmetic (RFC 1982): versions wrap.
pub(crate) const fn is_newer(a: u32, b: u32) -> bool {
    a != b && a.wrapping_sub(b) < 1 << 31
}

/// Lives of a broker are counted modulo 256.
pub(crate) const fn is_later_life(a: Incarnation, b: Incarnation) -> bool {
    a.0 != b.0 && a.0.wrapping_sub(b.0) < 1 << 7
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interest::parts::Part;
    use sangam_model::BrokerId;

    const FAST: LinkId = LinkId(1);
    const SLOW: LinkId = LinkId(2);

    fn at_version(version: u32, paths: &[(LinkId, u8)]) -> Origin {
        let mut origin = Origin::new(Incarnation(0));
        adopt(&mut origin, version, paths);
        origin
    }

    fn adopt(origin: &mut Origin, version: u32, paths: &[(LinkId, u8)]) {
        let part = Part {
            version,
            part: 0,
            parts: 1,
            filters: &[],
        };
        let mut assembly = Assembly::new(BrokerId(1), &part);
        assembly.add(&part);
        for &(link, hops) in paths {
            origin.note_path(link, version, hops);
        }
        origin.adopt(Time::ZERO, assembly);
        origin.choose();
    }

    #[test]
    fn the_first_of_the_shortest_ways_is_taken() {
        let origin = at_version(1, &[(SLOW, 3), (FAST, 2), (LinkId(3), 2)]);
        assert_eq!((origin.next, origin.hops), (Some(FAST), 2));
    }

    #[test]
    fn a_refresh_that_comes_first_by_a_longer_way_moves_nothing() {
        let mut origin = at_version(1, &[(FAST, 2), (SLOW, 3)]);
        adopt(&mut origin, 2, &[(SLOW, 3)]);
        assert_eq!(origin.next, Some(FAST));
        origin.note_path(FAST, 2, 2);
        origin.choose();
        assert_eq!((origin.next, origin.hops), (Some(FAST), 2));
    }

    #[test]
    fn a_way_that_brings_no_refresh_is_left() {
        let mut origin = at_version(1, &[(FAST, 2), (SLOW, 3)]);
        adopt(&mut origin, 2, &[(SLOW, 3)]);
        assert!(origin.drop_stale_paths());
        origin.choose();
        assert_eq!((origin.next, origin.hops), (Some(SLOW), 3));
    }

    #[test]
    fn an_equally_short_way_takes_over_at_once_and_a_longer_one_with_the_next_version() {
        let mut origin = at_version(1, &[(FAST, 2), (LinkId(3), 2), (SLOW, 3)]);
        origin.drop_path(FAST);
        origin.choose();
        assert_eq!(origin.next, Some(LinkId(3)));
        origin.void_path(LinkId(3), 1);
        origin.choose();
        assert_eq!(origin.next, None);
        adopt(&mut origin, 2, &[(SLOW, 3)]);
        assert_eq!(origin.next, Some(SLOW));
    }

    #[test]
    fn an_old_withdrawal_does_not_touch_a_newer_way() {
        let mut origin = at_version(5, &[(FAST, 2)]);
        assert!(!origin.void_path(FAST, 4));
        assert!(origin.void_path(FAST, 5));
        assert!(origin.is_lost());
    }

    #[test]
    fn numbers_compare_across_their_wrap() {
        assert!(is_newer(3, u32::MAX) && !is_newer(u32::MAX, 3) && !is_newer(3, 3));
        assert!(is_later_life(Incarnation(2), Incarnation(250)));
        assert!(!is_later_life(Incarnation(250), Incarnation(2)));
    }
}
