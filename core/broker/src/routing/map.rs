//! The network map: what every broker says of itself, and the ways that follow from it.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use sangam_model::{BrokerId, Incarnation, Time, hash};
use sangam_route::{Edge, Graph, UNREACHABLE, WEIGHT_MAX, Ways};
use sangam_wire::{LinkState, LinkView, Version};

use super::links::Links;
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

/// What became of a record that a neighbour told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Newer than what was known.
    News,
    /// Known already.
    Same,
    /// Older than what is known.
    Stale,
    /// Past the bound.
    Full,
    /// One of ours that we did not make: from before a restart, or forged. Ours is newer now.
    Overtaken,
    /// From a later life of ours: another broker has our id.
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
    /// Ways from neighbours, and which broker they avoid. Made when asked for.
    ways: BTreeMap<(BrokerId, Option<BrokerId>), Ways>,
    /// The graph is older than the records.
    outdated: bool,
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
            load: 0,
            region: String::new(),
            address: String::new(),
            links: Vec::new(),
        };
        Self {
            own,
            changed: true,
            told: Time::ZERO,
            others: BTreeMap::new(),
            sweep: Time::NEVER,
            graph: Graph::default(),
            epoch: 0,
            ways: BTreeMap::new(),
            outdated: true,
        }
    }

    pub(super) fn describe(&mut self, description: Description) {
        let Description {
            region,
            address,
            load,
            draining,
        } = description;
        let state = LinkState {
            draining,
            load,
            region,
            address,
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
            return self.take_own(version);
        }
        let full = self.others.len() >= ORIGINS_MAX;
        match self.others.get_mut(&version.origin) {
            Some(known) if known.state.version == version => return Taken::Same,
            Some(known) if !is_newer(version, known.state.version) => return Taken::Stale,
            Some(known) => {
                self.outdated |=
                    known.state.links != state.links || known.state.draining != state.draining;
                known.state = state.clone();
                known.heard = now;
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

    fn take_own(&mut self, version: Version) -> Taken {
        let own = &mut self.own.version;
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

    pub(super) fn digest(&self) -> Vec<Version> {
        self.states().map(|state| state.version).collect()
    }

    /// Brokers of whom we know more than a neighbour whose map holds these records.
    pub(super) fn newer_than(&self, theirs: &BTreeMap<BrokerId, Version>) -> Vec<BrokerId> {
        let news = self.states().map(|state| state.version).filter(|ours| {
            let known = theirs.get(&ours.origin);
            known.is_none_or(|theirs| is_newer(*ours, *theirs))
        });
        news.map(|version| version.origin).collect()
    }

    pub(super) fn standing(&self, id: BrokerId, incarnation: Incarnation) -> Standing {
        match self.state(id).map(|state| state.version.incarnation) {
            Some(known) if known == incarnation => Standing::Known,
            Some(known) if is_later_life(known, incarnation) => Standing::Replaced,
            _ => Standing::Unknown,
        }
    }

    /// Whether the graph has changed since the last call of this.
    pub(super) fn settle(&mut self) -> bool {
        if !core::mem::take(&mut self.outdated) {
            return false;
        }
        let draining: BTreeSet<BrokerId> = self
            .states()
            .filter(|state| state.draining)
            .map(|state| state.version.origin)
            .collect();
        let edges: Vec<(BrokerId, Vec<Edge>)> = self
            .states()
            .map(|state| (state.version.origin, edges(state, &draining)))
            .collect();
        let views = edges.iter().map(|(id, edges)| (*id, edges.as_slice()));
        self.graph = Graph::new(views);
        self.epoch = fingerprint(&self.graph);
        self.ways.clear();
        true
    }

    pub(super) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Brokers with a way to them, this one included.
    pub(super) fn reachable(&self) -> BTreeSet<BrokerId> {
        let ways = self.graph.ways(self.own.version.origin, None);
        let brokers = self.graph.brokers().iter().copied();
        brokers
            .filter(|id| self.graph.cost(&ways, *id) != UNREACHABLE)
            .collect()
    }

    /// The first link of the shortest way to a broker that does not cross `avoid`; by equal costs
    /// the one to the neighbour with the lowest id. So neighbours that follow it get ever nearer.
    pub(super) fn next_hop(
        &mut self,
        to: BrokerId,
        avoid: Option<BrokerId>,
        links: &Links,
    ) -> Option<LinkId> {
        let own = self.own.version.origin;
        let steps: Vec<_> = self.graph.neighbours(own).collect();
        let mut best: Option<(u32, BrokerId, LinkId)> = None;
        for (peer, step) in steps {
            // A detour around ourselves is asked for because the direct link is in doubt.
            let direct = avoid == Some(own) && peer == to;
            let Some(link) = links
                .with_peer(peer)
                .filter(|_| !direct && avoid != Some(peer))
            else {
                continue;
            };
            let cost = step.saturating_add(self.cost(peer, to, avoid));
            if cost != UNREACHABLE && best.is_none_or(|best| (cost, peer, link) < best) {
                best = Some((cost, peer, link));
            }
        }
        best.map(|(_, _, link)| link)
    }

    fn cost(&mut self, from: BrokerId, to: BrokerId, avoid: Option<BrokerId>) -> u32 {
        let ways = self
            .ways
            .entry((from, avoid))
            .or_insert_with(|| self.graph.ways(from, avoid));
        self.graph.cost(ways, to)
    }

    pub(super) fn deadline(&self) -> Time {
        self.own_deadline().min(self.sweep)
    }

    fn own_deadline(&self) -> Time {
        if self.own.version.sequence == 0 {
            return Time::ZERO;
        }
        let pause = if self.changed { COALESCE } else { REFRESH };
        self.told + pause
    }

    /// Brokers that may keep a session's directory, with how well each suits it: the best two do.
    pub(super) fn suitors(&self, reachable: &BTreeSet<BrokerId>) -> Vec<BrokerId> {
        let here = self.states().filter(|state| !state.draining);
        here.map(|state| state.version.origin)
            .filter(|id| reachable.contains(id))
            .collect()
    }
}

/// Streams shall not cross who is about to leave, yet reach it as long as it is there.
fn edges(state: &LinkState, draining: &BTreeSet<BrokerId>) -> Vec<Edge> {
    let leaving = |id: &BrokerId| draining.contains(id);
    let links = state.links.iter().map(|link| Edge {
        to: link.to,
        weight: if state.draining || leaving(&link.to) {
            WEIGHT_MAX
        } else {
            link.weight
        },
    });
    links.collect()
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
