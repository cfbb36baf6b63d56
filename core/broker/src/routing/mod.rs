//! Routing: the network map, where sessions have their sources, and who joins which tree.
//!
//! Three layers, each of which knows only the one before it:
//!
//! - **The map** ([`map`]): every broker floods what it says of itself and its links. From it all
//!   compute the same shortest-path tree for every source, without exchanging trees; each may stay
//!   for a while with a way that is a little longer ([`ways`]), or heed a scheduler's ([`plans`]).
//! - **The directory** ([`directory`]): two brokers, found by hashing a session's name, know which
//!   brokers publish in it. Those that want it ask them. No session is flooded.
//! - **Joins** ([`joins`]): a broker that wants part of a session joins the tree of each of its
//!   sources, hop by hop towards the source. Wide filters join the trees of all brokers.

use core::fmt;
use std::collections::{BTreeSet, VecDeque};

use sangam_model::limits::FILTERS_PER_BROKER;
use sangam_model::{BrokerId, Class, Filter, Incarnation, Measured, Scope, StreamId, Time, Topic};
use sangam_wire::{Message, Plan};

use crate::{LinkId, LinkSet};
use directory::Directory;
use joins::Joins;
use links::Links;
use map::Map;
use own::Own;

mod directory;
mod joins;
mod links;
mod map;
mod own;
mod pins;
mod plans;
mod receive;
mod ways;

pub use links::LinkRoute;
pub use map::{EXPIRY, ORIGINS_MAX, REFRESH};
pub use own::WIDE_FILTERS_MAX;
pub use pins::{PINS_MAX, PinnedBy};
pub use plans::PLAN_FRESH;

/// Single changes reported before they are reported as [`Change::All`].
const CHANGES_MAX: usize = 64;

/// The network as one broker sees it, and its part in it.
///
/// Call [`Self::handle`] with what happens, then [`Self::poll`] until `None`.
#[derive(Debug)]
pub struct Routing {
    id: BrokerId,
    now: Time,
    own: Own,
    map: Map,
    directory: Directory,
    joins: Joins,
    links: Links,
    changes: VecDeque<Change>,
    refused: Refused,
    /// Another broker has our id: not noticed, to be told, told.
    displaced: Displaced,
    ways_version: u64,
    deadline: Time,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Displaced {
    #[default]
    No,
    Noticed,
    Told,
}

/// What happens to a [`Routing`].
#[derive(Clone, Copy, Debug)]
pub enum RoutingInput<'a> {
    /// A link came up, to this broker.
    LinkUp(LinkId, BrokerId),
    /// It went down.
    LinkDown(LinkId),
    /// Nothing was heard on it for long enough to look for another way.
    LinkSuspect(LinkId),
    /// It was heard again.
    LinkRecovered(LinkId),
    /// What it measured.
    LinkMeasured(LinkId, &'a Measured),
    /// A neighbour sent a message; those that are not about routing are ignored.
    Message(LinkId, &'a Message),
    /// The deadline passed.
    Tick,
}

/// What a [`Routing`] asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoutingOutput {
    /// Tell a neighbour.
    Send {
        /// By this link.
        link: LinkId,
        /// What to tell.
        message: Message,
    },
    /// Streams may have new ways.
    Changed(Change),
    /// Another broker goes by our id, and has the better right to it: end all links, and tell the
    /// operator. Told once.
    Displaced,
}

/// Which streams may have new ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Those on topics that this filter selects.
    Filter(Filter),
    /// Those that enter the network at this broker.
    Origin(BrokerId),
    /// Any.
    All,
}

/// What is known of one life of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is there.
    Known,
    /// It was never heard of, or is forgotten.
    Unknown,
    /// The broker is in a later life.
    Replaced,
}

/// What a broker says of itself besides its links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Where it stands, as its operator calls the place; at most 32 bytes.
    pub region: String,
    /// Where other brokers may dial it; at most 64 bytes.
    pub address: String,
    /// By which ways; none: by datagrams at that address. At most 5 of 100 bytes each.
    pub ways: Vec<String>,
    /// How busy it is, in percent.
    pub load: u8,
    /// It is about to leave.
    pub draining: bool,
    /// It keeps reliable topics.
    pub keeps: bool,
    /// It makes its links by itself, as the map asks for them.
    pub organises: bool,
}

/// Messages of neighbours that were not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Past a bound of the map, the directory or the joins.
    pub full: u64,
    /// Older than what is known; among them replays.
    pub stale: u64,
    /// Contradicting themselves, a record of ours that we never made, or an answer about a session
    /// from a broker that does not keep its directory.
    pub invalid: u64,
    /// Another broker carries our id.
    pub identity: u64,
    /// Routed messages that had no way on, or crossed too many brokers.
    pub lost: u64,
}

