//! Who joined which tree, and what that asks of the next broker towards the source.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use sangam_model::{BrokerId, Class, Filter, Scope, Time, Topic, limits};
use sangam_wire::{FILTERS_MAX, JOIN_ROOM, Join, Message};

use super::links::Links;
use super::map::Map;
use crate::{LOST_GRACE, LinkId, LinkSet};

/// Joins of neighbours held at once.
const JOINS_MAX: usize = 262_144;
/// Filters of all of them together.
const FILTERS_HELD_MAX: usize = 16 * limits::FILTERS_PER_BROKER;
/// Filters of one join; with more it asks for everything in its scope.
const FILTERS_PER_JOIN: usize = 4_096;
/// How long the way before and a detour stay when another way is taken: longer than a join and
/// the first events need over it, so nothing is lost between.
const HOLD: Duration = Duration::from_secs(1);
/// What a detour around a link in doubt carries at first: audio and what is small.
const DETOUR_CLASSES: u8 =
    1 << Class::Audio as u8 | 1 << Class::Rtcp as u8 | 1 << Class::Data as u8;
/// When it carries video, too. A silence that is over by then costs no second copy of it; one that
/// is not leaves 100 ms until the link is dead, for the join and the first events over three links
/// of 30 ms of round trip.
const VIDEO_AFTER: Duration = Duration::from_millis(50);

/// One tree: towards a source, for a part of the topics, perhaps around a broker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) origin: BrokerId,
    pub(super) scope: Scope,
    pub(super) avoid: Option<BrokerId>,
}

#[derive(Debug)]
pub(super) struct Joins {
    id: BrokerId,
    trees: BTreeMap<Key, Tree>,
    dirty: BTreeSet<Key>,
    /// Ways around links in doubt that this broker itself asked for.
    detours: BTreeMap<Key, Detour>,
    /// When a way that was left, or a detour, ends, or a detour takes video.
    ends: BTreeSet<(Time, Key)>,
    /// Joins of neighbours, whole ones and such of which not all parts came.
    joins: usize,
    /// Their filters.
    filters: usize,
}

#[derive(Debug, Default)]
struct Tree {
    /// What neighbours want of us.
    down: BTreeMap<LinkId, Wanted>,
    /// Joins of which not all parts came.
    partial: BTreeMap<LinkId, Wanted>,
    /// What we want of the parent.
    want: Wanted,
    parent: Option<LinkId>,
    /// Since when there is no way to the source.
    lost_since: Option<Time>,
    /// Former parents, and when they are left.
    leaving: BTreeMap<LinkId, Time>,
    told: BTreeMap<LinkId, Wanted>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    classes: u8,
    filters: BTreeSet<Filter>,
}

#[derive(Debug)]
struct Detour {
    /// The link in doubt.
    link: LinkId,
    since: Time,
    /// In doubt long enough to carry video, too.
    carries_all: bool,
    until: Option<Time>,
}

impl Joins {
    pub(super) const fn new(id: BrokerId) -> Self {
        Self {
            id,
            trees: BTreeMap::new(),
            dirty: BTreeSet::new(),
            detours: BTreeMap::new(),
            ends: BTreeSet::new(),
            joins: 0,
            filters: 0,
        }
    }

    /// Joins of neighbours, unfinished ones included.
    pub(super) const fn len(&self) -> usize {
        self.joins
    }

    pub(super) fn touch(&mut self, key: Key) {
        self.dirty.insert(key);
    }

    pub(super) fn touch_all(&mut self) {
        self.dirty.extend(self.trees.keys().cloned());
    }

    /// Touches all trees towards a source.
    pub(super) fn touch_origin(&mut self, origin: BrokerId) {
        let first = Key {
            origin,
            scope: Scope::WIDE,
            avoid: None,
        };
        let trees = self.trees.range(first..).map(|(key, _)| key);
        let of_origin = trees.take_while(|key| key.origin == origin);
        self.dirty.extend(of_origin.cloned());
    }

    pub(super) fn touch_detours(&mut self) {
        let detours = self.trees.keys().filter(|key| key.avoid.is_some());
        self.dirty.extend(detours.cloned());
    }

