//! The network map: what every broker says of itself, and the ways that follow from it.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use sangam_model::{BrokerId, Incarnation, StreamId, Time, hash};
use sangam_route::{Edge, Graph, WEIGHT_MAX, Ways};
use sangam_wire::{LinkState, LinkView, Plan, Version};

use super::links::Links;
use super::plans::{self, Plans};
use super::ways::{Hops, Moved};
use super::{Description, Standing};
use crate::LinkId;

/// Other brokers known at once.
pub const ORIGINS_MAX: usize = 4_096;
/// A broker tells of itself again after so long, though nothing changed.
pub const REFRESH: Duration = Duration::from_secs(120);
/// A broker that was not heard of for so long is forgotten: three refreshes and some slack. Ways
/// do not wait for it: a broker that died is cut off by what its neighbours say.
pub const EXPIRY: Duration = Duration::from_secs(400);
/// Changes of our own within so long make one record.
const COALESCE: Duration = Duration::from_millis(20);
/// So many records of our own life that we did not make, within this time, come from a twin: one
/// or two may be forged.
const TWIN_RECORDS: u32 = 8;
const TWIN_SPAN: Duration = Duration::from_secs(10);
/// Ways follow others' records at once, then not again for so long: a thousand records that come
/// together shall not cost a thousand searches.
const PAUSE: Duration = Duration::from_millis(20);
/// After so many such pauses in a row they are longer: one failure is told in a few steps, while a
/// thousand brokers are never quiet, and each search looks at all of them.
const PAUSES: u32 = 8;
const LONG_PAUSE: Duration = Duration::from_millis(100);

/// What became of a record that a neighbour told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It says something new.
    News,
    /// It is newer, and tells of no other ways than the one before.
    Again,
    /// Known already.
    Same,
    /// Older than what is known.
    Stale,
    /// Past the bound.
    Full,
    /// One of ours that we did not make: from before a restart, or forged. Ours is newer now.
    Overtaken,
    /// Another broker has our id, and the better right: it is in a later life, or in the same
    /// with a higher address.
    Identity,
}

#[derive(Debug)]
pub(super) struct Map {
    own: LinkState,
    /// Ours must be told anew.
    changed: bool,
    /// When it was told last.
    told: Time,
    others: BTreeMap<BrokerId, Known>,
    sweep: Time,
    graph: Graph,
    epoch: u64,
    hops: Hops,
    plans: Plans,
    /// Ways around a broker, or to a neighbour without its link. Made when asked for.
    around: BTreeMap<Around, Ways>,
    /// The graph is older than the records.
    outdated: bool,
    /// Among them ours: a link of ours came or went.
    urgent: bool,
    settled: Time,
    /// Short pauses that are left; one more comes with each long one that passes.
    pauses: u32,
    /// Since when records of our own life came that we did not make, and how many.
    twin: (Time, u32),
}

/// What a way leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Around {
    Broker(BrokerId),
    LinkTo(BrokerId),
}

#[derive(Debug)]
struct Known {
    state: LinkState,
    heard: Time,
}

impl Map {
    pub(super) fn new(id: BrokerId, incarnation: Incarnation) -> Self {
        let own = LinkState {
            version: Version {
                origin: id,
                incarnation,
                sequence: 0,
            },
            draining: false,
            keeps: false,
            organises: false,
            load: 0,
            region: String::new(),
            address: String::new(),
            links: Vec::new(),
            ways: Vec::new(),
        };
        Self {
            own,
            changed: true,
            told: Time::ZERO,
            others: BTreeMap::new(),
            sweep: Time::NEVER,
            graph: Graph::default(),
            epoch: 0,
            hops: Hops::new(id),
            plans: Plans::new(id),
            around: BTreeMap::new(),
            outdated: true,
            urgent: true,
            settled: Time::ZERO,
            pauses: PAUSES,
            twin: (Time::ZERO, 0),
        }
    }

    pub(super) fn describe(&mut self, description: Description) {
        let Description {
            region,
            address,
            ways,
            load,
            draining,
            keeps,
            organises,
        } = description;
        let state = LinkState {
            draining,
            keeps,
            organises,
            load,
            region,
            address,
            ways,
            ..self.own.clone()
        };
        self.changed |= state != self.own;
        self.outdated |= draining != self.own.draining;
        self.own = state;
    }