/// Bytes a [`Routing`] keeps, by what for; without what the allocator adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Records of brokers.
    pub records: usize,
    /// Trees, and who joined them.
    pub joins: usize,
    /// Own memberships of sessions, and the directory kept for others.
    pub directory: usize,
}

/// Why an own filter was not added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RoutingError {
    /// The broker holds as many filters as it may.
    Full,
    /// It holds as many with a wildcard in their first two levels as it may.
    Wide,
    /// The filter was not held.
    Unknown,
}

impl Routing {
    /// A broker that knows nobody yet.
    #[must_use]
    pub fn new(id: BrokerId, incarnation: Incarnation) -> Self {
        Self {
            id,
            now: Time::ZERO,
            own: Own::default(),
            map: Map::new(id, incarnation),
            directory: Directory::new(id),
            joins: Joins::new(id),
            links: Links::default(),
            changes: VecDeque::new(),
            refused: Refused::default(),
            displaced: Displaced::No,
            ways_version: 0,
            deadline: Time::NEVER,
        }
    }

    /// This broker's clients want `filter`; add it once for each shard that does.
    ///
    /// # Errors
    /// [`RoutingError::Full`], [`RoutingError::Wide`]
    pub fn add(&mut self, now: Time, filter: &Filter) -> Result<(), RoutingError> {
        if let Some(scope) = self.own.add(filter)? {
            self.wants_changed(&scope);
        }
        self.handle(now, RoutingInput::Tick);
        Ok(())
    }

    /// Takes one [`Self::add`] back.
    ///
    /// # Errors
    /// [`RoutingError::Unknown`]
    pub fn remove(&mut self, now: Time, filter: &Filter) -> Result<(), RoutingError> {
        if let Some(scope) = self.own.remove(filter)? {
            self.wants_changed(&scope);
        }
        self.handle(now, RoutingInput::Tick);
        Ok(())
    }

    /// A client of this broker publishes on `topic`.
    pub fn add_source(&mut self, now: Time, topic: &Topic) {
        let scope = Scope::of_topic(topic);
        if self.own.add_source(&scope) {
            self.enroll(&scope);
        }
        self.handle(now, RoutingInput::Tick);
    }

    /// Takes one [`Self::add_source`] back.
    pub fn remove_source(&mut self, now: Time, topic: &Topic) {
        let scope = Scope::of_topic(topic);
        if self.own.remove_source(&scope) {
            self.enroll(&scope);
        }
        self.handle(now, RoutingInput::Tick);
    }

    /// Changes what the broker says of itself.
    pub fn describe(&mut self, now: Time, description: Description) {
        self.map.describe(description);
        self.handle(now, RoutingInput::Tick);
    }

    /// Fixes what crossing the link to a neighbour costs, whenever there is one, or takes that
    /// back: then what was fixed by a lower rank holds, or what is measured. At most [`PINS_MAX`]
    /// neighbours have a fixed weight; whether there was room.
    pub fn pin(&mut self, now: Time, peer: BrokerId, pin: (PinnedBy, Option<u16>)) -> bool {
        let pinned = self.links.pin(peer, pin);
        if pinned == Some(true) {
            self.own_links_changed();
        }
        self.handle(now, RoutingInput::Tick);
        pinned.is_some()
    }

