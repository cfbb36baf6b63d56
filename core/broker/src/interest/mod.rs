//! Interest: which neighbours to send a topic to.
//!
//! Every broker tells the whole network what its clients want: all its filters, as one numbered
//! version, flooded from neighbour to neighbour. A broker takes a version from whoever brings it
//! first, passes it on to all but its next hop towards the origin, and later prefers whoever is
//! nearer. So the next hops towards one origin form a shortest-path tree, in any graph, and a
//! stream that follows them reaches every broker that wants it.

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sangam_model::limits::{FILTERS_PER_BROKER, HOP_LIMIT};
use sangam_model::{BrokerId, Filter, Incarnation, Time, Topic};
use sangam_wire::Message;

use crate::outbox::{Outbox, Pace};
use crate::{FilterIndex, LinkId, LinkSet};
use origin::{Origin, is_later_life, is_newer};
use own::Own;
use parts::{Assembly, Part, Parts};
use tell::Sending;

mod origin;
mod own;
mod parts;
mod receive;
mod tell;

pub use own::REFRESH;

/// Other brokers known at once.
pub const ORIGINS_MAX: usize = 4_096;
/// Filters of all other brokers together.
pub const REMOTE_FILTERS_MAX: usize = 16 * FILTERS_PER_BROKER;
/// A broker that was not heard of for so long is forgotten: three refreshes and some slack.
pub const EXPIRY: Duration = Duration::from_secs(35);
/// Copies of one version come within so long by all ways.
const SETTLE: Duration = Duration::from_secs(1);
/// How often old things are looked for.
const SWEEP: Duration = Duration::from_secs(1);
/// Single changes reported before they are reported as [`Change::All`].
const CHANGES_MAX: usize = 64;
/// A quarter of a control channel's queue at once, then what 32 frames in a round trip of 100 ms
/// carry with room left for announcements.
const PACE: Pace = Pace {
    burst: 256,
    every: Duration::from_millis(5),
};

/// The interest of the whole network, seen from one broker.
///
/// Call [`Self::handle`] with what happens, then [`Self::poll`] until `None`.
#[derive(Debug)]
pub struct InterestTable {
    id: BrokerId,
    incarnation: Incarnation,
    now: Time,
    own: Own,
    origins: BTreeMap<BrokerId, Origin>,
    index: FilterIndex<BrokerId>,
    links: BTreeMap<LinkId, Link>,
    changes: VecDeque<Change>,
    refused: Refused,
    sweep: Time,
    deadline: Time,
    found: Vec<BrokerId>,
}

/// What happens to an [`InterestTable`].
#[derive(Clone, Copy, Debug)]
pub enum InterestInput<'a> {
    /// A link to a neighbour came up.
    LinkUp(LinkId),
    /// It went down.
    LinkDown(LinkId),
    /// A neighbour sent a message; others than interest are ignored.
    Message(LinkId, &'a Message),
    /// The deadline passed.
    Tick,
}

/// What an [`InterestTable`] asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterestOutput {
    /// Tell a neighbour.
    Send {
        /// By this link.
        link: LinkId,
        /// What to tell.
        message: Message,
    },
    /// Streams may have new ways.
    Changed(Change),
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

/// Messages of neighbours that were not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Past [`ORIGINS_MAX`] or the filters that may be kept.
    pub full: u64,
    /// From an earlier life or version of their origin.
    pub stale: u64,
    /// Contradicting themselves.
    pub invalid: u64,
}

/// Why an own filter was not added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InterestError {
    /// The broker holds as many filters as it may.
    Full,
    /// The filter was not held.
    Unknown,
}

#[derive(Debug)]
struct Link {
    outbox: Outbox<BrokerId>,
    /// What it is being told.
    sending: Option<Sending>,
    /// What it is telling.
    assembly: Option<Assembly>,
}

impl InterestTable {
    /// The table of a broker that knows nobody yet.
    #[must_use]
    pub fn new(id: BrokerId, incarnation: Incarnation) -> Self {
        Self {
            id,
            incarnation,
            now: Time::ZERO,
            own: Own::new(),
            origins: BTreeMap::new(),
            index: FilterIndex::new(REMOTE_FILTERS_MAX),
            links: BTreeMap::new(),
            changes: VecDeque::new(),
            refused: Refused::default(),
            sweep: Time::NEVER,
            deadline: Time::NEVER,
            found: Vec::new(),
        }
    }

