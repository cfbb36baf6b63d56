//! A link that moves to a better way: both go on for a moment, so that nothing is lost.
//!
//! The end that dials asks for a second way of a link that is up ([`Capabilities::SECOND_WAY`]).
//! Once it is welcome there it sends events by the new way, and its first frame by it has the
//! other end do so, too. What still comes by the old way counts as before. Messages, which have an
//! order, go by the new way as soon as all that left by the old one are acknowledged.
//!
//! [`Capabilities::SECOND_WAY`]: sangam_wire::Capabilities::SECOND_WAY

use std::time::Duration;

use sangam_broker::{DropReason, LinkId};
use sangam_link::Session;
use sangam_model::{BrokerId, Incarnation, Time};
use sangam_wire::{Capabilities, Frame, Refusal, Welcome};

use super::Lane;
use super::link::{End, Link, Via};
use super::links::LinkTable;
use crate::command::ControlEvent;

/// How long the old way is kept by the end that dials: what was sent by it arrives.
const OVERLAP: Duration = Duration::from_secs(1);
/// The other end leaves that to it, unless it forgets.
const OVERLAP_MAX: Duration = Duration::from_secs(5);
/// Messages that may wait for those of the old way.
const HELD_MAX: usize = 8_192;

/// What a way of a link is that is not the one in use.
#[derive(Debug)]
pub(super) struct Second {
    /// The link that the way is of.
    pub(super) of: LinkId,
    stage: Stage,
    until: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The link is about to take it: of our own ways, that of this number.
    Coming(Option<usize>),
    /// The link has left it.
    Going,
}

impl LinkTable {
    /// The link will move to this way.
    pub(super) fn comes_beside(
        &mut self,
        id: LinkId,
        of: LinkId,
        number: Option<usize>,
        until: Time,
    ) {
        if let Some(link) = self.get_mut(id) {
            let stage = Stage::Coming(number);
            link.second = Some(Second { of, stage, until });
        }
    }

    /// The same for one that the neighbour has dialled.
    pub(super) fn called_beside(&mut self, id: LinkId, of: LinkId, now: Time) {
        self.comes_beside(id, of, None, now + OVERLAP_MAX);
    }

    /// The other ways of a link.
    pub(super) fn seconds_of(&self, of: LinkId) -> impl Iterator<Item = LinkId> + use<'_> {
        let second = move |id: &LinkId| {
            let second = self.get(*id).and_then(|link| link.second.as_ref());
            second.is_some_and(|second| second.of == of)
        };
        self.ids().filter(second)
    }

    /// The link that an entry belongs to: itself, but for other ways.
    pub(super) fn whose(&self, id: LinkId) -> LinkId {
        let second = self.get(id).and_then(|link| link.second.as_ref());
        second.map_or(id, |second| second.of)
    }
}

impl Lane {
    pub(super) fn is_second(&self, id: LinkId) -> bool {
        self.links.get(id).is_some_and(|link| link.second.is_some())
    }

    /// A frame has come by a way. If the neighbour wants the link to move there, it does; which
    /// entry has the way now. Only a frame of the session that was welcomed there counts: whoever
    /// else sends from that address moves nothing.
    pub(super) fn arrived(&mut self, id: LinkId, frame: &Frame<'_>) -> LinkId {
        match self.is_called_for(id, frame) {
            true => self.take_way(id),
            false => id,
        }
    }

    /// Whether a frame by a way says that the neighbour, who has called there, has its welcome.
    pub(super) fn is_called_for(&self, id: LinkId, frame: &Frame<'_>) -> bool {
        let Some(link) = self.links.get(id) else {
            return false;
        };
        let End::Accepted { session, .. } = &link.end else {
            return false;
        };
        let second = link.second.as_ref();
        second.is_some_and(|second| second.stage == Stage::Coming(None))
            && frame.session() == Some(session.number())
            && !matches!(frame, Frame::Bye { .. })
    }

    /// The link moves to this way, which was called for; which entry has it now.
    pub(super) fn take_way(&mut self, id: LinkId) -> LinkId {
        let second = self.links.get(id).and_then(|link| link.second.as_ref());
        let Some(of) = second.map(|second| second.of) else {
            return id;
        };
        self.take_over(of, id, OVERLAP_MAX);
        of
    }

