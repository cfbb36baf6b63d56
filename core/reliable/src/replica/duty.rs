//! What a topic does for others once something has come: feeding, telling, letting go.

use sangam_model::{BrokerId, Time};
use sangam_wire::{Refusal, Reliable};

use super::guard::Guards;
use super::{Context, Replica, Run};
use crate::feed::Feed;
use crate::limits::{
    ATTACH, CLIENT_STALL, FORGET, HOLD, RESEND_MAX, SYNC_PATIENCE, YOUNG, backoff,
};
use crate::peer::Peer;
use crate::upstream::{self, Upstream};

impl Replica {
    /// Everything that follows from what happened.
    pub(crate) fn work(&mut self, cx: &mut Context<'_>) {
        self.expire(cx);
        self.start_feeds(cx);
        self.serve(cx);
        self.note_stable();
        self.trim(cx);
        self.resume(cx);
        self.ask(cx);
        self.tell_publishers(cx);
        self.hand_over(cx);
    }

    /// Gives up receivers that are gone, and feeds that fell silent.
    fn expire(&mut self, cx: &mut Context<'_>) {
        let lost = |peer: &Peer, feed: &Feed| {
            matches!(peer, Peer::Broker(_)) && cx.now - feed.heard >= HOLD
        };
        self.feeds.retain(|peer, feed| !lost(peer, feed));
        for feed in self.feeds.values_mut() {
            cx.counters.resent += u64::from(feed.expire(cx.now));
        }
        let gone = |broker: &BrokerId| {
            let up = self.upstreams.get(broker);
            up.is_none_or(|up| up.is_silent(cx.now))
        };
        let gone: Vec<_> = self.offering.iter().copied().filter(gone).collect();
        for broker in gone {
            // It offers again when it comes back.
            self.left_by(broker, cx);
        }
        let deaf = self.upstreams.iter().filter(|(_, up)| up.is_deaf(cx.now));
        for broker in deaf.map(|(broker, _)| *broker).collect::<Vec<_>>() {
            let feed = self.next_feed();
            self.upstreams.insert(broker, Upstream::new(feed, cx.now));
        }
        let forgotten = |run: &Run| run.kept == 0 && run.last > 0 && cx.now - run.heard >= FORGET;
        self.runs.retain(|_, run| !forgotten(run));
    }

    /// What is before this index would survive us.
    fn safe(&self) -> u64 {
        let durable = self.durable.filter(|_| self.home);
        durable.unwrap_or(u64::MAX)
    }

    fn start_feeds(&mut self, cx: &mut Context<'_>) {
        let alone = self.home && self.upstreams.is_empty();
        let patient = self.home && cx.now - self.since < SYNC_PATIENCE;
        let ready = self.ready || alone || self.home && !patient;
        self.ready |= alone;
        for (peer, feed) in &mut self.feeds {
            let broker = matches!(peer, Peer::Broker(_));
            if !feed.is_started() && (ready || broker) {
                let lasts = self.runs.iter().map(|(id, run)| (*id, run.last));
                feed.start(&self.log, lasts);
            }
        }
    }

    fn serve(&mut self, cx: &mut Context<'_>) {
        for (peer, feed) in &mut self.feeds {
            while let Some(message) = feed.poll(cx.now, &self.log, *peer) {
                if let Reliable::Records { records, .. } = &message {
                    cx.counters.sent += records.len() as u64;
                }
                cx.out.push_back((*peer, message));
            }
        }
    }

    /// Finds out up to where all homes hold the log.
    fn note_stable(&mut self) {
        if !self.home {
            return;
        }
        let mut held = self.safe().min(self.log.end());
        for home in self.homes.iter().filter(|home| **home != self.id) {
            let feed = self.feeds.get(&Peer::Broker(*home));
            let taken = feed.and_then(Feed::watermark);
            held = held.min(taken.unwrap_or(0));
        }
        if held <= self.stable {
            return;
        }
        for (_, entry) in self
            .log
            .from(self.stable)
            .take_while(|(index, _)| *index < held)
        {
            let publisher = entry.record.publisher;
            if let Some(run) = self.runs.get_mut(&publisher) {
                run.stable = run.stable.max(entry.record.sequence);
                self.tell.entry(publisher).or_insert(false);
            }
        }
        self.stable = held;
    }

    /// Lets go what is old or too much, but for what somebody has yet to get.
    fn trim(&mut self, cx: &mut Context<'_>) {
        let limits = cx.limits;
        self.guards.expire(cx.now, limits.gap_after);
        loop {
            let held = self.held();
            let mut trimmed = false;
            while let Some(entry) = self.log.front()
                && self.log.first() < held
                && (self.log.len() > limits.keep_events && cx.now - entry.at >= YOUNG
                    || self.log.bytes() > limits.topic_bytes / 2
                    || cx.now - entry.at >= limits.keep_for)
            {
                let publisher = entry.record.publisher;
                if let Some(run) = self.runs.get_mut(&publisher) {
                    run.kept -= 1;
                }
                if self.durable.is_some() {
                    self.trimmed.insert(publisher);
                }
                self.log.pop_front();
                cx.counters.expired += 1;
                trimmed = true;
            }
            if !self.is_full(limits, 1) {
                self.full_since = Time::NEVER;
                self.moved = cx.now;
                return;
            }
            self.full_since = self.full_since.min(cx.now);
            if trimmed {
                self.moved = cx.now;
            }
            if trimmed || !self.cut_off(cx) {
                return;
            }
        }
    }

