//! Neighbours that are ours to dial: by the first of their ways that works, and by a better one as
//! soon as it works again.

use std::net::SocketAddr;
use std::time::Duration;

use sangam_broker::LinkId;
use sangam_io::clock;
use sangam_link::{Backoff, DialInput, Input, Ladder, LadderConfig};
use sangam_model::Time;
use sangam_wire::{Capabilities, Refusal};

use super::Lane;
use super::judge::NONCES;
use super::link::{End, Link};
use crate::config::{LinkWay, Neighbour};
use crate::welcome;

/// How long datagrams may stay without an answer: four hellos.
const DATAGRAM_PATIENCE: Duration = Duration::from_secs(1);
/// The same for a connection, its opening included.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(3);
/// On a lower way a better one is tried so often; each time costs a handshake at most.
const CLIMB_AFTER: Duration = Duration::from_secs(5);
/// The first refusal may be of a link that is about to be over.
const REFUSED_MAX: u8 = 2;

/// The ways to a neighbour, and the one in use.
#[derive(Debug)]
pub(super) struct Rungs {
    ways: Vec<LinkWay>,
    ladder: Ladder,
    /// Calls in a row that the neighbour refused as it has a link with us.
    refused: u8,
    /// Better ways that were tried.
    climbs: usize,
}

impl Rungs {
    pub(super) fn new(ways: Vec<LinkWay>) -> Self {
        let config = LadderConfig {
            ways: ways.len(),
            climb_after: CLIMB_AFTER,
            backoff: Backoff::BROKER,
        };
        Self {
            ladder: Ladder::new(config, clock::now()),
            ways,
            refused: 0,
            climbs: 0,
        }
    }

    pub(super) fn home(&self) -> Option<SocketAddr> {
        self.ways.first().map(LinkWay::address)
    }

    pub(super) fn has(&self, way: &LinkWay) -> bool {
        self.ways.contains(way)
    }

    pub(super) fn deadline(&self, up: bool) -> Option<Time> {
        self.ladder.deadline(up, self.patience(self.ladder.used()))
    }

    pub(super) fn up(&mut self, now: Time) {
        self.refused = 0;
        self.ladder.up(now);
    }

    pub(super) fn failed(&mut self, now: Time) {
        self.ladder.failed(now);
    }

    pub(super) fn rest(&mut self, now: Time) {
        self.ladder.rest(now);
    }

    /// Dials again soon, as a link that may have stood in its way is over.
    fn stir(&mut self, now: Time) {
        self.refused = 0;
        self.ladder.stir(now);
    }

    fn has_several(&self) -> bool {
        self.ways.len() > 1
    }

    pub(super) fn climbed(&mut self, way: usize, now: Time) {
        self.ladder.climbed(way, now);
    }

    pub(super) fn patience(&self, way: usize) -> Duration {
        match self.ways[way] {
            LinkWay::Udp(_) => DATAGRAM_PATIENCE,
            _ => CONNECTION_PATIENCE,
        }
    }

    /// What is in use, once more.
    fn used(&self) -> LinkWay {
        self.ways[self.ladder.used()].clone()
    }

    fn turn(&mut self, now: Time) -> Option<LinkWay> {
        let patience = self.patience(self.ladder.used());
        let way = self.ladder.turn(now, patience)?;
        Some(self.ways[way].clone())
    }

    fn climb(&mut self, now: Time) -> Option<(usize, LinkWay)> {
        let way = self.ladder.climb(now)?;
        self.climbs = self.climbs.wrapping_add(1);
        Some((way, self.ways[way].clone()))
    }
}

impl Lane {
    /// Goes to another way where the one in use fails, and tries a better one beside it.
    pub(super) fn run_ladder(&mut self, id: LinkId) {
        let now = self.now;
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let (Some(rungs), End::Dialing(_)) = (&mut link.rungs, &link.end) else {
            return;
        };
        if link.up {
            if let Some((number, way)) = rungs.climb(now) {
                self.try_beside(id, number, &way);
            }
        } else if let Some(way) = rungs.turn(now) {
            if welcome::is_time_to_tell() {
                tracing::info!(to = %way.address(), "dialling a neighbour by its next way");
            }
            self.go(id, &way);
        }
    }

