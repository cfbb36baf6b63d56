//! Streams that neighbours announce.

use super::*;

impl StreamTable {
    pub(super) fn link_up(&mut self, link: LinkId) {
        self.link_down(link);
        // Whom it leads to is seen when interest comes.
        self.links.insert(link, Outbox::new(self.now, PACE));
    }

    pub(super) fn link_down(&mut self, link: LinkId) {
        if self.links.remove(&link).is_none() {
            return;
        }
        self.ghosts.retain(|_, told| {
            told.remove(link);
            !told.is_empty()
        });
        let mut left = Vec::new();
        for (id, stream) in &mut self.streams {
            stream.told.remove(link);
            stream.wanted.remove(link);
            if stream.parents.contains(link) {
                left.push(*id);
            }
        }
        self.dirty = true;
        for id in left {
            self.leave(id, link);
            self.doom(id);
        }
    }

    pub(super) fn message(&mut self, link: LinkId, message: &Message) {
        match message {
            Message::Announce {
                stream,
                topic,
                media,
            } if self.links.contains_key(&link) => {
                if stream.broker() == self.id {
                    self.refused += 1;
                } else if let Some(known) = self.streams.get_mut(stream) {
                    known.join(link);
                    self.unrouted.insert(*stream);
                    self.dirty = true;
                    self.doom(*stream);
                } else if self.streams.len() >= STREAMS_PER_BROKER {
                    self.refused += 1;
                } else {
                    let parent = Parent::Link(link);
                    let mut fresh = Stream::new(topic.clone(), media.clone(), parent);
                    fresh.join(link);
                    self.add(*stream, fresh);
                }
            }
            Message::Retire { stream } => {
                self.leave(*stream, link);
                let last = self.streams.get(stream).is_some_and(Stream::is_orphan);
                if last {
                    self.remove(*stream);
                }
            }
            _ => {}
        }
    }

    /// A neighbour does not bring the stream any more; another that does becomes its parent.
    fn leave(&mut self, id: StreamId, link: LinkId) {
        let now = self.now;
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if !stream.parents.contains(link) {
            return;
        }
        stream.parents.remove(link);
        match stream.parents.iter().next() {
            Some(_) if stream.parent != Parent::Link(link) => {}
            Some(other) => stream.parent = Parent::Link(other),
            None => stream.orphan_since = Some(now),
        }
        self.unrouted.insert(id);
        self.dirty = true;
    }

    /// Sets or lifts the time at which a stream goes.
    pub(super) fn doom(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let orphan = stream.orphan_since.map(|since| since + ORPHAN_GRACE);
        let lost = stream.lost_since.map(|since| since + LOST_GRACE);
        let doom = orphan.into_iter().chain(lost).min();
        let before = core::mem::replace(&mut stream.doom, doom);
        if let Some(at) = before {
            self.doomed.remove(&(at, id));
        }
        if let Some(at) = doom {
            self.doomed.insert((at, id));
        }
    }

    pub(super) fn end_doomed(&mut self) {
        while let Some((at, id)) = self.doomed.first().copied()
            && at <= self.now
        {
            self.doomed.pop_first();
            self.remove(id);
        }
    }
}

impl Stream {
    fn is_orphan(&self) -> bool {
        self.orphan_since.is_some()
    }

    fn join(&mut self, link: LinkId) {
        if self.parents.is_empty() {
            self.parent = Parent::Link(link);
            self.orphan_since = None;
        }
        self.parents.insert(link);
    }
}
