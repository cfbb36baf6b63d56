//! A topic as one broker keeps it: the log, how far its publishers are, who is fed and by whom.

mod duty;
mod guard;
mod intake;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sangam_model::{BrokerId, PublisherId, Time, Topic};
use sangam_wire::{Piece, Refusal, Reliable};

use crate::counters::Counters;
use crate::feed::Feed;
use crate::limits::{ATTACH, CLIENT_STALL, LAG, Limits};
use crate::log::Log;
use crate::peer::Peer;
use crate::upstream::Upstream;
use crate::ways::Ways;
use guard::Guards;

/// What is to be said.
pub(crate) type Outbox = VecDeque<(Peer, Reliable)>;

#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) topic: Topic,
    id: BrokerId,
    pub(crate) log: Log,
    pub(crate) runs: BTreeMap<PublisherId, Run>,
    pub(crate) feeds: BTreeMap<Peer, Feed>,
    pub(crate) upstreams: BTreeMap<BrokerId, Upstream>,
    /// The topic's homes by our map.
    pub(crate) homes: Vec<BrokerId>,
    pub(crate) home: bool,
    /// Homes that have to take over what we hold, as we are none any more, and when to tell them
    /// next.
    owed: BTreeMap<BrokerId, (Time, u32)>,
    /// Since when: who was not heard after it may not know.
    owed_since: Time,
    /// What was here when we ceased to be one: the log before this index.
    owed_end: u64,
    /// Brokers that are no homes any more and want to hand over.
    offering: BTreeSet<BrokerId>,
    /// What is kept for receivers that may come back, or come from another home.
    guards: Guards,
    /// All entries before this one are held by all homes.
    stable: u64,
    /// All entries before this one survive a crash; `None` if nothing is written.
    pub(crate) durable: Option<u64>,
    /// Publishers to be told how far they are held; whether they have to send again.
    tell: BTreeMap<PublisherId, bool>,
    /// Publishers whose records were put off.
    put_off: BTreeSet<PublisherId>,
    /// What came from others was complete once.
    ready: bool,
    since: Time,
    full_since: Time,
    /// When it last was not full, or let something go.
    moved: Time,
    /// The high half of the numbers of our own feeds, and the next low half.
    number: u32,
    next_feed: u32,
    deadline: Time,
    /// What was asked to be written: the log up to an index, and what is gone before one.
    asked: (u64, u64),
    /// Publishers with records that were let go since.
    trimmed: BTreeSet<PublisherId>,
    /// What was written is no business of ours any more.
    forget: bool,
}

/// How far the records of a publisher are.
#[derive(Debug)]
pub(crate) struct Run {
    /// The last that is here.
    pub(crate) last: u64,
    /// The last that is held by all homes.
    stable: u64,
    /// Of them in the log.
    kept: u32,
    heard: Time,
    /// Who pushes it.
    pusher: Option<Peer>,
    /// Since when records before this one are missed.
    missed: Option<(Time, u64)>,
}

/// A push, but for its topic.
pub(crate) struct Pushed<'a> {
    pub(crate) publisher: PublisherId,
    pub(crate) base: u64,
    pub(crate) first: u64,
    pub(crate) pieces: &'a [Piece],
}

/// What a replica may use while it works.
pub(crate) struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) limits: &'a Limits,
    /// All topics together take too much.
    pub(crate) full: bool,
    pub(crate) out: &'a mut Outbox,
    pub(crate) counters: &'a mut Counters,
}