    /// An accepted session of a neighbour that is ours to dial is over.
    pub(super) fn dial_again(&mut self, id: LinkId) {
        let rungs = self.links.get(id).and_then(|link| link.rungs.as_ref());
        let Some((way, turns)) = rungs.map(|rungs| (rungs.used(), rungs.has_several())) else {
            return;
        };
        self.put_on(id, &way);
        // Where there are several ways, the ladder says which.
        if !turns {
            self.redial(id);
        }
    }

    /// The neighbour refuses our call as it has a link with us already. Beside its own, which is
    /// up, ours is of no use for long.
    pub(super) fn refused_beside(&mut self, id: LinkId) {
        let has_other = self.links.is_up_beside(id);
        let now = self.now;
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let Some(rungs) = &mut link.rungs else { return };
        rungs.refused = rungs.refused.saturating_add(1);
        if has_other && rungs.refused >= REFUSED_MAX {
            rungs.rest(now);
            link.tell(now, DialInput::Close, Input::Close(Refusal::Goodbye));
        }
    }

    /// A link is over, beside which a neighbour may have been left alone.
    pub(super) fn stir_ladders(&mut self) {
        for id in self.links.ids() {
            self.tell_ladder(id, Rungs::stir);
        }
    }

    /// Tells the ladder of a link that is ours to dial.
    pub(super) fn tell_ladder(&mut self, id: LinkId, tell: impl FnOnce(&mut Rungs, Time)) {
        let now = self.now;
        let link = self.links.get_mut(id);
        if let Some(rungs) = link.and_then(|link| link.rungs.as_mut()) {
            tell(rungs, now);
        }
    }

    /// Links with this broker, as control organises it.
    pub(super) fn dial(&mut self, neighbour: &Neighbour) {
        if let Some(id) = self.links.add_organised(neighbour) {
            self.redial(id);
        }
    }

    /// Gives up a link that was made by [`Self::dial`].
    pub(super) fn hang_up_at(&mut self, home: SocketAddr) {
        let organised = |id: &LinkId| self.links.get(*id).is_some_and(|link| link.organised);
        if let Some(id) = self.links.by_home(home).filter(organised) {
            self.drop_link(id, Refusal::Goodbye);
            self.hang_up(id);
            self.links.remove(id);
        }
    }

    pub(super) fn redial(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(id)
            && let End::Dialing(dialer) = &mut link.end
            && !self.aside
        {
            dialer.handle(self.now, DialInput::Start);
            self.drain_link(id);
        }
    }

    /// Neither dials nor tries anybody any more.
    pub(super) fn forget_ladders(&mut self) {
        for id in self.links.ids() {
            if let Some(link) = self.links.get_mut(id) {
                link.rungs = None;
            }
        }
    }

    fn go(&mut self, id: LinkId, way: &LinkWay) {
        self.put_on(id, way);
        self.redial(id);
    }

    fn put_on(&mut self, id: LinkId, way: &LinkWay) {
        self.hang_up(id);
        self.links.set_way(id, way);
    }

    /// Dials a better way while the one in use goes on.
    fn try_beside(&mut self, of: LinkId, number: usize, way: &LinkWay) {
        let asked = Capabilities::OURS.with(Capabilities::SECOND_WAY);
        let peer = self.links.get(of).and_then(|link| link.peer);
        let proved = peer.is_some_and(|(peer, _)| self.proves(of, peer));
        let rungs = self.links.get(of).and_then(|link| link.rungs.as_ref());
        let Some((patience, climbs)) = rungs.map(|rungs| (rungs.patience(number), rungs.climbs))
        else {
            return;
        };
        // Where the new way shows no certificate, the old one vouches for who calls.
        let nonces = (proved && !way.is_encrypted()).then(|| self.nonces(of));
        if let Some(None) = nonces {
            return;
        }
        let nonce = nonces.flatten().map(|nonces| nonces[climbs % NONCES]);
        // None if all places are taken, or a way left a moment ago is still there.
        if let Some(id) = self.links.add_way(way, asked) {
            self.links
                .comes_beside(id, of, Some(number), self.now + patience);
            if let (Some(nonce), Some(link)) = (nonce, self.links.get_mut(id))
                && let End::Dialing(dialer) = &mut link.end
            {
                dialer.call_by(nonce);
            }
            self.redial(id);
        }
    }
}

impl Link {
    /// Whether the neighbour is ours to dial, and dialled at the moment.
    pub(super) fn is_dialled(&self) -> bool {
        self.rungs.is_some() && matches!(self.end, End::Dialing(_))
    }
}