    /// This broker's clients want `filter`; add it once for each shard that does.
    ///
    /// # Errors
    /// [`InterestError::Full`]
    pub fn add(&mut self, now: Time, filter: &Filter) -> Result<(), InterestError> {
        self.own.add(filter)?;
        self.handle(now, InterestInput::Tick);
        Ok(())
    }

    /// Takes one [`Self::add`] back.
    ///
    /// # Errors
    /// [`InterestError::Unknown`]
    pub fn remove(&mut self, now: Time, filter: &Filter) -> Result<(), InterestError> {
        self.own.remove(filter)?;
        self.handle(now, InterestInput::Tick);
        Ok(())
    }

    /// Takes what happened.
    pub fn handle(&mut self, now: Time, input: InterestInput<'_>) {
        self.now = self.now.max(now);
        match input {
            InterestInput::LinkUp(link) => self.link_up(link),
            InterestInput::LinkDown(link) => self.link_down(link),
            InterestInput::Message(link, message) => self.message(link, message),
            InterestInput::Tick => {}
        }
        if self.now >= self.sweep {
            self.sweep();
        }
        if self.own.advance(self.now) {
            self.tell_all(self.id);
        }
        for link in self.links.values_mut() {
            link.outbox.refill(self.now);
        }
        self.note_deadline();
    }

    /// What is to be done; until `None`.
    pub fn poll(&mut self) -> Option<InterestOutput> {
        if let Some(change) = self.changes.pop_front() {
            return Some(InterestOutput::Changed(change));
        }
        while let Some(link) = self.ready() {
            if let Some(message) = self.next_message(link) {
                return Some(InterestOutput::Send { link, message });
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

    /// The links on which a stream on `topic` that enters the network at `origin` must leave this
    /// broker: the next hops towards all who want it, except `origin` itself and neighbours that
    /// are no farther from `origin` than we are, as those have it from others.
    pub fn links_for(&mut self, topic: &Topic, origin: BrokerId) -> LinkSet {
        self.index.matches(topic, &mut self.found);
        let wanted = self.found.iter().filter(|id| **id != origin);
        let links: LinkSet = wanted
            .filter_map(|id| self.origins.get(id).and_then(|known| known.next))
            .collect();
        let nearer = self
            .origins
            .get(&origin)
            .map(Origin::nearer)
            .unwrap_or_default();
        links.without(nearer)
    }

    /// Whether there is a way to a broker.
    #[must_use]
    pub fn has_way(&self, id: BrokerId) -> bool {
        id == self.id
            || self
                .origins
                .get(&id)
                .is_some_and(|known| known.next.is_some())
    }

    /// What is known of this life of a broker.
    #[must_use]
    pub fn standing(&self, id: BrokerId, incarnation: Incarnation) -> Standing {
        match self.origins.get(&id) {
            _ if id == self.id && incarnation == self.incarnation => Standing::Known,
            Some(known) if known.incarnation == incarnation => Standing::Known,
            Some(known) if is_later_life(known.incarnation, incarnation) => Standing::Replaced,
            _ => Standing::Unknown,
        }
    }

    /// Other brokers with a way to them: id, next hop and distance.
    pub fn brokers(&self) -> impl Iterator<Item = (BrokerId, LinkId, u8)> {
        self.origins
            .iter()
            .filter_map(|(id, known)| Some((*id, known.next?, known.hops)))
    }

    /// What this broker's own clients want, in order.
    pub fn own_filters(&self) -> impl Iterator<Item = &Filter> {
        self.own.filters()
    }

    /// Numbers of own and remote filters.
    #[must_use]
    pub fn filters(&self) -> (usize, usize) {
        (self.own.len(), self.index.len())
    }

    /// What was not taken from neighbours so far.
    #[must_use]
    pub const fn refused(&self) -> Refused {
        self.refused
    }
}

impl fmt::Display for InterestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the broker holds 65536 filters; use wildcards or another broker",
            Self::Unknown => "the filter was never subscribed",
        })
    }
}

impl core::error::Error for InterestError {}