impl Replica {
    /// A topic under a number, its log beginning at an index.
    pub(crate) fn new(topic: Topic, id: BrokerId, (number, first): (u32, u64), now: Time) -> Self {
        Self {
            topic,
            id,
            stable: first,
            log: Log::starting_at(first),
            runs: BTreeMap::new(),
            feeds: BTreeMap::new(),
            upstreams: BTreeMap::new(),
            homes: Vec::new(),
            home: false,
            owed: BTreeMap::new(),
            owed_since: now,
            owed_end: first,
            offering: BTreeSet::new(),
            guards: Guards::default(),
            durable: None,
            tell: BTreeMap::new(),
            put_off: BTreeSet::new(),
            ready: false,
            since: now,
            full_since: Time::NEVER,
            moved: now,
            number,
            // Different in each life, as the number is.
            next_feed: number.rotate_left(16),
            deadline: Time::NEVER,
            asked: (first, first),
            trimmed: BTreeSet::new(),
            forget: false,
        }
    }

    /// Takes a part as the map says.
    pub(crate) fn settle(&mut self, homes: Vec<BrokerId>, cx: &mut Context<'_>) {
        let was = self.home;
        self.home = homes.contains(&self.id);
        if self.home {
            self.owed.clear();
        } else if was || !self.owed.is_empty() {
            if was {
                self.owed_end = self.log.end();
                self.owed_since = cx.now;
            }
            let due = (cx.now, 0);
            self.owed = homes.iter().map(|home| (*home, due)).collect();
        }
        if self.home && !was {
            self.since = cx.now;
            self.ready = self.ready && self.upstreams.values().any(|up| up.synced);
        }
        if self.homes != homes {
            self.guard(cx);
        }
        self.homes = homes;
        self.follow(cx);
    }

    /// A home has gone, come, or started anew, and those that it fed will come here: keeps what
    /// they may lack.
    fn guard(&mut self, cx: &Context<'_>) {
        if self.home {
            let index = self.log.first_that(|entry| cx.now - entry.at <= LAG);
            self.guards.add(cx.now, index);
        }
    }

    /// Makes haste with brokers to which the way is another, or that have started anew, and lets
    /// go of those that cannot be reached and wanted to hand over: they offer again.
    pub(crate) fn disturbed(&mut self, ways: &Ways, cx: &mut Context<'_>) {
        let gone = |broker: &BrokerId| !ways.reachable.contains_key(broker);
        let gone: Vec<_> = self.offering.iter().copied().filter(gone).collect();
        for broker in gone {
            self.left_by(broker, cx);
        }
        if ways.changed.iter().any(|one| self.homes.contains(one)) {
            self.guard(cx);
        }
        for broker in &ways.changed {
            if let Some(up) = self.upstreams.get_mut(broker) {
                up.hasten(cx.now);
            }
            if let Some(feed) = self.feeds.get_mut(&Peer::Broker(*broker)) {
                feed.hasten(cx.now);
            }
            if let Some(owed) = self.owed.get_mut(broker) {
                *owed = (cx.now, 0);
            }
        }
    }

    /// Attaches to those that should feed us, and leaves the others.
    fn follow(&mut self, cx: &mut Context<'_>) {
        let wanted = self.sources();
        let upstreams = core::mem::take(&mut self.upstreams);
        for (broker, up) in upstreams {
            if wanted.contains(&broker) {
                self.upstreams.insert(broker, up);
            } else {
                let reason = Refusal::Goodbye;
                let id = up.feed;
                let end = Reliable::End { id, reason };
                cx.out.push_back((Peer::Broker(broker), end));
            }
        }
        for broker in wanted {
            if !self.upstreams.contains_key(&broker) {
                let feed = self.next_feed();
                self.upstreams.insert(broker, Upstream::new(feed, cx.now));
            }
        }
    }

    fn next_feed(&mut self) -> u64 {
        self.next_feed = self.next_feed.wrapping_add(1);
        u64::from(self.number) << 32 | u64::from(self.next_feed)
    }

    fn sources(&self) -> BTreeSet<BrokerId> {
        let others = || self.homes.iter().copied().filter(|home| *home != self.id);
        if self.home {
            return others().chain(self.offering.iter().copied()).collect();
        }
        if !self.serves_clients() {
            return BTreeSet::new();
        }
        let present = others().find(|home| self.upstreams.contains_key(home));
        // Pushes go to the first: the last has more time for this.
        present
            .or_else(|| others().next_back())
            .into_iter()
            .collect()
    }