    pub(super) fn links_for(&self, topic: &Topic, class: Class, origin: BrokerId) -> LinkSet {
        let mut links = LinkSet::EMPTY;
        for scope in [Scope::of_topic(topic), Scope::WIDE] {
            for (_, tree) in self.trees.range(all_ways(origin, scope)) {
                let wanting = tree.down.iter().filter(|(_, wanted)| {
                    wanted.classes & (1 << class as u8) != 0
                        && wanted.filters.iter().any(|filter| filter.matches(topic))
                });
                wanting.for_each(|(link, _)| links.insert(*link));
            }
        }
        links
    }

    /// Takes part of a join; whether it is within the bounds.
    pub(super) fn take(&mut self, link: LinkId, join: &Join) -> bool {
        let key = Key {
            origin: join.origin,
            scope: join.scope.clone(),
            avoid: join.avoid,
        };
        if join.filters.is_empty() && !self.trees.contains_key(&key) {
            return true;
        }
        self.dirty.insert(key.clone());
        let tree = self.trees.entry(key).or_default();
        let begun = tree.partial.remove(&link);
        self.joins -= usize::from(begun.is_some());
        self.filters -= begun.as_ref().map_or(0, Wanted::len);
        let begun = begun.filter(|_| join.part > 0);
        if begun.is_none() && join.part > 0 {
            // Its first part broke a bound.
            return false;
        }
        let mut wanted = begun.unwrap_or_default();
        wanted.classes = join.classes;
        wanted.filters.extend(join.filters.iter().cloned());
        let whole = join.part + 1 >= join.parts;
        // The one before stays until this one is whole.
        let before = tree.down.get(&link).filter(|_| whole).map(Wanted::len);
        let held = self.filters + wanted.len() - before.unwrap_or(0);
        let joins = self.joins + usize::from(before.is_none());
        let fits = wanted.len() <= FILTERS_PER_JOIN + FILTERS_MAX
            && held <= FILTERS_HELD_MAX
            && joins <= JOINS_MAX;
        if fits && !whole {
            (self.filters, self.joins) = (held, joins);
            tree.partial.insert(link, wanted);
            return true;
        }
        if fits && wanted.is_empty() {
            self.filters -= before.unwrap_or(0);
            self.joins -= usize::from(tree.down.remove(&link).is_some());
        } else if fits {
            (self.filters, self.joins) = (held, joins);
            tree.down.insert(link, wanted);
        }
        fits
    }

    /// Forgets what a neighbour wanted and was told.
    pub(super) fn link_down(&mut self, link: LinkId) -> BTreeSet<BrokerId> {
        let mut origins = BTreeSet::new();
        for (key, tree) in &mut self.trees {
            let known = tree.told.remove(&link).is_some();
            tree.leaving.remove(&link);
            if let Some(begun) = tree.partial.remove(&link) {
                self.filters -= begun.len();
                self.joins -= 1;
                // Nothing else may hold the tree.
                self.dirty.insert(key.clone());
            }
            if let Some(wanted) = tree.down.remove(&link) {
                self.filters -= wanted.len();
                self.joins -= 1;
                origins.insert(key.origin);
            } else if !known {
                continue;
            }
            self.dirty.insert(key.clone());
        }
        origins
    }

    /// Looks for ways around a link in doubt for everything that comes by it.
    pub(super) fn detour(&mut self, link: LinkId, peer: BrokerId, now: Time) {
        let by_it = self.trees.iter().filter(|(key, tree)| {
            key.avoid.is_none() && tree.parent == Some(link) && !tree.want.is_empty()
        });
        let around = |origin| if origin == peer { self.id } else { peer };
        let keys = by_it.map(|(key, _)| Key {
            avoid: Some(around(key.origin)),
            ..key.clone()
        });
        for key in keys.collect::<Vec<_>>() {
            self.dirty.insert(key.clone());
            self.ends.insert((now + VIDEO_AFTER, key.clone()));
            // In doubt anew before its detour has ended: what that carries it goes on to carry.
            let known = self.detours.get(&key).filter(|known| known.link == link);
            let detour = Detour {
                link,
                since: now,
                carries_all: known.is_some_and(|known| known.carries_all),
                until: None,
            };
            self.detours.insert(key, detour);
        }
    }

    /// The link is well again, or gone and replaced: its detours end soon.
    pub(super) fn end_detours(&mut self, link: LinkId, now: Time) {
        for (key, detour) in &mut self.detours {
            if detour.link == link && detour.until.is_none() {
                detour.until = Some(now + HOLD);
                self.ends.insert((now + HOLD, key.clone()));
            }
        }
    }