    pub(super) fn set_links(&mut self, links: Vec<LinkView>) {
        if self.own.links != links {
            self.own.links = links;
            self.changed = true;
            self.outdated = true;
            self.urgent = true;
        }
    }

    /// Makes a new record of ours if it is time for one; whether it did.
    pub(super) fn advance(&mut self, now: Time) -> bool {
        if now < self.own_deadline() {
            return false;
        }
        let version = &mut self.own.version;
        version.sequence = version.sequence.wrapping_add(1);
        self.changed = false;
        self.told = now;
        true
    }

    /// Takes a record that a neighbour told.
    pub(super) fn take(&mut self, now: Time, state: &LinkState) -> Taken {
        let version = state.version;
        if version.origin == self.own.version.origin {
            return self.take_own(now, state);
        }
        let full = self.others.len() >= ORIGINS_MAX;
        match self.others.get_mut(&version.origin) {
            Some(known) if known.state.version == version => return Taken::Same,
            Some(known) if !is_newer(version, known.state.version) => return Taken::Stale,
            Some(known) => {
                self.outdated |=
                    known.state.links != state.links || known.state.draining != state.draining;
                let before = core::mem::replace(&mut known.state, state.clone());
                known.heard = now;
                if says_the_same(&before, state) {
                    return Taken::Again;
                }
            }
            None if full => return Taken::Full,
            None => {
                let state = state.clone();
                self.others
                    .insert(version.origin, Known { state, heard: now });
                self.outdated = true;
                self.sweep = self.sweep.min(now + EXPIRY);
            }
        }
        Taken::News
    }

    fn take_own(&mut self, now: Time, state: &LinkState) -> Taken {
        let (own, version) = (&mut self.own.version, state.version);
        if version == *own {
            return Taken::Same;
        }
        if is_newer(*own, version) {
            return Taken::Stale;
        }
        if version.incarnation != own.incarnation {
            return Taken::Identity;
        }
        own.sequence = version.sequence;
        self.changed = true;
        if now - self.twin.0 >= TWIN_SPAN {
            self.twin = (now, 0);
        }
        self.twin.1 += 1;
        let right = |state: &LinkState| (state.address.clone(), links_of(state));
        if self.twin.1 >= TWIN_RECORDS && right(state) > right(&self.own) {
            return Taken::Identity;
        }
        Taken::Overtaken
    }

    /// Forgets brokers that were not heard of for long; whether there were any.
    pub(super) fn expire(&mut self, now: Time) -> bool {
        if now < self.sweep {
            return false;
        }
        let before = self.others.len();
        self.others.retain(|_, known| now - known.heard < EXPIRY);
        let oldest = self.others.values().map(|known| known.heard).min();
        self.sweep = oldest.map_or(Time::NEVER, |heard| heard + EXPIRY);
        let any = self.others.len() != before;
        self.outdated |= any;
        any
    }

    pub(super) fn state(&self, id: BrokerId) -> Option<&LinkState> {
        if id == self.own.version.origin {
            return Some(&self.own);
        }
        self.others.get(&id).map(|known| &known.state)
    }

    pub(super) fn states(&self) -> impl Iterator<Item = &LinkState> {
        let others = self.others.values().map(|known| &known.state);
        core::iter::once(&self.own).chain(others)
    }

    pub(super) fn bytes(&self) -> usize {
        let of = |state: &LinkState| {
            // The record, its links here and in the graph, and where the way begins.
            let links = state.links.len() * (size_of::<LinkView>() + size_of::<(u32, u32)>());
            size_of::<Known>() + links + texts_of(state) + 8
        };
        self.states().map(of).sum()
    }

    /// Whether a neighbour that told of `version` has just what we have.
    pub(super) fn is_known(&self, version: Version) -> bool {
        let known = self.state(version.origin);
        known.is_some_and(|state| state.version == version)
    }

