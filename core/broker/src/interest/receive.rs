//! Taking what neighbours tell, and forgetting what they do not tell any more.

use super::*;

/// Where a part of a version comes from.
#[derive(Clone, Copy)]
struct Source {
    link: LinkId,
    origin: BrokerId,
    incarnation: Incarnation,
    hops: u8,
}

/// What others see of an origin's ways.
#[derive(Clone, Copy)]
struct Ways {
    next: Option<LinkId>,
    hops: u8,
    nearer: LinkSet,
}

impl Ways {
    fn of(known: &Origin) -> Self {
        Self {
            next: known.next,
            hops: known.hops,
            nearer: known.nearer(),
        }
    }
}

impl InterestTable {
    pub(super) fn link_up(&mut self, id: LinkId) {
        self.link_down(id);
        let mut outbox = Outbox::new(self.now, PACE);
        outbox.push(self.id);
        self.origins.keys().for_each(|origin| outbox.push(*origin));
        self.links.insert(
            id,
            Link {
                outbox,
                sending: None,
                assembly: None,
            },
        );
        self.own.heard_by_someone(self.now);
    }

    pub(super) fn link_down(&mut self, id: LinkId) {
        if self.links.remove(&id).is_none() {
            return;
        }
        for origin in self.origins.keys().copied().collect::<Vec<_>>() {
            self.update(origin, |known| known.drop_path(id));
        }
    }

    pub(super) fn message(&mut self, link: LinkId, message: &Message) {
        if !self.links.contains_key(&link) {
            return;
        }
        match *message {
            Message::Interest {
                origin,
                incarnation,
                version,
                hops,
                part,
                parts,
                ref filters,
            } => {
                let part = Part {
                    version,
                    part,
                    parts,
                    filters,
                };
                self.interest(
                    Source {
                        link,
                        origin,
                        incarnation,
                        hops,
                    },
                    &part,
                );
            }
            Message::Unreachable {
                origin,
                incarnation,
                version,
            } => {
                self.update(origin, |known| {
                    known.incarnation == incarnation && known.void_path(link, version)
                });
            }
            _ => {}
        }
    }

    fn interest(&mut self, source: Source, part: &Part<'_>) {
        if !part.is_valid() || source.hops == 0 || source.hops > HOP_LIMIT {
            self.refused.invalid += 1;
            return;
        }
        if source.origin == self.id {
            self.echo(source.incarnation, part.version);
            return;
        }
        if !self.admit(source) {
            return;
        }
        let version = self
            .origins
            .get(&source.origin)
            .and_then(|known| known.version);
        if version.is_some_and(|version| is_newer(version, part.version)) {
            self.refused.stale += 1;
            return;
        }
        self.update(source.origin, |known| {
            known.note_path(source.link, part.version, source.hops)
        });
        if version != Some(part.version) {
            self.assemble(source, part);
        }
    }

    /// A version of our own came back. After a restart within the same life the network may
    /// remember a later one than we do.
    fn echo(&mut self, incarnation: Incarnation, version: u32) {
        if incarnation == self.incarnation && is_newer(version, self.own.version) {
            self.own.overtake(version, self.now);
        }
    }

    /// Whether an origin is known or may be; a later life replaces an earlier one.
    fn admit(&mut self, source: Source) -> bool {
        let fresh = Origin::new(source.incarnation);
        let full = self.origins.len() >= ORIGINS_MAX;
        match self.origins.get_mut(&source.origin) {
            Some(known) if known.incarnation == source.incarnation => {}
            Some(known) if is_later_life(source.incarnation, known.incarnation) => {
                let old = core::mem::replace(known, fresh);
                known.told = old.told;
                self.forget(source.origin, &old.parts);
            }
            Some(_) => {
                self.refused.stale += 1;
                return false;
            }
            None if full => {
                self.refused.full += 1;
                return false;
            }
            None => {
                self.origins.insert(source.origin, fresh);
                self.sweep = self.sweep.min(self.now + SWEEP);
            }
        }
        true
    }

