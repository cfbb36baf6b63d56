//! Hears digests and tells them on within a budget.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BTreeMap;

use sangam_model::{BrokerId, Time};

use crate::code::{EVENT_LEN_MAX, encode, header};
use crate::digest::{BEAT_MAX, BROKER, Digest, LINK, LINKS_MAX, Link, Row, WORD_MAX};
use crate::news::{self, News};

/// Brokers that one merger keeps: twice those of a full cell, while maps differ.
pub const MEMBERS_MAX: usize = 64;
/// What an event costs besides its rows: the headers of IP, UDP, the event and its fragment.
pub const EVENT_HEADERS: usize = 28 + 14 + 8;
/// Without a word for this long a broker is forgotten.
pub const FORGET_AFTER: Duration = Duration::from_secs(60);

/// What did not change is not told again sooner.
const REPEAT_AFTER: Duration = Duration::from_secs(5);
/// The whole of a broker is told after so long, however much else there is to tell: with a thousand
/// brokers half of what may be told.
const WHOLE_AFTER: Duration = Duration::from_secs(60);
/// A broker that was silent for this long may have lost count of its reports.
const SILENT: Duration = Duration::from_secs(15);
/// What is not urgent waits until so many bytes may leave, as each event has headers.
const WORTH: i64 = 300;
/// The least that may leave at once after a pause.
const BURST: i64 = 600;
/// Addresses of links go with the first and every so many-th digest.
const WAYS_EVERY: u8 = 4;
/// Bytes of all addresses in one digest; with more they stay away.
const WAYS_LEN_MAX: usize = 4_096;
/// A broker's figures and names at their longest, and a link without its address: 64 links fit.
const BROKER_LEN_MAX: usize = 32 + BROKER * 10 + 3 * (1 + WORD_MAX);
const LINK_LEN_MAX: usize = 16 + LINK * 10;
const _: () =
    assert!(BROKER_LEN_MAX + LINKS_MAX * LINK_LEN_MAX + WAYS_LEN_MAX + 512 < EVENT_LEN_MAX);

/// How often it is told who lives in a network of so many brokers: about a fifth of what may be
/// told of a thousand.
#[must_use]
pub const fn beat_every(brokers: u64) -> Duration {
    let brokers = if brokers < 1_000 { 1_000 } else { brokers };
    Duration::from_millis(brokers.saturating_mul(5))
}

/// What a merger may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of events with their headers ([`EVENT_HEADERS`]).
    pub bytes_per_s: u32,
    /// Brokers of the whole network, which listeners are told.
    pub brokers: u64,
}

/// What the head of a cell knows of it. Pure: time is given.
#[derive(Debug)]
pub struct Merger {
    budget: Budget,
    members: BTreeMap<BrokerId, Member>,
    /// Bytes that may leave; below zero after a row that was longer.
    tokens: i64,
    filled: Option<Time>,
    beat: Option<Time>,
    refused: u64,
}

#[derive(Debug)]
struct Member {
    known: Digest,
    heard: Time,
    told: Option<(Digest, Time)>,
    count: u8,
}

impl Merger {
    /// One that may say so much.
    #[must_use]
    pub const fn new(budget: Budget) -> Self {
        Self {
            budget,
            members: BTreeMap::new(),
            tokens: 0,
            filled: None,
            beat: None,
            refused: 0,
        }
    }

    /// The network is another size.
    pub const fn set_budget(&mut self, budget: Budget) {
        self.budget = budget;
    }

    /// Forgets brokers that are not of this cell any more.
    pub fn keep(&mut self, mine: impl Fn(BrokerId) -> bool) {
        self.members.retain(|broker, _| mine(*broker));
    }

    /// Brokers known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Rows of brokers beyond [`MEMBERS_MAX`].
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// The newest of each broker.
    pub fn digests(&self) -> impl Iterator<Item = &Digest> {
        self.members.values().map(|member| &member.known)
    }