    /// Whether a broker tells `peer` of itself by a link of their own, no later than we could by
    /// ours of this weight. Control channels lose nothing, and when that link dies the broker's
    /// next record says so.
    pub(super) fn is_told_by(&self, origin: BrokerId, (peer, weight): (BrokerId, u16)) -> bool {
        let link = |from: BrokerId, to: BrokerId| {
            let links = &self.state(from)?.links;
            links.iter().find(|link| link.to == to)
        };
        let (Some(direct), Some(_)) = (link(origin, peer), link(peer, origin)) else {
            return false;
        };
        let to_us = link(origin, self.own.version.origin);
        to_us.is_some_and(|to_us| direct.weight <= to_us.weight.saturating_add(weight))
    }

    pub(super) fn digest(&self) -> Vec<Version> {
        self.states().map(|state| state.version).collect()
    }

    /// Brokers of whom we know more than a neighbour that holds these records.
    pub(super) fn newer_than(&self, theirs: &[Version]) -> Vec<BrokerId> {
        let news = theirs.iter().filter(|theirs| {
            let known = self.state(theirs.origin);
            known.is_some_and(|ours| is_newer(ours.version, **theirs))
        });
        news.map(|version| version.origin).collect()
    }

    /// Brokers that are not among these. Each neighbour begins elsewhere, so that one who lacks
    /// many gets different ones from each and passes on what the others have not sent yet.
    pub(super) fn missing_in(&self, listed: &BTreeSet<BrokerId>, peer: BrokerId) -> Vec<BrokerId> {
        let known = self.states().map(|state| state.version.origin);
        let mut missing: Vec<BrokerId> = known.filter(|id| !listed.contains(id)).collect();
        if !missing.is_empty() {
            let ends = (u64::from(self.own.version.origin.0) << 32) | u64::from(peer.0);
            let start = hash::fold(ends, hash::KEY) % missing.len() as u64;
            missing.rotate_left(start as usize);
        }
        missing
    }

    pub(super) fn standing(&self, id: BrokerId, incarnation: Incarnation) -> Standing {
        match self.state(id).map(|state| state.version.incarnation) {
            Some(known) if known == incarnation => Standing::Known,
            Some(known) if is_later_life(known, incarnation) => Standing::Replaced,
            _ => Standing::Unknown,
        }
    }

    /// Makes the graph anew from the records if it is time to; how the ways changed.
    pub(super) fn settle(&mut self, now: Time, links: &Links) -> Option<Moved> {
        if now < self.settle_deadline() {
            return None;
        }
        let earned = now.since(self.settled).as_millis() / LONG_PAUSE.as_millis();
        let earned = u32::try_from(earned).unwrap_or(PAUSES);
        self.pauses = self.pauses.saturating_add(earned).min(PAUSES);
        self.pauses = self.pauses.saturating_sub(1);
        (self.outdated, self.urgent, self.settled) = (false, false, now);
        let draining: BTreeSet<BrokerId> = self
            .states()
            .filter(|state| state.draining)
            .map(|state| state.version.origin)
            .collect();
        let told = |state| edges(state, &draining);
        let views = self
            .states()
            .map(|state| (state.version.origin, told(state)));
        self.graph = Graph::new(views);
        self.epoch = fingerprint(&self.graph);
        self.around.clear();
        self.plans.lapse(now);
        let (graph, plans) = (&self.graph, &self.plans);
        let is_well = |peer| links.is_well(peer);
        let plan = |to| plans.parent(to, graph);
        Some(self.hops.follow(now, graph, is_well, plan))
    }

    /// Takes a message of a scheduler.
    pub(super) fn plan(&mut self, now: Time, from: StreamId, plan: &Plan) -> plans::Taken {
        let taken = self.plans.take(now, from, plan);
        self.outdated |= taken == plans::Taken::News;
        taken
    }

    /// A link is not in doubt any more: ways may be as planned again.
    pub(super) fn link_recovered(&mut self) {
        self.outdated |= self.plans.are_followed();
    }

    /// Brokers to which the way is as a scheduler plans, and by which neighbour it begins.
    pub(super) fn planned(&self) -> impl Iterator<Item = (BrokerId, BrokerId)> {
        self.hops.planned()
    }

    pub(super) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Brokers with a way to them, this one included, by rising id.
    pub(super) fn reachable(&self) -> impl Iterator<Item = BrokerId> {
        self.hops.reachable()
    }

    pub(super) fn has_way(&self, to: BrokerId) -> bool {
        self.hops.to(to).is_some()
    }