    /// Adds a part to the version that its link is telling; a neighbour tells one at a time.
    fn assemble(&mut self, source: Source, part: &Part<'_>) {
        let Some(link) = self.links.get_mut(&source.link) else {
            return;
        };
        let begun = link
            .assembly
            .take()
            .filter(|begun| begun.fits(source.origin, part));
        let mut assembly = begun.unwrap_or_else(|| Assembly::new(source.origin, part));
        assembly.add(part);
        let room = REMOTE_FILTERS_MAX - self.index.len();
        if assembly.filters() > FILTERS_PER_BROKER.min(room) {
            self.refused.full += 1;
        } else if assembly.is_complete() {
            self.adopt(source.origin, assembly);
        } else {
            link.assembly = Some(assembly);
        }
    }

    fn adopt(&mut self, id: BrokerId, assembly: Assembly) {
        let Some(known) = self.origins.get_mut(&id) else {
            return;
        };
        let before = Ways::of(known);
        let old = core::mem::take(&mut known.parts);
        known.adopt(self.now, assembly);
        known.choose();
        let (after, new) = (Ways::of(known), known.parts.clone());
        if old != new {
            self.replace(id, &old, &new);
        }
        self.note_ways(id, before, after);
        self.tell_all(id);
    }

    fn replace(&mut self, id: BrokerId, old: &Parts, new: &Parts) {
        let before: BTreeSet<_> = old.iter().flatten().collect();
        let after: BTreeSet<_> = new.iter().flatten().collect();
        for filter in before.difference(&after) {
            self.index.remove(filter, id);
            self.note(Change::Filter((*filter).clone()));
        }
        for filter in after.difference(&before) {
            self.index.insert(filter, id);
            self.note(Change::Filter((*filter).clone()));
        }
    }

    /// Changes the ways to an origin and does what follows from it.
    fn update(&mut self, id: BrokerId, change: impl FnOnce(&mut Origin) -> bool) {
        let Some(known) = self.origins.get_mut(&id) else {
            return;
        };
        let before = Ways::of(known);
        if !change(known) {
            return;
        }
        known.choose();
        let after = Ways::of(known);
        self.note_ways(id, before, after);
        if after.hops != before.hops || after.next.is_none() != before.next.is_none() {
            self.tell_all(id);
        } else if after.next != before.next {
            let moved = before.next.into_iter().chain(after.next);
            moved.for_each(|link| self.tell(link, id));
        }
    }

    fn note_ways(&mut self, id: BrokerId, before: Ways, after: Ways) {
        if after.next != before.next
            && let Some(parts) = self.origins.get(&id).map(|known| known.parts.clone())
        {
            self.note_filters(&parts);
        }
        if after.nearer != before.nearer {
            self.note(Change::Origin(id));
        }
    }

    /// Looks for what is old.
    pub(super) fn sweep(&mut self) {
        for id in self.origins.keys().copied().collect::<Vec<_>>() {
            let Some(known) = self.origins.get(&id) else {
                continue;
            };
            let age = self.now.since(known.adopted.unwrap_or(self.now));
            if age < EXPIRY {
                self.update(id, |known| {
                    let stale = age >= SETTLE && known.drop_stale_paths();
                    known.relent() || stale
                });
            } else if known.is_lost() && known.told.is_empty() {
                let parts = known.parts.clone();
                self.origins.remove(&id);
                self.forget(id, &parts);
            } else {
                self.update(id, Origin::drop_paths);
            }
        }
        self.sweep = if self.origins.is_empty() {
            Time::NEVER
        } else {
            self.now + SWEEP
        };
    }

    fn forget(&mut self, id: BrokerId, parts: &Parts) {
        for filter in parts.iter().flatten() {
            self.index.remove(filter, id);
        }
        self.note_filters(parts);
        self.note(Change::Origin(id));
    }

    fn note_filters(&mut self, parts: &Parts) {
        parts
            .iter()
            .flatten()
            .for_each(|filter| self.note(Change::Filter(filter.clone())));
    }

    fn note(&mut self, change: Change) {
        if self.changes.front() == Some(&Change::All) || self.changes.contains(&change) {
            return;
        }
        if self.changes.len() >= CHANGES_MAX {
            self.changes.clear();
            self.changes.push_back(Change::All);
        } else {
            self.changes.push_back(change);
        }
    }
}