    /// A way that we dialled for a link that is up answers.
    pub(super) fn welcomed_beside(
        &mut self,
        id: LinkId,
        (peer, welcome): ((BrokerId, Incarnation), &Welcome),
    ) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let Some(Second { of, stage, .. }) = link.second else {
            return;
        };
        self.links.agree(id, welcome.datagram_max);
        let known = self.links.get(of).filter(|link| link.up);
        match stage {
            Stage::Coming(Some(number)) if known.is_some_and(|link| link.peer == Some(peer)) => {
                match welcome.capabilities.contains(Capabilities::SECOND_WAY) {
                    true => self.take_over(of, id, OVERLAP),
                    false => self.begin_anew(of, id, (peer, welcome)),
                }
                self.tell_ladder(of, |rungs, now| rungs.climbed(number, now));
                self.drain_link(of);
            }
            _ => {
                tracing::warn!(broker = %peer.0, "a better way leads to another broker");
                self.drop_second(id);
            }
        }
    }

    /// The neighbour has no link to move any more and took the call as a new one: so do we.
    fn begin_anew(
        &mut self,
        of: LinkId,
        id: LinkId,
        (peer, welcome): ((BrokerId, Incarnation), &Welcome),
    ) {
        if let Some(link) = self.links.get_mut(id) {
            // It outlives what it was to be a way of.
            link.second = None;
        }
        self.drop_link(of, Refusal::Goodbye);
        self.exchange_ways(of, id);
        self.hang_up(id);
        self.links.remove(id);
        self.link_up(of, peer, welcome.datagram_max);
    }

    fn exchange_ways(&mut self, one: LinkId, other: LinkId) {
        self.links.exchange(one, other);
        self.quic.exchanged(&self.links, [one, other]);
        self.exchange_streams([one, other]);
    }

    /// Lets a link move to its second way.
    fn take_over(&mut self, of: LinkId, id: LinkId, overlap: Duration) {
        self.exchange_ways(of, id);
        self.move_from_groups(of);
        let until = self.now + overlap;
        if let Some(left) = self.links.get_mut(id) {
            let stage = Stage::Going;
            left.second = Some(Second { of, stage, until });
        }
        let Some(link) = self.links.get_mut(of) else {
            return;
        };
        link.before = Some(id);
        link.told = None;
        let (pace, by) = (link.pace(), link.transport());
        tracing::info!(address = %link.address, by, "a link moves to a better way");
        self.outboxes.move_over(of, pace);
        let [was, is] = [id, of].map(|id| {
            let session = self.links.get(id).and_then(Link::session);
            session.is_some_and(Session::is_suspect)
        });
        match (was, is) {
            (true, false) => self.control.send(ControlEvent::LinkRecovered(of)),
            (false, true) => self.control.send(ControlEvent::LinkSuspect(of)),
            _ => {}
        }
        self.links.show(self.now, true, &self.outboxes);
    }

    /// Ends ways that do not come up, or that were left; lets messages go by the new one.
    pub(super) fn run_second(&mut self, id: LinkId) {
        let link = self.links.get(id);
        let Some(Second { of, stage, until }) = link.and_then(|link| link.second.as_ref()) else {
            return;
        };
        let (of, stage, over) = (*of, *stage, self.now >= *until);
        let waiting = link.and_then(Link::session);
        let quiet = waiting.is_none_or(|session| session.unacknowledged() == 0);
        if stage == Stage::Going && quiet {
            self.release(of, id);
        }
        let held = self.links.get(of).map_or(0, |link| link.held.len());
        if held > HELD_MAX {
            self.counters.dropped(DropReason::ControlOverflow);
            self.drop_link(of, Refusal::Overflow);
        } else if over {
            self.drop_second(id);
        }
    }

    /// What had to wait for messages by the old way goes by the new one.
    fn release(&mut self, of: LinkId, left: LinkId) {
        let Some(link) = self.links.get_mut(of) else {
            return;
        };
        if link.before != Some(left) {
            return;
        }
        link.before = None;
        for message in std::mem::take(&mut link.held) {
            self.links.send(of, message, self.now);
        }
        self.drain_link(of);
    }

    /// Says goodbye by a way, and forgets it.
    pub(super) fn drop_second(&mut self, id: LinkId) {
        self.drop_link(id, Refusal::Goodbye);
        self.forget_second(id);
    }

    /// A way is gone that was not in use any more, or not yet.
    pub(super) fn forget_second(&mut self, id: LinkId) {
        let Some(of) = self.links.get(id).and_then(|link| link.second.as_ref()) else {
            return;
        };
        let of = of.of;
        self.hang_up(id);
        match self.links.get_mut(id) {
            // A neighbour that is ours to dial had called; its entry stays.
            Some(link) if link.rungs.is_some() => {
                link.second = None;
                self.dial_again(id);
            }
            _ => self.links.remove(id),
        }
        if self
            .links
            .get(of)
            .is_some_and(|link| link.before == Some(id))
        {
            // Messages on their way may be lost: both ends begin anew.
            self.drop_link(of, Refusal::Overflow);
        }
    }

    /// The link is down, and its other ways with it.
    pub(super) fn end_seconds(&mut self, of: LinkId) {
        if let Some(link) = self.links.get_mut(of) {
            link.before = None;
            link.held.clear();
        }
        loop {
            let next = self.links.seconds_of(of).next();
            let Some(id) = next else { return };
            self.drop_second(id);
        }
    }

    /// How a call of a broker counts with which a link is up: as a second way of that link if it
    /// asks for one, as an intruder's if it does not, and if it is one of a later life the link
    /// ends. Where the neighbour has proved who it is, so must the caller: what else names a link
    /// stands in the id of each stream.
    pub(super) fn judge_second(
        &mut self,
        other: LinkId,
        (peer, wants, proved): ((BrokerId, Incarnation), bool, bool),
    ) -> Result<Option<LinkId>, Refusal> {
        if !proved && self.proves(other, peer.0) {
            return Err(Refusal::Invalid);
        }
        let linked = self.links.get(other).and_then(|link| link.peer);
        if linked == Some(peer) {
            let alone = self.links.seconds_of(other).next().is_none();
            return match wants && alone {
                true => Ok(Some(other)),
                false => Err(Refusal::Invalid),
            };
        }
        if linked.is_some_and(|(_, known)| !super::aside::is_later_life(peer.1, known)) {
            return Err(Refusal::Identity);
        }
        // The neighbour has started anew, elsewhere.
        self.drop_for_call(other);
        Ok(None)
    }
}

impl Link {
    /// Whether datagrams carry it.
    pub(super) fn is_by_datagrams(&self) -> bool {
        matches!(self.via, Via::Datagrams)
    }
}