    /// The first link of the way to a broker. Neighbours that follow theirs get ever nearer.
    pub(super) fn next_hop(&self, to: BrokerId, links: &Links) -> Option<LinkId> {
        links.with_peer(self.hops.to(to)?)
    }

    /// The same for a way that does not cross `avoid`. A detour around ourselves is asked for
    /// because the direct link is in doubt.
    pub(super) fn detour(
        &mut self,
        to: BrokerId,
        avoid: BrokerId,
        links: &Links,
    ) -> Option<LinkId> {
        let own = self.own.version.origin;
        let graph = &self.graph;
        let ways = if avoid == own {
            let ways = self.around.entry(Around::LinkTo(to));
            ways.or_insert_with(|| graph.ways_without(own, to))
        } else {
            let ways = self.around.entry(Around::Broker(avoid));
            ways.or_insert_with(|| graph.ways(own, Some(avoid)))
        };
        links.with_peer(graph.first(ways, to)?)
    }

    pub(super) fn deadline(&self) -> Time {
        let deadlines = [self.own_deadline(), self.sweep, self.settle_deadline()];
        deadlines.into_iter().fold(Time::NEVER, Time::min)
    }

    fn settle_deadline(&self) -> Time {
        match (self.outdated, self.urgent) {
            (false, _) => self.hops.due().min(self.plans.deadline()),
            (true, true) => Time::ZERO,
            (true, false) if self.pauses > 0 => self.settled + PAUSE,
            (true, false) => self.settled + LONG_PAUSE,
        }
    }

    fn own_deadline(&self) -> Time {
        if self.own.version.sequence == 0 {
            return Time::ZERO;
        }
        let pause = if self.changed { COALESCE } else { REFRESH };
        self.told + pause
    }

    /// Brokers that may keep a session's directory, by rising id.
    pub(super) fn suitors(&self) -> Vec<BrokerId> {
        let stays = |id: &BrokerId| self.state(*id).is_some_and(|state| !state.draining);
        self.reachable().filter(stays).collect()
    }
}

fn links_of(state: &LinkState) -> Vec<(BrokerId, u16)> {
    let links = state.links.iter();
    links.map(|link| (link.to, link.weight)).collect()
}

/// Whether two records of one life differ in nothing that ways or links follow from.
fn says_the_same(before: &LinkState, after: &LinkState) -> bool {
    before.version.incarnation == after.version.incarnation
        && before.draining == after.draining
        && before.links == after.links
        && (&before.region, &before.address) == (&after.region, &after.address)
        && (before.organises, &before.ways) == (after.organises, &after.ways)
}

/// Bytes of the texts of a record.
pub(super) fn texts_of(state: &LinkState) -> usize {
    let ways: usize = state.ways.iter().map(String::len).sum();
    state.region.len() + state.address.len() + ways
}

/// Streams shall not cross who is about to leave, yet reach it as long as it is there.
fn edges<'a>(
    state: &'a LinkState,
    draining: &'a BTreeSet<BrokerId>,
) -> impl Iterator<Item = Edge> + 'a {
    let leaving = |id: &BrokerId| draining.contains(id);
    state.links.iter().map(move |link| Edge {
        to: link.to,
        weight: if state.draining || leaving(&link.to) {
            WEIGHT_MAX
        } else {
            link.weight
        },
    })
}

fn fingerprint(graph: &Graph) -> u64 {
    let mut epoch = 0;
    for id in graph.brokers() {
        epoch = hash::fold(epoch ^ u64::from(id.0), hash::KEY);
        for (to, cost) in graph.neighbours(*id) {
            let link = (u64::from(to.0) << 32) | u64::from(cost);
            epoch = hash::fold(epoch ^ link, hash::KEY);
        }
    }
    epoch
}

/// A later life, or a later record of the same. Sequences wrap (RFC 1982).
const fn is_newer(a: Version, b: Version) -> bool {
    if a.incarnation.0 != b.incarnation.0 {
        return is_later_life(a.incarnation, b.incarnation);
    }
    a.sequence != b.sequence && a.sequence.wrapping_sub(b.sequence) < 1 << 31
}

/// Lives of a broker are counted modulo 256.
const fn is_later_life(a: Incarnation, b: Incarnation) -> bool {
    a.0 != b.0 && a.0.wrapping_sub(b.0) < 1 << 7
}