    fn serves_clients(&self) -> bool {
        let mut peers = self.feeds.keys();
        peers.any(|peer| matches!(peer, Peer::Client(_)))
    }

    /// Whether homes have to take over what is here.
    pub(crate) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Whether somebody is fed under this number.
    pub(crate) fn feeds_under(&self, peer: Peer, feed: u64) -> bool {
        self.feeds.get(&peer).is_some_and(|known| known.id == feed)
    }

    /// Whether a broker feeds us under this number.
    pub(crate) fn is_fed_by(&self, broker: BrokerId, feed: u64) -> bool {
        let up = self.upstreams.get(&broker);
        up.is_some_and(|up| up.feed == feed)
    }

    /// Somebody attaches.
    pub(crate) fn attach(&mut self, peer: Peer, feed: Feed, cx: &mut Context<'_>) {
        if let Some(known) = self.feeds.get_mut(&peer)
            && known.is_repeated(feed.id)
        {
            known.heard = cx.now;
            return;
        }
        self.feeds.insert(peer, feed);
        if let Peer::Broker(broker) = peer
            && let Some(up) = self.upstreams.get_mut(&broker)
        {
            // If that is as it has just started, it does not know that it feeds us.
            up.hasten(cx.now);
        }
        self.follow(cx);
    }

    /// Somebody leaves.
    pub(crate) fn detach(&mut self, peer: Peer, feed: u64, cx: &mut Context<'_>) {
        if self.feeds_under(peer, feed) {
            let left = self.feeds.remove(&peer);
            if let Peer::Broker(broker) = peer {
                // One that was cut off, and fed itself meanwhile, comes back behind what it has.
                if let Some(mark) = left.as_ref().and_then(Feed::watermark) {
                    self.guards.add(cx.now, mark);
                }
                if let Some(owed) = self.owed.get_mut(&broker) {
                    *owed = (cx.now, 0);
                }
            }
            self.follow(cx);
        }
    }

    /// A broker that is no home any more wants to hand over.
    pub(crate) fn offered(&mut self, from: BrokerId, cx: &mut Context<'_>) {
        if self.home && from != self.id {
            self.offering.insert(from);
            self.follow(cx);
            if let Some(up) = self.upstreams.get_mut(&from) {
                // It waits for a word.
                up.hasten(cx.now);
            }
        }
    }

    /// A broker feeds us no more.
    pub(crate) fn left_by(&mut self, broker: BrokerId, cx: &mut Context<'_>) {
        self.offering.remove(&broker);
        self.upstreams.remove(&broker);
        self.follow(cx);
        // Wanted all the same: the maps differ for a moment.
        if let Some(up) = self.upstreams.get_mut(&broker) {
            *up = Upstream::new(up.feed, cx.now + ATTACH);
        }
    }

    /// Whether nothing is lost by forgetting the topic.
    pub(crate) fn is_idle(&self) -> bool {
        let kept = self.home && !self.runs.is_empty();
        !kept && self.owed.is_empty() && self.feeds.is_empty() && self.offering.is_empty()
    }

    /// When to work next: as it was, and as it is now.
    pub(crate) fn note_deadline(&mut self, now: Time) -> (Time, Time) {
        let feeds = self.feeds.values().map(Feed::deadline);
        let ups = self.upstreams.values().map(Upstream::deadline);
        let owed = self.owed.values().map(|(due, _)| *due);
        let full = match self.full_since {
            Time::NEVER => Time::NEVER,
            since => (since + CLIENT_STALL).max(now + CLIENT_STALL / 4),
        };
        let due = feeds.chain(ups).chain(owed).min().unwrap_or(Time::NEVER);
        let before = core::mem::replace(&mut self.deadline, due.min(full));
        (before, self.deadline)
    }
}