    /// Ends what is over by now, and lets detours carry video whose time has come.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some((at, key)) = self.ends.first().cloned()
            && at <= now
        {
            self.ends.pop_first();
            match self.detours.get_mut(&key) {
                Some(detour) if detour.until.is_some_and(|until| until <= now) => {
                    self.detours.remove(&key);
                }
                Some(detour) if detour.until.is_none() => {
                    detour.carries_all |= now >= detour.since + VIDEO_AFTER;
                }
                _ => {}
            }
            if let Some(tree) = self.trees.get_mut(&key) {
                tree.leaving.retain(|_, until| *until > now);
            }
            self.dirty.insert(key);
        }
    }

    /// The next tree that something has happened to.
    pub(super) fn next_dirty(&mut self) -> Option<Key> {
        self.dirty.pop_first()
    }

    /// Works out anew what a tree's parent is and what is wanted of it; the links that must be
    /// told. `own` is what this broker's clients want of it.
    pub(super) fn settle(
        &mut self,
        key: &Key,
        own: BTreeSet<Filter>,
        (map, links): (&mut Map, &Links),
        now: Time,
    ) -> Vec<LinkId> {
        let way = self.way(key, map, links);
        let lost = key.origin != self.id && way.is_none();
        let parent = way.or_else(|| self.stay(key, map, links));
        let mut want = self.detoured(key, parent, links);
        if !own.is_empty() {
            want.classes = Join::ALL;
            want.filters.extend(own);
        }
        let tree = self.trees.entry(key.clone()).or_default();
        if let Some(end) = tree.note_way(lost, now) {
            self.ends.insert((end, key.clone()));
        }
        let heeds = tree.lost_since.is_none_or(|since| now - since < LOST_GRACE);
        // What the parent wants of us it gets from the source, not through itself.
        let children = tree
            .down
            .iter()
            .filter(|(link, _)| heeds && Some(**link) != parent);
        for (_, wanted) in children {
            want.classes |= wanted.classes;
            want.filters.extend(wanted.filters.iter().cloned());
        }
        if want.filters.len() > FILTERS_PER_JOIN {
            want.filters = BTreeSet::from([key.scope.everything()]);
        }
        if let Some(end) = tree.turn(parent, want, now) {
            self.ends.insert((end, key.clone()));
        }
        let mut tell: Vec<LinkId> = tree.told.keys().copied().collect();
        tell.extend(parent.filter(|parent| !tree.told.contains_key(parent)));
        tell.retain(|link| tree.desired(*link) != tree.told.get(link));
        if tree.is_idle() {
            self.trees.remove(key);
        }
        tell
    }

    fn way(&self, key: &Key, map: &mut Map, links: &Links) -> Option<LinkId> {
        match key.avoid {
            _ if key.origin == self.id => None,
            None => map.next_hop(key.origin, links),
            Some(avoid) => map.detour(key.origin, avoid, links),
        }
    }

    /// While there is no way the tree stays as it was: it may heal, and nobody else can help.
    fn stay(&self, key: &Key, map: &Map, links: &Links) -> Option<LinkId> {
        let known = key.origin != self.id && map.state(key.origin).is_some();
        let tree = self.trees.get(key).filter(|_| known);
        tree?.parent.filter(|link| links.is_up(*link))
    }

    /// What a detour around a link in doubt wants: what came by that link. Where the detour is in
    /// doubt itself, it is asked for no more video than it carries.
    fn detoured(&self, key: &Key, parent: Option<LinkId>, links: &Links) -> Wanted {
        let Some(detour) = self.detours.get(key) else {
            return Wanted::default();
        };
        let direct = Key {
            avoid: None,
            ..key.clone()
        };
        let want = self.trees.get(&direct).map(|tree| tree.want.clone());
        let mut want = want.unwrap_or_default();
        let carries_video = |link: LinkId| {
            let told = self.trees.get(key).and_then(|tree| tree.told.get(&link));
            told.is_some_and(|told| told.classes & !DETOUR_CLASSES != 0)
        };
        let doubtful = parent.filter(|link| links.is_suspect(*link));
        if !detour.carries_all || doubtful.is_some_and(|link| !carries_video(link)) {
            want.classes &= DETOUR_CLASSES;
        }
        want
    }

    /// The parts of what a link must be told about a tree; none if it knows already.
    pub(super) fn tidings(&mut self, link: LinkId, key: &Key) -> Vec<Message> {
        let Some(tree) = self.trees.get_mut(key) else {
            return Vec::new();
        };
        let desired = tree.desired(link).cloned();
        if desired.as_ref() == tree.told.get(&link) {
            return Vec::new();
        }
        let wanted = desired.clone().unwrap_or_default();
        match desired {
            Some(wanted) => tree.told.insert(link, wanted),
            None => tree.told.remove(&link),
        };
        if tree.is_idle() {
            self.trees.remove(key);
        }
        parts(key, &wanted)
    }

    pub(super) fn bytes(&self) -> usize {
        let wish = |wanted: &Wanted| {
            let filters = wanted.filters.iter();
            let filters = filters.map(|filter| size_of::<Filter>() + filter.as_str().len());
            size_of::<(LinkId, Wanted)>() + filters.sum::<usize>()
        };
        let of = |tree: &Tree| {
            let theirs = tree.down.values().chain(tree.partial.values());
            let wishes = theirs.chain(tree.told.values());
            size_of::<(Key, Tree)>() + wishes.map(wish).sum::<usize>()
        };
        self.trees.values().map(of).sum()
    }

    pub(super) fn deadline(&self) -> Time {
        self.ends.first().map_or(Time::NEVER, |(at, _)| *at)
    }
}

