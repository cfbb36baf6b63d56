//! What happens to a [`Routing`], and what it tells its neighbours.

use sangam_wire::{DIGEST_MAX, LinkState, LinkView, Register, Sources, Version};

use super::directory::{Part, Registered};
use super::joins::Key;
use super::links::Item;
use super::map::Taken;
use super::ways::Moved;
use super::*;

impl Routing {
    pub(super) fn link_up(&mut self, link: LinkId, peer: BrokerId) {
        self.link_down(link);
        self.links.up(link, peer, self.now);
        self.own_links_changed();
        // Each side tells what it has; the other answers with what is newer.
        let digest = self.map.digest();
        let parts = digest.len().div_ceil(DIGEST_MAX);
        let digests = (1..).zip(digest.chunks(DIGEST_MAX));
        let digests = digests.map(|(part, entries)| Message::Digest {
            last: part == parts,
            entries: entries.to_vec(),
        });
        if let Some(link) = self.links.get_mut(link) {
            link.tell_digest(digests);
        }
    }

    pub(super) fn link_down(&mut self, link: LinkId) {
        if !self.links.down(link) {
            return;
        }
        for origin in self.joins.link_down(link) {
            self.note(Change::Origin(origin));
        }
        self.joins.end_detours(link, self.now);
        self.own_links_changed();
    }

    pub(super) fn link_suspect(&mut self, link: LinkId) {
        if let Some(peer) = self.links.doubt(link) {
            self.joins.detour(link, peer, self.now);
        }
    }

    pub(super) fn link_recovered(&mut self, link: LinkId) {
        self.links.trust(link);
        self.map.link_recovered();
        self.joins.end_detours(link, self.now);
        // Those by this link may carry video again.
        self.joins.touch_detours();
    }

    /// Our links came, went or weigh otherwise: another may lead to the same neighbour.
    pub(super) fn own_links_changed(&mut self) {
        self.map.set_links(self.links.views());
        self.joins.touch_all();
        self.ways_version += 1;
    }

    pub(super) fn message(&mut self, link: LinkId, message: &Message) {
        if !self.links.is_up(link) {
            return;
        }
        match message {
            Message::LinkState(state) => self.link_state(link, state),
            Message::Digest { last, entries } => self.digest(link, *last, entries),
            Message::Join(join) => {
                if !self.joins.take(link, join) {
                    self.refused.full += 1;
                }
                self.note(Change::Origin(join.origin));
            }
            Message::Register(register) if register.route.to == self.id => self.register(register),
            Message::Sources(sources) if sources.route.to == self.id => self.sources(sources),
            Message::Register(register) => {
                let mut register = register.clone();
                register.route.hop_limit = register.route.hop_limit.saturating_sub(1);
                let (to, hops) = (register.route.to, register.route.hop_limit);
                self.pass_on(link, (to, hops), Message::Register(register));
            }
            Message::Sources(sources) => {
                let mut sources = sources.clone();
                sources.route.hop_limit = sources.route.hop_limit.saturating_sub(1);
                let (to, hops) = (sources.route.to, sources.route.hop_limit);
                self.pass_on(link, (to, hops), Message::Sources(sources));
            }
            _ => {}
        }
    }

    fn link_state(&mut self, link: LinkId, state: &LinkState) {
        let origin = state.version.origin;
        let life = self
            .map
            .state(origin)
            .map(|known| known.version.incarnation);
        let taken = self.map.take(self.now, state);
        let reborn = life.is_some_and(|life| life != state.version.incarnation);
        if self.map.is_known(state.version) {
            self.links.knows(link, origin);
        }
        if let Taken::News | Taken::Again = taken {
            let map = &self.map;
            let haste = taken == Taken::News;
            let spares = |peer| map.is_told_by(origin, peer);
            self.links.spread((link, origin), haste, spares);
        }
        match taken {
            Taken::News => {
                if life != Some(state.version.incarnation) {
                    self.note(Change::Origin(origin));
                }
                if reborn {
                    let told = self.directory.reborn(self.now, origin);
                    self.dispatch(told);
                }
            }
            Taken::Again | Taken::Same => {}
            Taken::Stale => {
                self.refused.stale += 1;
                // A neighbour that is behind is told what is newer.
                self.links.tell(link, Item::State(origin));
            }
            Taken::Full => self.refused.full += 1,
            Taken::Overtaken => self.refused.invalid += 1,
            Taken::Identity => {
                self.refused.identity += 1;
                if self.displaced == Displaced::No {
                    self.displaced = Displaced::Noticed;
                }
            }
        }
    }

