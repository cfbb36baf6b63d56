//! Whether a broker that calls may come in, by whichever door: datagrams, QUIC or a stream.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use sangam_broker::{DropReason, LinkId};
use sangam_model::{BrokerId, Incarnation};
use sangam_wire::Refusal;

use super::Lane;
use super::dial::Rungs;
use super::link::Via;
use crate::welcome;

/// What the secret of an encrypted link is derived for.
const PURPOSE: &[u8] = b"EXPORTER-sangam-second-way";
/// So many calls for second ways differ; a call that was given up is forgotten long before.
pub(super) const NONCES: usize = 8;

/// A broker's call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// Who it says it is.
    pub(super) peer: (BrokerId, Incarnation),
    pub(super) from: SocketAddr,
    pub(super) proof: Proof,
    /// It asks for a second way of its link.
    pub(super) beside: bool,
    /// Of its hello.
    pub(super) nonce: u64,
}

/// What says that a caller is who it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// The network it calls from.
    Network,
    /// The certificate that it has shown: whose key that holds.
    Certificate(Option<BrokerId>),
}

impl Lane {
    /// Whether a call may become a link, or a second way of one: which. `known` is the entry of
    /// the way it comes by, if there is one.
    ///
    /// # Errors
    /// What the caller is told.
    pub(super) fn judge_call(
        &mut self,
        call: &Call,
        known: Option<LinkId>,
    ) -> Result<Option<LinkId>, Refusal> {
        let judged = self.may_link(call, known);
        let judged = judged.and_then(|()| self.judge_beside(call, known));
        if judged == Err(Refusal::Identity) {
            self.counters.dropped(DropReason::LinkIdentity);
            if self.is_proof(call) {
                welcome::tell_twin(call.peer.0, call.from);
            } else if welcome::is_time_to_tell() {
                tracing::warn!(
                    address = %call.from,
                    broker = %call.peer.0,
                    "a neighbour shows no certificate for the broker it says it is"
                );
            }
        }
        judged
    }

    /// Whether the caller may link at all, by what it has proved or where it calls from.
    fn may_link(&self, call: &Call, known: Option<LinkId>) -> Result<(), Refusal> {
        if !self.is_proof(call) || call.peer.0 == self.id || self.aside {
            return Err(Refusal::Identity);
        }
        if self.links.forbidden.contains(&call.peer.0) {
            return Err(Refusal::Forbidden);
        }
        let mut networks = self.accept_links.iter();
        let trusted = known.is_some()
            || self.links.is_neighbour(call.from)
            || networks.any(|network| network.contains(call.from.ip()));
        match call.proof {
            Proof::Network if !trusted => Err(Refusal::Forbidden),
            Proof::Network | Proof::Certificate(_) => Ok(()),
        }
    }

    fn is_proof(&self, call: &Call) -> bool {
        match call.proof {
            Proof::Network => true,
            Proof::Certificate(shown) => shown == Some(call.peer.0),
        }
    }

    /// No link with these from now on.
    pub(super) fn forbid(&mut self, forbidden: BTreeSet<BrokerId>) {
        self.links.forbidden = forbidden;
        // Whom we dial may be allowed again.
        self.stir_ladders();
        for id in self.links.ids() {
            let peer = self.links.get(id).and_then(|link| link.peer);
            if peer.is_some_and(|(peer, _)| self.links.forbidden.contains(&peer)) {
                self.drop_link(id, Refusal::Forbidden);
                self.tell_ladder(id, Rungs::rest);
            }
        }
    }

    /// How a call counts if a link with that broker is up.
    fn judge_beside(
        &mut self,
        call: &Call,
        known: Option<LinkId>,
    ) -> Result<Option<LinkId>, Refusal> {
        let Some(other) = self.links.with_peer(call.peer.0, known) else {
            return Ok(None);
        };
        let proved = call.proof != Proof::Network;
        if proved && !call.beside && self.is_by_datagrams(other) {
            // Neighbours of the release before want it replaced at once.
            self.drop_for_call(other);
            return Ok(None);
        }
        let vouched = !proved
            && call.beside
            && self
                .nonces(other)
                .is_some_and(|all| all.contains(&call.nonce));
        let proved = proved || vouched;
        self.judge_second(other, (call.peer, call.beside, proved))
    }

    /// Nonces that only the two ends of an encrypted link know: whoever calls by one of them for
    /// a second way, where nothing else proves who it is, is the neighbour.
    pub(super) fn nonces(&mut self, id: LinkId) -> Option<[u64; NONCES]> {
        let secret = match &mut self.links.get_mut(id)?.via {
            Via::Datagrams => None,
            Via::Stream(end) => end.framed()?.secret(PURPOSE),
            Via::Quic(way) => self.quic.secret(way.connection?, PURPOSE),
        };
        let secret = secret?;
        let mut nonces = [0; NONCES];
        for (nonce, bytes) in nonces.iter_mut().zip(secret.chunks_exact(8)) {
            *nonce = bytes
                .iter()
                .fold(0, |all, byte| all << 8 | u64::from(*byte));
        }
        Some(nonces)
    }
}