    /// All fixed weights that hold, and who fixed them.
    pub fn pins(&self) -> impl Iterator<Item = (BrokerId, u16, PinnedBy)> + '_ {
        self.links.pins.all()
    }

    /// Neighbours whose weight one has fixed, whether or not it is outranked.
    pub fn pinned_by(&self, by: PinnedBy) -> impl Iterator<Item = BrokerId> + '_ {
        self.links.pins.of(by)
    }

    /// Takes a message of a central scheduler, which publishes by the stream `from`. Ways begin as
    /// it plans wherever that leads nearer to their goal, until it was silent for [`PLAN_FRESH`].
    pub fn plan(&mut self, now: Time, from: StreamId, plan: &Plan) {
        self.now = self.now.max(now);
        if self.map.plan(self.now, from, plan) == plans::Taken::Stale {
            self.refused.stale += 1;
        }
        self.handle(now, RoutingInput::Tick);
    }

    /// Brokers to which the way is as a scheduler plans, and the neighbour by which it begins.
    pub fn planned(&self) -> impl Iterator<Item = (BrokerId, BrokerId)> {
        self.map.planned()
    }

    /// Takes what happened.
    pub fn handle(&mut self, now: Time, input: RoutingInput<'_>) {
        self.now = self.now.max(now);
        match input {
            RoutingInput::LinkUp(link, peer) => self.link_up(link, peer),
            RoutingInput::LinkDown(link) => self.link_down(link),
            RoutingInput::LinkSuspect(link) => self.link_suspect(link),
            RoutingInput::LinkRecovered(link) => self.link_recovered(link),
            RoutingInput::LinkMeasured(link, measured) => {
                if self.links.measure(link, self.now, measured) {
                    self.own_links_changed();
                }
            }
            RoutingInput::Message(link, message) => self.message(link, message),
            RoutingInput::Tick => {}
        }
        self.tick();
    }

    /// What is to be done; until `None`.
    pub fn poll(&mut self) -> Option<RoutingOutput> {
        if self.displaced == Displaced::Noticed {
            self.displaced = Displaced::Told;
            return Some(RoutingOutput::Displaced);
        }
        if let Some(change) = self.changes.pop_front() {
            return Some(RoutingOutput::Changed(change));
        }
        while let Some(link) = self.links.ready() {
            if let Some(message) = self.next_message(link) {
                return Some(RoutingOutput::Send { link, message });
            }
        }
        self.note_deadline();
        None
    }

    /// When to call [`Self::handle`] with a tick.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        (self.deadline != Time::NEVER).then_some(self.deadline)
    }

    /// The links on which a stream of this class on `topic` that enters the network at `origin`
    /// must leave this broker: those by which somebody joined.
    #[must_use]
    pub fn links_for(&self, topic: &Topic, class: Class, origin: BrokerId) -> LinkSet {
        self.joins.links_for(topic, class, origin)
    }

    /// The link by which streams that enter the network at `origin` are expected.
    #[must_use]
    pub fn parent(&self, origin: BrokerId) -> Option<LinkId> {
        self.map.next_hop(origin, &self.links)
    }

    /// Whether there is a way to a broker.
    #[must_use]
    pub fn has_way(&self, id: BrokerId) -> bool {
        self.map.has_way(id)
    }

    /// Rises whenever ways, or the brokers that keep reliable topics, may have changed.
    #[must_use]
    pub const fn ways_version(&self) -> u64 {
        self.ways_version
    }

    /// The brokers there is a way to, by rising id, and by which link it begins.
    pub fn ways(&self) -> impl Iterator<Item = (BrokerId, LinkId)> {
        let begins = |id| Some((id, self.map.next_hop(id, &self.links)?));
        self.map.reachable().filter_map(begins)
    }

    /// What is known of this life of a broker.
    #[must_use]
    pub fn standing(&self, id: BrokerId, incarnation: Incarnation) -> Standing {
        self.map.standing(id, incarnation)
    }

    /// All brokers on the map, this one included, and whether there is a way to them.
    pub fn brokers(&self) -> impl Iterator<Item = (&sangam_wire::LinkState, bool)> {
        let states = self.map.states();
        states.map(|state| (state, self.map.has_way(state.version.origin)))
    }

    /// Links that are up.
    pub fn links(&self) -> impl Iterator<Item = LinkRoute> + '_ {
        self.links.routes()
    }

    /// A number that is the same in all brokers with the same map.
    pub fn epoch(&self) -> u64 {
        self.map.epoch()
    }

    /// What this broker's own clients want, by scope.
    pub fn own_filters(&self) -> impl Iterator<Item = &Filter> {
        self.own.all_filters()
    }

    /// Own filters; trees that neighbours have joined here; sessions kept as their directory.
    #[must_use]
    pub fn sizes(&self) -> (usize, usize, usize) {
        (self.own.len(), self.joins.len(), self.directory.len())
    }

    /// What its tables take.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        Footprint {
            records: self.map.bytes(),
            joins: self.joins.bytes(),
            directory: self.directory.bytes(),
        }
    }

    /// What was not taken from neighbours so far.
    #[must_use]
    pub const fn refused(&self) -> Refused {
        self.refused
    }

    fn note(&mut self, change: Change) {
        if self.changes.contains(&change) || self.changes.front() == Some(&Change::All) {
            return;
        }
        if self.changes.len() >= CHANGES_MAX {
            self.changes.clear();
            self.changes.push_back(Change::All);
        } else {
            self.changes.push_back(change);
        }
    }

    fn note_deadline(&mut self) {
        let deadlines = [
            self.map.deadline(),
            self.directory.deadline(),
            self.joins.deadline(),
            self.links.deadline(),
        ];
        self.deadline = deadlines.into_iter().min().unwrap_or(Time::NEVER);
    }
}

impl fmt::Display for RoutingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => write!(
                f,
                "the broker holds {FILTERS_PER_BROKER} filters; use wildcards or another broker"
            ),
            Self::Wide => write!(
                f,
                "the broker holds {WIDE_FILTERS_MAX} filters with a wildcard in their first two \
                 levels; name tenant and session"
            ),
            Self::Unknown => f.write_str("the filter was never subscribed"),
        }
    }
}

impl core::error::Error for RoutingError {}