impl Tree {
    /// Notes whether there is a way to the source. When what others want of it is not passed on
    /// any more: without a way three brokers could want it because of each other, for ever.
    fn note_way(&mut self, lost: bool, now: Time) -> Option<Time> {
        if !lost {
            self.lost_since = None;
        } else if self.lost_since.is_none() {
            self.lost_since = Some(now);
            return Some(now + LOST_GRACE);
        }
        None
    }

    /// Takes a new parent and a new wish; when the former parent is left, if there is one.
    fn turn(&mut self, parent: Option<LinkId>, want: Wanted, now: Time) -> Option<Time> {
        let before = core::mem::replace(&mut self.parent, parent);
        self.want = want;
        if self.want.is_empty() {
            self.leaving.clear();
            return None;
        }
        self.leaving.retain(|link, _| Some(*link) != parent);
        // Make before break: the former parent still sends for a while.
        let left = before.filter(|link| before != parent && self.told.contains_key(link))?;
        self.leaving.insert(left, now + HOLD);
        Some(now + HOLD)
    }

    /// What a link ought to have been told.
    fn desired(&self, link: LinkId) -> Option<&Wanted> {
        if self.leaving.contains_key(&link) {
            return self.told.get(&link);
        }
        (self.parent == Some(link) && !self.want.is_empty()).then_some(&self.want)
    }

    fn is_idle(&self) -> bool {
        self.down.is_empty()
            && self.partial.is_empty()
            && self.told.is_empty()
            && self.want.is_empty()
    }
}

impl Wanted {
    fn is_empty(&self) -> bool {
        self.filters.is_empty() || self.classes == 0
    }

    fn len(&self) -> usize {
        self.filters.len()
    }
}

/// All trees towards a source for a scope, whatever they avoid.
fn all_ways(origin: BrokerId, scope: Scope) -> core::ops::RangeInclusive<Key> {
    let key = |avoid| Key {
        origin,
        scope: scope.clone(),
        avoid,
    };
    key(None)..=key(Some(BrokerId(u32::MAX)))
}

/// A wish in as many messages as it takes; one without filters takes it back.
fn parts(key: &Key, wanted: &Wanted) -> Vec<Message> {
    let room = JOIN_ROOM - 1 - key.scope.as_str().len();
    let (mut parts, mut left) = (vec![Vec::new()], room);
    for filter in &wanted.filters {
        let cost = 1 + filter.as_str().len();
        let last = parts.len() - 1;
        if cost > left || parts[last].len() >= FILTERS_MAX {
            parts.push(vec![filter.clone()]);
            left = room - cost;
        } else {
            parts[last].push(filter.clone());
            left -= cost;
        }
    }
    let count = parts.len();
    let message = |(part, filters): (usize, Vec<Filter>)| {
        Message::Join(Join {
            origin: key.origin,
            avoid: key.avoid,
            classes: wanted.classes,
            scope: key.scope.clone(),
            part: part as u16,
            // At most `FILTERS_PER_JOIN`.
            parts: count as u16,
            filters,
        })
    };
    parts.into_iter().enumerate().map(message).collect()
}
