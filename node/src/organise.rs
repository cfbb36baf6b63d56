//! Links that a broker makes by itself once it has joined a network.
//!
//! The map says who is there, [`sangam_route::neighbours`] which of them ought to be linked. Both
//! may dial; one call stands. A link that is wanted no more stays for a while, so that the new ones
//! stand before the old ones go. Besides, a broker links with those that it measures to be nearest
//! ([`Nearest`]), if the planned ones are farther.
//!
//! Who was there and cannot be reached is remembered, and called from time to time ([`Calls`]):
//! a network that was cut grows together again, whichever part sees it first. A broker that joined
//! by nobody does the same as soon as it hears of others that did: it is the one they joined by.

mod calls;
mod nearest;
mod survey;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use sangam_broker::{LinkId, ORIGINS_MAX, Routing};
use sangam_model::{BrokerId, Time};
use sangam_route::{Member, candidates, neighbours};
use sangam_wire::{LinkState, Version};

use self::calls::Calls;
use self::nearest::Nearest;
use self::survey::{Answers, SurveyDesk, survey};
use self::ways::Means;
pub(crate) use self::ways::description;
use crate::command::LaneCommand;
use crate::config::{BrokerConfig, LinkWay, Neighbour};

/// How long a link stays that is wanted no more, and how long a broker that lost all its links
/// waits before it calls those again that it joined by.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often the plan is looked at if nothing happens.
const EVERY: Duration = Duration::from_secs(1);
/// A broker that could not be reached for so long is forgotten. The map forgets it earlier.
const MEMORY: Duration = Duration::from_secs(3_600);
/// Brokers remembered at once; past it those unreachable for longest are forgotten.
const MEMBERS_MAX: usize = ORIGINS_MAX;
/// One of those lost that are no neighbours is called as well, another one after so long: the
/// neighbours may have no address that leads to them.
const TURN: Duration = Duration::from_secs(30);
/// Whoever has so many links gets none for being near.
const CROWDED: usize = 32;

/// What a broker that organises its links remembers.
#[derive(Debug)]
pub(crate) struct Organiser {
    own: BrokerId,
    /// Brokers known from the configuration; the first way into the network.
    seeds: Vec<Seed>,
    means: Means,
    /// Links that are up, with the neighbour's address.
    up: BTreeMap<LinkId, (BrokerId, SocketAddr)>,
    /// Addresses this broker dials, and since when it need not.
    dials: BTreeMap<SocketAddr, Option<Time>>,
    calls: Calls,
    nearest: Nearest,
    surveyor: SurveyDesk,
    members: BTreeMap<BrokerId, Known>,
    alone_since: Option<Time>,
    /// Brokers with which no link is to be made.
    forbidden: BTreeSet<BrokerId>,
    next: Time,
}

/// A broker to join by.
#[derive(Debug)]
struct Seed {
    home: SocketAddr,
    neighbour: Neighbour,
    /// Who answered there last.
    peer: Option<BrokerId>,
}

/// Another broker of the network, there or lost.
#[derive(Debug)]
struct Known {
    version: Version,
    region: String,
    /// It makes its links by itself.
    organises: bool,
    /// How this broker may dial it.
    neighbour: Option<Neighbour>,
    /// How many links it has.
    links: usize,
    there: bool,
    /// When there was a way to it last.
    seen: Time,
}

impl Organiser {
    /// The lane dials the seeds from the start.
    fn new(own: BrokerId, seeds: &[Neighbour], means: Means, surveyor: SurveyDesk) -> Self {
        let seed = |neighbour: &Neighbour| {
            Some(Seed {
                home: neighbour.home()?,
                neighbour: neighbour.clone(),
                peer: None,
            })
        };
        let seeds: Vec<Seed> = seeds.iter().filter_map(seed).collect();
        Self {
            own,
            dials: seeds.iter().map(|seed| (seed.home, None)).collect(),
            seeds,
            means,
            up: BTreeMap::new(),
            calls: Calls::new(own),
            nearest: Nearest::default(),
            surveyor,
            members: BTreeMap::new(),
            alone_since: None,
            forbidden: BTreeSet::new(),
            next: Time::ZERO,
        }
    }

    pub(crate) fn link_up(&mut self, link: LinkId, peer: BrokerId, address: SocketAddr) {
        self.up.insert(link, (peer, address));
        if let Some(seed) = self.seeds.iter_mut().find(|seed| seed.home == address) {
            seed.peer = Some(peer);
        }
        if self.calls.answered(address) {
            self.dials.insert(address, None);
        }
        self.next = Time::ZERO;
    }

    pub(crate) fn link_down(&mut self, link: LinkId) {
        self.up.remove(&link);
        self.next = Time::ZERO;
    }

    /// Plans as if these were not there.
    pub(crate) fn forbid(&mut self, forbidden: BTreeSet<BrokerId>) {
        self.forbidden = forbidden;
        self.next = Time::ZERO;
    }

    /// How far a broker is that was asked for; `None` if it did not answer.
    pub(crate) fn surveyed(&mut self, now: Time, id: BrokerId, rtt: Option<Duration>) {
        self.nearest.measured(now, id, rtt);
    }