    /// The first entry that somebody has yet to get.
    fn held(&self) -> u64 {
        if !self.owed.is_empty() {
            return self.log.first();
        }
        let others = self.homes.iter().any(|home| *home != self.id);
        let stable = if self.home && (others || self.durable.is_some()) {
            self.stable
        } else {
            u64::MAX
        };
        let taken = self.feeds.values().filter_map(Feed::watermark);
        let guarded = self.guards.first().filter(|_| self.home);
        taken.chain(guarded).min().unwrap_or(u64::MAX).min(stable)
    }

    /// In a full topic, ends the feed of a client that is far behind. If nothing has moved for
    /// long, which takes homes that are full of what the others lack, the feed of a broker, and in
    /// the end gives up what nobody takes: all others would wait for it forever.
    fn cut_off(&mut self, cx: &mut Context<'_>) -> bool {
        if cx.now - self.full_since < CLIENT_STALL {
            return false;
        }
        let stuck = cx.now - self.moved >= HOLD;
        let middle = self.log.first() + self.log.len() as u64 / 2;
        let late = self.feeds.iter().find_map(|(peer, feed)| {
            let may = stuck || matches!(peer, Peer::Client(_));
            (may && feed.watermark()? < middle).then_some((*peer, feed.id))
        });
        if let Some((peer, id)) = late {
            cx.counters.cut_off += 1;
            self.feeds.remove(&peer);
            let reason = Refusal::Overflow;
            cx.out.push_back((peer, Reliable::End { id, reason }));
            return true;
        }
        let gives_up = stuck && self.held() < middle;
        if gives_up {
            cx.counters.gaps += 1;
            self.owed.clear();
            self.guards = Guards::default();
            self.stable = self.stable.max(middle);
        }
        gives_up
    }

    /// There is room again: asks for what was put off.
    fn resume(&mut self, cx: &Context<'_>) {
        if !cx.full && !self.put_off.is_empty() && !self.is_full(cx.limits, 1) {
            let again = core::mem::take(&mut self.put_off);
            self.tell.extend(again.into_iter().map(|id| (id, true)));
        }
        let room = !self.is_full(cx.limits, if self.home { 2 } else { 1 });
        for up in self.upstreams.values_mut() {
            up.owes |= room && core::mem::take(&mut up.left);
        }
    }

    fn ask(&mut self, cx: &mut Context<'_>) {
        let durable = self.safe();
        for (broker, up) in &mut self.upstreams {
            let lasts = self.runs.iter().map(|(id, run)| (*id, run.last));
            let said = up.poll(cx.now, durable, |feed| {
                upstream::attach(feed, &self.topic, u32::MAX, lasts)
            });
            let to = Peer::Broker(*broker);
            cx.out.extend(said.into_iter().map(|message| (to, message)));
        }
    }

    fn tell_publishers(&mut self, cx: &mut Context<'_>) {
        for (publisher, again) in core::mem::take(&mut self.tell) {
            let Some(run) = self.runs.get(&publisher).filter(|_| self.home) else {
                continue;
            };
            if let Some(pusher) = run.pusher {
                let held = Reliable::Held {
                    publisher,
                    through: run.stable,
                    next: run.last + 1,
                    again,
                };
                cx.out.push_back((pusher, held));
            }
        }
    }

    /// Offers what we hold to the homes, and lets go once all of them have it.
    fn hand_over(&mut self, cx: &mut Context<'_>) {
        if self.owed.is_empty() {
            return;
        }
        let (feeds, end, since) = (&self.feeds, self.owed_end, self.owed_since);
        let attended = |home: &BrokerId| {
            let feed = feeds.get(&Peer::Broker(*home))?;
            feed.is_attended(cx.now, since).then_some(feed)
        };
        let has = |home: &BrokerId| attended(home).is_some_and(|feed| feed.has_passed(end));
        if self.runs.is_empty() || self.owed.keys().all(has) {
            self.owed.clear();
            self.forget = self.durable.is_some();
            let reason = Refusal::Leaving;
            for (peer, feed) in &self.feeds {
                if let Peer::Broker(_) = peer {
                    let id = feed.id;
                    cx.out.push_back((*peer, Reliable::End { id, reason }));
                }
            }
            self.feeds.retain(|peer, _| matches!(peer, Peer::Client(_)));
            return;
        }
        for (home, (due, tries)) in &mut self.owed {
            if *due <= cx.now && attended(home).is_some() {
                (*due, *tries) = (cx.now + RESEND_MAX, 0);
            } else if *due <= cx.now {
                *due = cx.now + backoff(ATTACH, *tries);
                *tries += 1;
                let topic = self.topic.clone();
                cx.out
                    .push_back((Peer::Broker(*home), Reliable::Offer { topic }));
            }
        }
    }
}
