//! Which links and shards get a stream, and telling the links.

use sangam_model::Filter;

use super::*;
use crate::{Route, Standing};

impl StreamTable {
    /// Finds the ways of streams whose way may have changed, by what neighbours want and by what
    /// the delivery shards want.
    pub fn route(&mut self, routing: &Routing, shards: &FilterIndex<u16>) {
        let mut found = Vec::new();
        while let Some(id) = self.unrouted.pop_first() {
            let Some(stream) = self.streams.get_mut(&id) else {
                continue;
            };
            shards.matches(&stream.topic, &mut found);
            let mask = found.iter().fold(0, |mask, shard| mask | bit(*shard));
            let mut wanted = routing.links_for(&stream.topic, stream.class, id.broker());
            let reachable = routing.has_way(id.broker());
            if !reachable {
                // Brokers without a way to the origin could believe in its stream because of each
                // other, around a cycle; so nobody new is told by them.
                wanted = wanted.intersection(stream.told);
            }
            if stream.parents.len() == 1 {
                // What only this neighbour brings is not for it. Where another one brings it,
                // too, it may need it back: a tree turns around when a link behind it dies.
                wanted = wanted.without(stream.parents);
            }
            self.dirty |= stream.turn(routing.parent(id.broker()));
            self.dirty |= (stream.shards, stream.wanted) != (mask, wanted);
            (stream.shards, stream.wanted) = (mask, wanted);
            for link in wanted.difference(stream.told).iter() {
                if let Some(outbox) = self.links.get_mut(&link) {
                    outbox.push(id);
                }
            }
            let standing = routing.standing(id.broker(), id.incarnation());
            self.check_origin(id, standing, reachable);
        }
    }

    /// The snapshot of this moment.
    #[must_use]
    pub fn snapshot(&self, seed: u64) -> Snapshot {
        let routes = self.streams.iter().map(|(id, stream)| {
            let route = Route {
                index: stream.index,
                class: stream.class,
                parent: stream.parent,
                announcers: stream.parents,
                hops: stream.wanted.intersection(stream.told).iter().collect(),
                shards: stream.shards,
                closed: stream.closed,
            };
            (*id, route)
        });
        Snapshot::new(seed, routes)
    }

    pub(super) fn touch(&mut self, change: &Change) {
        match change {
            Change::All => self.unrouted.extend(self.streams.keys()),
            Change::Origin(broker) => {
                let first = StreamId::new(*broker, Incarnation(0), 0);
                let last = StreamId::new(*broker, Incarnation(u8::MAX), StreamId::LOCAL_MAX);
                let of_origin = self.streams.range(first..=last);
                self.unrouted.extend(of_origin.map(|(id, _)| *id));
            }
            Change::Filter(filter) => self.touch_topics(filter),
        }
    }

    fn touch_topics(&mut self, filter: &Filter) {
        if filter.is_wild() {
            let selected = self
                .topics
                .iter()
                .filter(|(topic, _)| filter.matches(topic));
            self.unrouted.extend(selected.flat_map(|(_, ids)| ids));
        } else if let Ok(topic) = Topic::new(filter.as_str()) {
            self.unrouted
                .extend(self.topics.get(&topic).into_iter().flatten());
        }
    }

    /// A stream cannot outlive its origin, nor for long the way to it: three brokers could believe
    /// in it because of each other.
    fn check_origin(&mut self, id: StreamId, standing: Standing, reachable: bool) {
        let now = self.now;
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        match standing {
            _ if stream.owner.is_some() => {}
            Standing::Known if reachable => stream.lost_since = None,
            Standing::Known | Standing::Unknown => {
                stream.lost_since.get_or_insert(now);
            }
            Standing::Replaced => {
                self.remove(id);
                return;
            }
        }
        self.doom(id);
    }

    pub(super) fn tell(&mut self, link: LinkId, id: StreamId) {
        if let Some(outbox) = self.links.get_mut(&link) {
            outbox.push(id);
        }
    }

    /// A link that waits for something and may be told it.
    pub(super) fn ready(&self) -> Option<LinkId> {
        let ready = |outbox: &Outbox<_>| outbox.may_send() && !outbox.is_empty();
        self.links
            .iter()
            .find(|(_, outbox)| ready(outbox))
            .map(|(id, _)| *id)
    }

    /// The next message for a link; `None` if there was nothing to tell after all.
    pub(super) fn next_message(&mut self, link: LinkId) -> Option<Message> {
        let outbox = self.links.get_mut(&link)?;
        let id = outbox.pop()?;
        let message = match self.streams.get_mut(&id) {
            Some(stream) => stream.tidings(link, id)?,
            None => retire_ghost(&mut self.ghosts, link, id)?,
        };
        outbox.spend();
        self.dirty = true;
        Some(message)
    }
}

impl Stream {
    /// Of several neighbours that announce it feedback goes to the one on the shortest way: the
    /// others may wait for us to send it to them. Where events go does not depend on it. Whether
    /// it is another now.
    fn turn(&mut self, parent: Option<LinkId>) -> bool {
        let announcing = parent.filter(|link| self.parents.contains(*link));
        let (Parent::Link(before), Some(link)) = (self.parent, announcing) else {
            return false;
        };
        self.parent = Parent::Link(link);
        before != link
    }

    fn tidings(&mut self, link: LinkId, id: StreamId) -> Option<Message> {
        match (self.wanted.contains(link), self.told.contains(link)) {
            (true, false) => {
                self.told.insert(link);
                let (topic, media) = (self.topic.clone(), MediaInfo::clone(&self.media));
                Some(Message::Announce {
                    stream: id,
                    topic,
                    media,
                })
            }
            (false, true) => {
                self.told.remove(link);
                Some(Message::Retire { stream: id })
            }
            _ => None,
        }
    }
}

fn retire_ghost(
    ghosts: &mut BTreeMap<StreamId, LinkSet>,
    link: LinkId,
    id: StreamId,
) -> Option<Message> {
    let told = ghosts.get_mut(&id).filter(|told| told.contains(link))?;
    told.remove(link);
    if told.is_empty() {
        ghosts.remove(&id);
    }
    Some(Message::Retire { stream: id })
}

const fn bit(shard: u16) -> u64 {
    if shard < 64 { 1 << shard } else { 0 }
}