    /// When to ask again.
    pub(crate) fn deadline(&self) -> Time {
        self.next
    }

    /// What the lane shall do now.
    pub(crate) fn plan(&mut self, now: Time, routing: &Routing) -> Vec<LaneCommand> {
        if now < self.next {
            return Vec::new();
        }
        self.next = now + EVERY;
        self.remember(now, routing);
        let joined = |known: &Known| known.organises;
        if self.seeds.is_empty() && !self.members.values().any(joined) {
            // Its operator says which links there are, or there is nobody yet.
            return Vec::new();
        }
        let mut own = Vec::new();
        let mut region = "";
        if let Some((state, _)) = routing.brokers().next() {
            (region, own) = (&state.region, ways::ways_of(state));
        }
        let planned = self.planned(region);
        let mut wanted = self.near(now, region, &planned);
        wanted.extend(&planned);
        let mut commands = self.dial(&wanted);
        commands.extend(self.hang_up(now, &planned, &wanted));
        commands.extend(self.call_seeds(now));
        let mut lost = self.lost(now, region);
        lost.extend(self.lost_seeds(&own));
        lost.retain(|one| {
            one.home()
                .is_some_and(|home| !self.dials.contains_key(&home))
        });
        commands.extend(self.calls.plan(now, &lost));
        commands
    }

    /// Takes from the map who is there.
    fn remember(&mut self, now: Time, routing: &Routing) {
        for known in self.members.values_mut() {
            known.there = false;
        }
        for (state, has_way) in routing.brokers() {
            let id = state.version.origin;
            if id == self.own {
                continue;
            }
            let known = self.members.get(&id);
            if known.is_none_or(|known| known.version != state.version) {
                let seen = known.map_or(now, |known| known.seen);
                let known = Known::of(state, &self.means, seen);
                self.members.insert(id, known);
            }
            if let Some(known) = self.members.get_mut(&id).filter(|_| has_way) {
                (known.there, known.seen) = (true, now);
            }
        }
        self.members.retain(|_, known| now - known.seen < MEMORY);
        while self.members.len() > MEMBERS_MAX {
            let oldest = self.members.iter().min_by_key(|(_, known)| known.seen);
            let Some(oldest) = oldest.map(|(id, _)| *id) else {
                return;
            };
            self.members.remove(&oldest);
        }
    }

    /// Whom to be linked with by the plan.
    fn planned(&self, region: &str) -> BTreeSet<BrokerId> {
        neighbours(self.own, &self.with_own(region, |known| known.there))
    }

    /// Whom to be linked with as they are near. Has those measured of whom that is not known.
    fn near(
        &mut self,
        now: Time,
        region: &str,
        planned: &BTreeSet<BrokerId>,
    ) -> BTreeSet<BrokerId> {
        let mut candidates = candidates(self.own, &self.with_own(region, |known| known.there));
        let linked: BTreeSet<BrokerId> = self.up.values().map(|(peer, _)| *peer).collect();
        let has_room = |id: &BrokerId| {
            let known = self.members.get(id);
            let known = known.filter(|known| known.neighbour.is_some());
            known.is_some_and(|known| known.links < CROWDED || linked.contains(id))
        };
        for all in &mut candidates {
            all.retain(has_room);
        }
        let everybody = candidates.iter().flatten().copied().collect();
        for id in self.nearest.due(now, &everybody) {
            let neighbour = self.members.get(&id).and_then(|one| one.neighbour.clone());
            if !neighbour.is_some_and(|neighbour| self.surveyor.ask(id, neighbour)) {
                self.nearest.not_asked(id);
            }
        }
        self.nearest.choose(planned, &candidates)
    }

    /// Members of which this holds and that may be linked with, and the broker itself.
    fn with_own<'a>(&'a self, region: &'a str, are: impl Fn(&Known) -> bool) -> Vec<Member<'a>> {
        let allowed = |id| !self.forbidden.contains(id);
        let others = self.members.iter();
        let others = others.filter(|(id, known)| allowed(*id) && are(known));
        let others = others.map(|(id, known)| Member {
            id: *id,
            region: &known.region,
        });
        let own = Member {
            id: self.own,
            region,
        };
        others.chain([own]).collect()
    }

    /// Dials who is missing. The lane is told again as long as that is so: it passes over an
    /// address by which the neighbour itself has just called.
    fn dial(&mut self, wanted: &BTreeSet<BrokerId>) -> Vec<LaneCommand> {
        let linked = |id: &BrokerId| self.up.values().any(|(peer, _)| peer == id);
        let missing = wanted.iter().filter(|id| !linked(id));
        let missing = missing.filter_map(|id| self.members.get(id)?.neighbour.clone());
        let missing: Vec<Neighbour> = missing.collect();
        for home in missing.iter().filter_map(Neighbour::home) {
            self.dials.insert(home, None);
        }
        missing.into_iter().map(LaneCommand::Dial).collect()
    }