    /// Takes what a broker, or another merger, told.
    pub fn hear(&mut self, now: Time, row: Row) {
        match row {
            Row::Beat(alive) => {
                for (broker, heard) in alive {
                    if let Some(member) = self.members.get_mut(&broker) {
                        member.heard = member.heard.max(heard);
                    }
                }
            }
            Row::Digest(digest) => self.hear_digest(now, digest),
        }
    }

    fn hear_digest(&mut self, now: Time, digest: Digest) {
        let full = self.members.len() >= MEMBERS_MAX;
        match self.members.get_mut(&digest.broker) {
            Some(member) => member.hear(now, digest),
            None if digest.figures.is_none() => {}
            None if full => self.refused += 1,
            None => {
                let member = Member {
                    heard: digest.at,
                    known: digest,
                    told: None,
                    count: 0,
                };
                self.members.insert(member.known.broker, member);
            }
        }
    }

    /// What is to be said now, if anything; to be asked about once a second.
    pub fn next(&mut self, now: Time) -> Option<Vec<u8>> {
        let dead = |member: &Member| now.since(member.heard) >= FORGET_AFTER;
        self.members.retain(|_, member| !dead(member));
        self.fill(now);
        let mut event = header(self.budget.brokers);
        let empty = event.len();
        self.beat(now, &mut event);
        let mut turn: Vec<_> = self
            .members
            .iter()
            .map(|(id, one)| (one.turn(now), *id))
            .collect();
        turn.sort_unstable();
        let worth = self.tokens >= WORTH;
        for ((Reverse(news), since), broker) in turn {
            let again = since.is_none_or(|since| now.since(since) >= REPEAT_AFTER);
            let may = match news {
                News::State => true,
                News::Figures | News::Due => worth,
                News::None => worth && again,
            };
            if !may || self.tokens <= 0 {
                continue;
            }
            let Some(member) = self.members.get_mut(&broker) else {
                continue;
            };
            if event.len() + member.known.len_max() > EVENT_LEN_MAX {
                break;
            }
            let before = event.len();
            encode(&mut event, now, &Row::Digest(member.tell(now, news)));
            self.tokens -= (event.len() - before) as i64;
        }
        if event.len() == empty {
            return None;
        }
        self.tokens -= EVENT_HEADERS as i64;
        Some(event)
    }

    fn fill(&mut self, now: Time) {
        let rate = i64::from(self.budget.bytes_per_s);
        let most = BURST.max(rate * 2);
        let passed = self
            .filled
            .map_or(Duration::from_secs(60), |last| now.since(last));
        self.filled = Some(now);
        let more = rate * passed.as_millis().min(60_000) as i64 / 1_000;
        self.tokens = most.min(self.tokens + more);
    }

    fn beat(&mut self, now: Time, event: &mut Vec<u8>) {
        let every = beat_every(self.budget.brokers);
        let due = self.beat.is_none_or(|last| now.since(last) >= every);
        // A beat is short, and who lives must not wait until a long digest is paid for.
        if !due || self.members.is_empty() {
            return;
        }
        self.beat = Some(now);
        let alive = self.members.iter().map(|(id, one)| (*id, one.heard));
        let before = event.len();
        encode(event, now, &Row::Beat(alive.take(BEAT_MAX).collect()));
        self.tokens -= (event.len() - before) as i64;
    }
}

impl Member {
    fn hear(&mut self, now: Time, mut digest: Digest) {
        let lost_count = now.since(self.heard) >= SILENT && digest.at > self.heard;
        if digest.figures.is_none() {
            let same = digest.incarnation == self.known.incarnation;
            if same && digest.number >= self.known.number {
                self.heard = self.heard.max(digest.at);
                digest.links.into_iter().for_each(|link| self.link(link));
            }
        } else if digest.is_later_than(&self.known) || lost_count {
            self.heard = self.heard.max(digest.at);
            digest.inherit(&self.known);
            self.known = digest;
        }
    }

    /// A link that was told by itself.
    fn link(&mut self, mut link: Link) {
        let known = self
            .known
            .links
            .iter_mut()
            .find(|known| known.is_same(&link));
        if let Some(known) = known.filter(|known| known.at <= link.at) {
            if link.way.iter().all(String::is_empty) {
                link.way = core::mem::take(&mut known.way);
            }
            *known = link;
        }
    }