    fn digest(&mut self, id: LinkId, last: bool, entries: &[Version]) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let newer = self.map.newer_than(entries);
        newer.into_iter().for_each(|origin| link.owe(origin));
        link.listed.extend(entries.iter().map(|entry| entry.origin));
        if link.listed.len() > ORIGINS_MAX + 1 {
            link.listed.clear();
            self.refused.full += 1;
        } else if last {
            let listed = core::mem::take(&mut link.listed);
            let missing = self.map.missing_in(&listed, link.peer);
            missing.into_iter().for_each(|origin| link.owe(origin));
        }
    }

    fn register(&mut self, register: &Register) {
        match self.directory.registered(self.now, register) {
            Registered::Answers(answers) => self.dispatch(answers),
            Registered::Full => self.refused.full += 1,
        }
    }

    fn sources(&mut self, sources: &Sources) {
        let map = &self.map;
        let cut_off = |id: &BrokerId| map.state(*id).is_some() && !map.has_way(*id);
        let Some(changed) = self.directory.answered(self.now, sources, cut_off) else {
            self.refused.invalid += 1;
            return;
        };
        for origin in changed {
            self.joins.touch(Key {
                origin,
                scope: sources.scope.clone(),
                avoid: None,
            });
        }
    }

    fn pass_on(&mut self, from: LinkId, (to, hop_limit): (BrokerId, u8), message: Message) {
        let next = self.map.next_hop(to, &self.links);
        match next.filter(|next| *next != from && hop_limit > 0) {
            Some(next) => self.send(next, message),
            None => self.refused.lost += 1,
        }
    }

    /// Sends registrations and answers of our own on their way.
    fn dispatch(&mut self, messages: Vec<Message>) {
        for message in messages {
            let to = match &message {
                Message::Register(register) => register.route.to,
                Message::Sources(sources) => sources.route.to,
                _ => continue,
            };
            match message {
                Message::Register(register) if to == self.id => self.register(&register),
                Message::Sources(sources) if to == self.id => self.sources(&sources),
                message => match self.map.next_hop(to, &self.links) {
                    Some(link) => self.send(link, message),
                    None => self.refused.lost += 1,
                },
            }
        }
    }

    fn send(&mut self, link: LinkId, message: Message) {
        if !self.links.send(link, message) {
            self.refused.lost += 1;
        }
    }

    /// What our clients want in a scope has changed.
    pub(super) fn wants_changed(&mut self, scope: &Scope) {
        let sources = if scope.is_wide() {
            self.map.reachable().collect()
        } else {
            self.enroll(scope);
            self.directory.sources(scope)
        };
        for origin in sources {
            self.joins.touch(Key {
                origin,
                scope: scope.clone(),
                avoid: None,
            });
        }
    }

    /// Our part in a session has changed.
    pub(super) fn enroll(&mut self, scope: &Scope) {
        let part = Part {
            source: self.own.publishes(scope),
            sink: self.own.wants(scope),
        };
        let before = self.directory.sources(scope);
        let told = self.directory.enroll(self.now, scope, part);
        self.dispatch(told);
        for origin in before.difference(&self.directory.sources(scope)) {
            self.joins.touch(Key {
                origin: *origin,
                scope: scope.clone(),
                avoid: None,
            });
        }
    }

    /// Does what time and the changes so far ask for.
    pub(super) fn tick(&mut self) {
        let now = self.now;
        if self.map.advance(now) {
            self.links.tell_all(&Item::State(self.id));
        }
        if self.map.expire(now) {
            self.joins.touch_all();
        }
        if let Some(moved) = self.map.settle(now, &self.links) {
            self.graph_changed(&moved);
        }
        let repeated = self.directory.repeat(now);
        self.dispatch(repeated);
        let expired = self.directory.expire(now);
        self.dispatch(expired);
        self.joins.expire(now);
        self.settle_joins();
        self.links.refill(now);
        self.note_deadline();
    }

    fn graph_changed(&mut self, moved: &Moved) {
        self.ways_version += 1;
        for origin in &moved.hops {
            self.note(Change::Origin(*origin));
            self.joins.touch_origin(*origin);
        }
        self.joins.touch_detours();
        if self.own.wants(&Scope::WIDE) {
            for origin in &moved.reach {
                self.joins.touch(Key {
                    origin: *origin,
                    scope: Scope::WIDE,
                    avoid: None,
                });
            }
        }
        self.directory.returned(self.now, &moved.reach);
        let told = self.directory.move_homes(self.now, self.map.suitors());
        self.dispatch(told);
    }

    fn settle_joins(&mut self) {
        while let Some(key) = self.joins.next_dirty() {
            let own = self.own_wish(&key);
            let around = (&mut self.map, &self.links);
            for link in self.joins.settle(&key, own, around, self.now) {
                self.links.tell(link, Item::Tree(key.clone()));
            }
        }
    }

    /// What our clients want of a tree.
    fn own_wish(&self, key: &Key) -> BTreeSet<Filter> {
        let ours = key.avoid.is_none()
            && key.origin != self.id
            && (key.scope.is_wide() || self.directory.is_source(&key.scope, key.origin));
        let filters = ours.then(|| self.own.filters(&key.scope).cloned());
        filters.into_iter().flatten().collect()
    }

    /// The next message for a link; `None` if there was nothing to tell after all.
    pub(super) fn next_message(&mut self, id: LinkId) -> Option<Message> {
        let link = self.links.get_mut(id)?;
        if !link.has_news() && link.has_routed() {
            return link.next_routed();
        }
        if !link.has_news() {
            return self.next_of_backlog(id);
        }
        if let Some(message) = link.next_part() {
            return Some(message);
        }
        match link.next_item()? {
            Item::State(origin) => {
                link.spend();
                link.told(origin);
                self.map.state(origin).cloned().map(Message::LinkState)
            }
            Item::Tree(key) => {
                let mut parts = self.joins.tidings(id, &key).into_iter();
                let first = parts.next()?;
                let link = self.links.get_mut(id)?;
                link.spend();
                link.follow(parts);
                Some(first)
            }
        }
    }

    fn next_of_backlog(&mut self, id: LinkId) -> Option<Message> {
        let link = self.links.get_mut(id)?;
        if let Some(message) = link.next_digest() {
            return Some(message);
        }
        let origin = link.next_owed()?;
        let state = self.map.state(origin)?;
        let texts = super::map::texts_of(state);
        link.pay(size_of::<Version>() + texts + state.links.len() * size_of::<LinkView>());
        Some(Message::LinkState(state.clone()))
    }
}