    /// Gives up what is dialled and not wanted, once what is planned stands.
    fn hang_up(
        &mut self,
        now: Time,
        planned: &BTreeSet<BrokerId>,
        wanted: &BTreeSet<BrokerId>,
    ) -> Vec<LaneCommand> {
        let linked: BTreeSet<BrokerId> = self.up.values().map(|(peer, _)| *peer).collect();
        let stands = !planned.is_empty() && planned.is_subset(&linked);
        let peer_at: BTreeMap<SocketAddr, BrokerId> = self
            .up
            .values()
            .map(|(peer, address)| (*address, *peer))
            .collect();
        let home = |id| self.members.get(id)?.neighbour.as_ref()?.home();
        let wanted_at: BTreeSet<SocketAddr> = wanted.iter().filter_map(home).collect();
        let mut over = Vec::new();
        for (address, since) in &mut self.dials {
            let peer = peer_at.get(address);
            let needed = wanted_at.contains(address)
                || peer.is_some_and(|peer| wanted.contains(peer))
                || !stands;
            if needed {
                *since = None;
            } else if now - *since.get_or_insert(now) >= PATIENCE {
                over.push(*address);
            }
        }
        self.dials.retain(|address, _| !over.contains(address));
        over.into_iter().map(LaneCommand::HangUp).collect()
    }

    /// Whoever lost everybody joins anew.
    fn call_seeds(&mut self, now: Time) -> Vec<LaneCommand> {
        if !self.up.is_empty() {
            self.alone_since = None;
            return Vec::new();
        }
        if now - *self.alone_since.get_or_insert(now) < PATIENCE {
            return Vec::new();
        }
        let dials = &mut self.dials;
        let new = self.seeds.iter();
        let new = new.filter(|seed| dials.insert(seed.home, None).is_none());
        new.map(|seed| LaneCommand::Dial(seed.neighbour.clone()))
            .collect()
    }

    /// Those to call of the ones that cannot be reached: who would be a neighbour if all were
    /// there, as one of them at least would be of somebody in each part, and one more.
    fn lost(&self, now: Time, region: &str) -> Vec<Neighbour> {
        let lost = self.members.iter();
        let lost = lost.filter(|(id, known)| !known.there && !self.forbidden.contains(id));
        let lost: Vec<_> = lost
            .filter_map(|(id, known)| Some((id, known.neighbour.as_ref()?)))
            .collect();
        if lost.is_empty() {
            return Vec::new();
        }
        let whole = neighbours(self.own, &self.with_own(region, |_| true));
        let near = lost.iter().filter(|(id, _)| whole.contains(id));
        let mut all: Vec<Neighbour> = near.map(|(_, one)| (*one).clone()).collect();
        let turn = now.as_micros() / (TURN.as_micros() as u64) + u64::from(self.own.0);
        let (_, another) = lost[(turn % lost.len() as u64) as usize];
        if !all.contains(another) {
            all.push(another.clone());
        }
        all
    }

    /// Seeds that are not there, by whatever address they are known.
    fn lost_seeds(&self, own: &[LinkWay]) -> Vec<Neighbour> {
        let known = self.members.values().filter(|known| known.there);
        let ways = known.filter_map(|known| Some(&known.neighbour.as_ref()?.ways));
        let there: BTreeSet<SocketAddr> = ways
            .flatten()
            .chain(own)
            .map(LinkWay::address)
            .chain(self.up.values().map(|(_, address)| *address))
            .collect();
        let is_there = |seed: &&Seed| {
            let peer = seed.peer.and_then(|peer| self.members.get(&peer));
            let mut ways = seed.neighbour.ways.iter();
            peer.is_some_and(|known| known.there) || ways.any(|way| there.contains(&way.address()))
        };
        let is_forbidden =
            |seed: &&Seed| seed.peer.is_some_and(|peer| self.forbidden.contains(&peer));
        let lost = self.seeds.iter();
        let lost = lost.filter(|seed| !is_there(seed) && !is_forbidden(seed));
        lost.map(|seed| seed.neighbour.clone()).collect()
    }
}

impl Known {
    fn of(state: &LinkState, means: &Means, seen: Time) -> Self {
        Self {
            version: state.version,
            region: state.region.clone(),
            organises: state.organises,
            neighbour: means.to(state),
            links: state.links.len(),
            there: false,
            seen,
        }
    }
}

/// What makes links, and the thread that measures for it: for a broker that joins a network, and
/// for one by which others may. Whoever has links configured and joins nobody keeps to those.
///
/// # Errors
/// The kernel gives no thread.
pub(crate) fn organiser(
    config: &BrokerConfig,
    answers: Answers,
) -> io::Result<Option<(Organiser, JoinHandle<()>)>> {
    let fixed = !config.links.is_empty() || !config.neighbours.is_empty();
    if config.join.is_empty() && fixed {
        return Ok(None);
    }
    let (surveyor, thread) = survey(config.seed(), answers)?;
    let organiser = Organiser::new(config.id, &config.join, Means::of(config), surveyor);
    Ok(Some((organiser, thread)))
}