    /// What comes first is told first: news, then what was told longest ago.
    fn turn(&self, now: Time) -> (Reverse<News>, Option<Time>) {
        let Some((told, since)) = &self.told else {
            return (Reverse(News::State), None);
        };
        let links = self.changed(told).map(|(news, _)| news);
        let news = links.max().max(Some(news::of_broker(told, &self.known)));
        let due = self.is_due(now).then_some(News::Due);
        (Reverse(news.max(due).unwrap_or(News::None)), Some(*since))
    }

    fn is_due(&self, now: Time) -> bool {
        let since = self.told.as_ref().map(|(_, since)| *since);
        since.is_none_or(|since| now.since(since) >= WHOLE_AFTER)
    }

    fn changed<'a>(&'a self, told: &'a Digest) -> impl Iterator<Item = (News, &'a Link)> {
        let of = |link: &'a Link| {
            let told = told.links.iter().find(|told| told.is_same(link))?;
            Some((news::of_link(told, link), link))
        };
        let all = self.known.links.iter().filter_map(of);
        all.filter(|(news, _)| *news != News::None)
    }

    /// Whether only links have news since the whole was told.
    fn links_only(&self, news: News) -> bool {
        let broker = |(told, _): &(Digest, Time)| news::of_broker(told, &self.known);
        let broker = self.told.as_ref().map(broker);
        news != News::None && broker == Some(News::None)
    }

    /// Some links, if only they have news; otherwise everything. It counts as told.
    fn tell(&mut self, now: Time, news: News) -> Digest {
        if !self.is_due(now) && self.links_only(news) {
            return self.tell_links();
        }
        let mut whole = self.known.clone();
        let too_long = whole.ways_len() > WAYS_LEN_MAX;
        if too_long || !self.count.is_multiple_of(WAYS_EVERY) {
            whole.links = self.brief(&whole.links);
        }
        self.count = self.count.wrapping_add(1);
        self.told = Some((self.known.clone(), now));
        whole
    }

    /// Does not put off the turn of the whole.
    fn tell_links(&mut self) -> Digest {
        let told = self.told.as_ref().map(|(told, _)| told);
        let changed = told.into_iter().flat_map(|told| self.changed(told));
        let changed: Vec<Link> = changed.map(|(_, link)| link.clone()).collect();
        let told = self.told.iter_mut().flat_map(|(told, _)| &mut told.links);
        for told in told {
            if let Some(link) = changed.iter().find(|link| link.is_same(told)) {
                told.clone_from(link);
            }
        }
        Digest {
            figures: None,
            names: None,
            links: self.brief(&changed),
            ..self.known
        }
    }

    /// Links without what is known already. Where the ways of all are too long those known by
    /// nothing else stay away.
    fn brief(&self, links: &[Link]) -> Vec<Link> {
        let too_long = self.known.ways_len() > WAYS_LEN_MAX;
        let told = links.iter().filter(|link| !too_long || link.peer.is_some());
        told.map(Link::brief).collect()
    }
}

impl Digest {
    fn ways_len(&self) -> usize {
        let words = self.links.iter().flat_map(|link| &link.way);
        words.map(|word| 1 + word.len()).sum()
    }

    fn len_max(&self) -> usize {
        let ways = self.ways_len().min(WAYS_LEN_MAX);
        BROKER_LEN_MAX + self.links.len() * LINK_LEN_MAX + ways
    }

    /// What is not told anew stays as it was told.
    fn inherit(&mut self, before: &Self) {
        if self.names.is_none() {
            self.names.clone_from(&before.names);
        }
        for link in &mut self.links {
            let known = before.links.iter().find(|known| known.is_same(link));
            if let Some(known) = known.filter(|_| link.way.iter().all(String::is_empty)) {
                link.way.clone_from(&known.way);
            }
        }
    }
}

impl Link {
    /// Without what is known already; a link without a peer is known by its way.
    fn brief(&self) -> Self {
        let mut brief = self.clone();
        if brief.peer.is_some() {
            brief.way = Default::default();
        }
        brief
    }
}
