//! Telling neighbours.

use super::*;

/// A version of which not all parts are told. It is told to its end even when a newer one comes:
/// else a busy origin with many parts would never be heard of.
#[derive(Debug)]
pub(super) struct Sending {
    origin: BrokerId,
    incarnation: Incarnation,
    version: u32,
    hops: u8,
    parts: Parts,
    at: u16,
}

/// What there is to tell a link about an origin.
enum Tidings {
    Way(Sending),
    NoWay(Message),
    Nothing,
}

impl InterestTable {
    pub(super) fn tell_all(&mut self, id: BrokerId) {
        self.links
            .values_mut()
            .for_each(|link| link.outbox.push(id));
    }

    pub(super) fn tell(&mut self, link: LinkId, id: BrokerId) {
        if let Some(link) = self.links.get_mut(&link) {
            link.outbox.push(id);
        }
    }

    /// A link that waits for something and may be told it.
    pub(super) fn ready(&self) -> Option<LinkId> {
        let ready = |link: &Link| link.outbox.may_send() && link.waits();
        self.links
            .iter()
            .find(|(_, link)| ready(link))
            .map(|(id, _)| *id)
    }

    /// The next message for a link; `None` if there was nothing to tell after all.
    pub(super) fn next_message(&mut self, id: LinkId) -> Option<Message> {
        if self.links.get(&id)?.sending.is_none() {
            let about = self.links.get_mut(&id)?.outbox.pop()?;
            let tidings = self.tidings(id, about);
            let link = self.links.get_mut(&id)?;
            match tidings {
                Tidings::Way(sending) => link.sending = Some(sending),
                Tidings::NoWay(message) => {
                    link.outbox.spend();
                    return Some(message);
                }
                Tidings::Nothing => return None,
            }
        }
        let link = self.links.get_mut(&id)?;
        link.outbox.spend();
        let mut sending = link.sending.take()?;
        let message = sending.next()?;
        link.sending = (!sending.is_done()).then_some(sending);
        Some(message)
    }

    /// A way is told to all but the next hop itself; to that one it is withdrawn, so that it
    /// never comes back to us for it (split horizon with poisoned reverse).
    fn tidings(&mut self, link: LinkId, about: BrokerId) -> Tidings {
        if about == self.id {
            return Tidings::Way(Sending {
                origin: about,
                incarnation: self.incarnation,
                version: self.own.version,
                hops: 1,
                parts: self.own.parts.clone(),
                at: 0,
            });
        }
        let Some(known) = self.origins.get_mut(&about) else {
            return Tidings::Nothing;
        };
        let (incarnation, was_told) = (known.incarnation, known.told.contains(link));
        let has_way = known.next.is_some_and(|next| next != link) && known.hops < HOP_LIMIT;
        match known.version.filter(|_| has_way) {
            Some(version) => {
                known.told.insert(link);
                let (hops, parts) = (known.hops + 1, known.parts.clone());
                Tidings::Way(Sending {
                    origin: about,
                    incarnation,
                    version,
                    hops,
                    parts,
                    at: 0,
                })
            }
            None if was_told => {
                known.told.remove(link);
                let version = known.version.unwrap_or(0);
                Tidings::NoWay(Message::Unreachable {
                    origin: about,
                    incarnation,
                    version,
                })
            }
            None => Tidings::Nothing,
        }
    }

    pub(super) fn note_deadline(&mut self) {
        let links = self.links.values().filter(|link| link.waits());
        let link = links
            .map(|link| link.outbox.ready())
            .min()
            .unwrap_or(Time::NEVER);
        self.deadline = self.own.deadline().min(self.sweep).min(link);
    }
}

impl Link {
    fn waits(&self) -> bool {
        self.sending.is_some() || !self.outbox.is_empty()
    }
}

impl Sending {
    fn next(&mut self) -> Option<Message> {
        let filters = self.parts.get(usize::from(self.at))?.clone();
        let part = self.at;
        self.at += 1;
        Some(Message::Interest {
            origin: self.origin,
            incarnation: self.incarnation,
            version: self.version,
            hops: self.hops,
            part,
            // `parts::cut` makes at most a quarter of `FILTERS_PER_BROKER`.
            parts: self.parts.len() as u16,
            filters,
        })
    }

    fn is_done(&self) -> bool {
        usize::from(self.at) >= self.parts.len()
    }
}
