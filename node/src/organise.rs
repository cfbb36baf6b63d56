//! Links that a broker makes by itself once it has joined a network.
//!
//! The map says who is there, [`sangam_route::neighbours`] which of them ought to be linked. Both
//! may dial; one call stands. A link that is wanted no more stays for a while, so that the new ones
//! stand before the old ones go.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use sangam_broker::{Description, LinkId, Routing};
use sangam_model::{BrokerId, Time};
use sangam_route::{Member, neighbours};

use crate::command::LaneCommand;
use crate::config::{BrokerConfig, Neighbour};

/// How long a link stays that is wanted no more, and how long a broker that lost all its links
/// waits before it calls those again that it joined by.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often the plan is looked at if nothing happens.
const EVERY: Duration = Duration::from_secs(1);

/// What a broker that organises its links remembers.
#[derive(Debug)]
pub(crate) struct Organiser {
    own: BrokerId,
    /// Brokers known from the configuration; the first way into the network.
    seeds: Vec<Neighbour>,
    /// Links that are up, with the neighbour's address.
    up: BTreeMap<LinkId, (BrokerId, SocketAddr)>,
    /// Addresses this broker dials, and since when it need not.
    dials: BTreeMap<SocketAddr, Option<Time>>,
    alone_since: Option<Time>,
    /// Brokers with which no link is to be made.
    forbidden: BTreeSet<BrokerId>,
    next: Time,
}

impl Organiser {
    /// The lane dials the seeds from the start.
    pub(crate) fn new(own: BrokerId, seeds: Vec<Neighbour>) -> Self {
        Self {
            own,
            dials: homes(&seeds).map(|home| (home, None)).collect(),
            seeds,
            up: BTreeMap::new(),
            alone_since: None,
            forbidden: BTreeSet::new(),
            next: Time::ZERO,
        }
    }

    pub(crate) fn link_up(&mut self, link: LinkId, peer: BrokerId, address: SocketAddr) {
        self.up.insert(link, (peer, address));
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
        let states = routing.brokers().filter(|(_, has_way)| *has_way);
        let there: Vec<_> = states.map(|(state, _)| state).collect();
        let members: Vec<Member<'_>> = there
            .iter()
            .filter(|state| !self.forbidden.contains(&state.version.origin))
            .map(|state| Member {
                id: state.version.origin,
                region: &state.region,
            })
            .collect();
        let wanted = neighbours(self.own, &members);
        let addresses = there.iter().filter_map(|state| {
            let address = state.address.parse::<SocketAddr>().ok()?;
            Some((state.version.origin, address))
        });
        let addresses: BTreeMap<BrokerId, SocketAddr> = addresses.collect();
        let mut commands = self.dial(&wanted, &addresses);
        commands.extend(self.hang_up(now, &wanted, &addresses));
        commands.extend(self.call_seeds(now));
        commands
    }

    fn dial(
        &mut self,
        wanted: &BTreeSet<BrokerId>,
        addresses: &BTreeMap<BrokerId, SocketAddr>,
    ) -> Vec<LaneCommand> {
        let linked = |id: &BrokerId| self.up.values().any(|(peer, _)| peer == id);
        let missing = wanted.iter().filter(|id| !linked(id));
        let missing: Vec<SocketAddr> = missing
            .filter_map(|id| addresses.get(id))
            .copied()
            .collect();
        let new = missing
            .into_iter()
            .filter(|address| self.dials.insert(*address, None).is_none());
        new.map(|address| LaneCommand::Dial(address.into()))
            .collect()
    }

    /// Gives up what is dialled and not wanted, once what is wanted stands.
    fn hang_up(
        &mut self,
        now: Time,
        wanted: &BTreeSet<BrokerId>,
        addresses: &BTreeMap<BrokerId, SocketAddr>,
    ) -> Vec<LaneCommand> {
        let linked: BTreeSet<BrokerId> = self.up.values().map(|(peer, _)| *peer).collect();
        let stands = !wanted.is_empty() && wanted.is_subset(&linked);
        let peer_at: BTreeMap<SocketAddr, BrokerId> = self
            .up
            .values()
            .map(|(peer, address)| (*address, *peer))
            .collect();
        let wanted_at: BTreeSet<SocketAddr> = wanted
            .iter()
            .filter_map(|id| addresses.get(id))
            .copied()
            .collect();
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
        let mut new = self.seeds.clone();
        new.retain(|seed| {
            let home = seed.home();
            home.is_some_and(|home| self.dials.insert(home, None).is_none())
        });
        new.into_iter().map(LaneCommand::Dial).collect()
    }
}

fn homes(seeds: &[Neighbour]) -> impl Iterator<Item = SocketAddr> {
    seeds.iter().filter_map(Neighbour::home)
}

/// What the broker says of itself on the map.
pub(crate) fn description(config: &BrokerConfig, udp: &[SocketAddr]) -> Description {
    Description {
        region: config.region.clone(),
        address: public_address(config, udp)
            .map(|address| address.to_string())
            .unwrap_or_default(),
        keeps: config.reliable.keep,
        ..Description::default()
    }
}

/// Where other brokers may dial this one: as configured, or where it listens if that is one place.
fn public_address(config: &BrokerConfig, udp: &[SocketAddr]) -> Option<SocketAddr> {
    let listened = udp.iter().find(|address| !address.ip().is_unspecified());
    config.public_address.or(listened.copied())
}

/// What makes links, if the broker is to join a network.
pub(crate) fn organiser(config: &BrokerConfig) -> Option<Organiser> {
    let seeds = config.join.clone();
    (!seeds.is_empty()).then(|| Organiser::new(config.id, seeds))
}
