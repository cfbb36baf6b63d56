//! Datagrams from outside: whose they are, and which shard it is that owns the peer.

use std::net::SocketAddr;

use sangam_io::pool::PacketMut;
use sangam_io::port::{Context, PeerKey};
use sangam_model::Time;
use str0m::net::{DatagramRecv, Protocol, Receive};

use crate::credentials::{self, Ufrag};
use crate::early::Flight;
use crate::port::WebRtcPort;
use crate::table::{Home, Note};

/// Calls before others have their turn; the poller tells when there is more.
const BATCHES_PER_TURN: usize = 8;
/// What follows on RTCP, in bytes: an index and a tag of 80 bits (RFC 3711 section 3.4), or of 128
/// (RFC 7714 section 9.2).
const SRTCP_TRAILERS: [usize; 2] = [4 + 10, 4 + 16];

/// A datagram, or a unit of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inbound<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) from: SocketAddr,
    /// The candidate of ours that it was sent to.
    pub(crate) to: SocketAddr,
    pub(crate) proto: Protocol,
}

impl<'a> Inbound<'a> {
    /// In the library's words; `None` if it is neither STUN, DTLS, RTP nor RTCP.
    pub(crate) fn receive(&self) -> Option<Receive<'a>> {
        Some(Receive {
            proto: self.proto,
            source: self.from,
            destination: self.to,
            contents: DatagramRecv::try_from(self.bytes).ok()?,
        })
    }

    /// Whether it is transport-wide feedback and nothing else: RTPFB of format 15
    /// (draft-holmer-rmcat-transport-wide-cc-extensions-01 section 3.1). The first eight bytes of
    /// RTCP are not encrypted (RFC 3711 section 3.4).
    pub(crate) fn is_path_feedback(&self) -> bool {
        const PADDING: u8 = 0x20;
        let [first, kind, high, low, ..] = *self.bytes else {
            return false;
        };
        let length = 4 * (usize::from(u16::from_be_bytes([high, low])) + 1);
        let trailer = self.bytes.len().checked_sub(length);
        (first & !PADDING, kind) == (0x8f, 205)
            && trailer.is_some_and(|bytes| SRTCP_TRAILERS.contains(&bytes))
    }

    /// Our user fragment, if it is a STUN request.
    pub(crate) fn addressee(&self) -> Option<Ufrag> {
        // RFC 7983 section 7: the first byte tells the kind.
        let stun = matches!(self.bytes.first(), Some(0..=3));
        stun.then(|| credentials::addressee(self.bytes)).flatten()
    }
}

impl WebRtcPort {
    pub(crate) fn receive(&mut self, socket: usize, cx: &mut Context<'_>) {
        let Some(mut batch) = self.batch.take() else {
            return;
        };
        for _ in 0..BATCHES_PER_TURN {
            let Some(source) = self.parts.sockets.get(socket) else {
                break;
            };
            let bound = source.local_addr();
            let got = match source.recv(&mut batch) {
                Ok(got) => got,
                Err(error) => {
                    tracing::warn!(%error, "receiving from WebRTC peers failed");
                    break;
                }
            };
            for datagram in batch.datagrams() {
                let inbound = Inbound {
                    bytes: datagram.bytes,
                    from: datagram.source,
                    to: self.parts.places.told(bound, datagram.local),
                    proto: Protocol::Udp,
                };
                self.datagram(inbound, cx);
            }
            if got < batch.capacity() {
                break;
            }
        }
        self.batch = Some(batch);
    }

    fn datagram(&mut self, inbound: Inbound<'_>, cx: &mut Context<'_>) {
        if !matches!(inbound.bytes.first(), Some(0..=3 | 20..=63 | 128..=191)) {
            return self.parts.counts.malformed.one();
        }
        let own = self.parts.number;
        if let Some(ufrag) = inbound.addressee() {
            return match credentials::shard_of(&ufrag) {
                Some(shard) if shard == own => self.named(ufrag, inbound, own, cx),
                Some(shard) => self.forward(shard, inbound, cx),
                None => self.parts.counts.unknown_name.one(),
            };
        }
        match self.table.home(inbound.from) {
            Some(Home::Here(key)) => self.drive(key, Some(inbound), cx),
            Some(Home::Shard(shard)) => self.forward(shard, inbound, cx),
            // RFC 7983 section 7: DTLS.
            None if matches!(inbound.bytes.first(), Some(20..=63)) => self.wait(inbound, cx),
            None => self.parts.counts.strangers.one(),
        }
    }

    /// Keeps a datagram until a shard says that it is for a peer of its own.
    fn wait(&mut self, inbound: Inbound<'_>, cx: &mut Context<'_>) {
        if self.parts.group.len() < 2 {
            return self.parts.counts.strangers.one();
        }
        let Inbound { from, to, .. } = inbound;
        let Some(packet) = cx.pool.copy(inbound.bytes).map(PacketMut::freeze) else {
            return self.parts.counts.overflow.one();
        };
        let gone = self.early.keep(cx.now, Flight { from, to, packet });
        self.parts.counts.strangers.add(gone);
    }

    /// Hands a datagram to the shard that owns its peer.
    fn forward(&mut self, shard: u16, inbound: Inbound<'_>, cx: &mut Context<'_>) {
        let Inbound { from, to, .. } = inbound;
        match cx.pool.copy(inbound.bytes).map(PacketMut::freeze) {
            Some(packet) => self.hand_over(shard, Flight { from, to, packet }),
            None => self.parts.counts.overflow.one(),
        }
    }

    fn hand_over(&mut self, shard: u16, Flight { from, to, packet }: Flight) {
        let note = Note::Datagram {
            packet,
            from,
            to,
            via: self.parts.number,
        };
        match self.parts.group.tell(shard, note) {
            true => self.parts.counts.forwarded.one(),
            false => self.parts.counts.overflow.one(),
        }
    }

    /// A STUN request to a peer of this shard, which `via` received. Only if it is signed does its
    /// address count.
    fn named(&mut self, ufrag: Ufrag, inbound: Inbound<'_>, via: u16, cx: &mut Context<'_>) {
        if let Some(key) = self.signed(ufrag, inbound, cx.now) {
            self.learn(key, (inbound.from, via), cx.now);
            self.drive(key, Some(inbound), cx);
        }
    }

    /// The peer that has signed a request, if it has.
    pub(crate) fn signed(&self, ufrag: Ufrag, inbound: Inbound<'_>, now: Time) -> Option<PeerKey> {
        let signed = || {
            let key = self.by_ufrag.get(&ufrag).copied()?;
            let peer = self.peers.get(key)?;
            let input = str0m::Input::Receive(self.clock.instant(now), inbound.receive()?);
            peer.accepts(&input).then_some(key)
        };
        let key = signed();
        if key.is_none() {
            self.parts.counts.unknown_name.one();
        }
        key
    }

    fn learn(&mut self, key: PeerKey, (from, via): (SocketAddr, u16), now: Time) {
        if !self.table.claim(from, Home::Here(key), now) {
            return self.parts.counts.addresses_full.one();
        }
        if via != self.parts.number {
            let shard = self.parts.number;
            self.parts.group.tell(via, Note::Owner { from, shard });
        }
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        if let Some((old, via)) = peer.heard_at(from, via) {
            self.parts.counts.addresses_full.one();
            self.forget(old, via);
        }
    }

    /// An address is nobody's any more.
    pub(crate) fn forget(&mut self, address: SocketAddr, via: u16) {
        self.table.forget(address);
        if via != self.parts.number {
            self.parts.group.tell(via, Note::Gone(address));
        }
    }

    /// What another shard says.
    pub(crate) fn note(&mut self, note: Note, cx: &mut Context<'_>) {
        match note {
            Note::Datagram {
                packet,
                from,
                to,
                via,
            } => {
                let inbound = Inbound {
                    bytes: &packet,
                    from,
                    to,
                    proto: Protocol::Udp,
                };
                match (inbound.addressee(), self.table.home(from)) {
                    (Some(ufrag), _) => self.named(ufrag, inbound, via, cx),
                    (None, Some(Home::Here(key))) => self.drive(key, Some(inbound), cx),
                    (None, _) => self.parts.counts.strangers.one(),
                }
            }
            Note::Owner { from, shard } => {
                if !self.table.claim(from, Home::Shard(shard), cx.now) {
                    return self.parts.counts.addresses_full.one();
                }
                let (theirs, gone) = self.early.take(cx.now, from);
                self.parts.counts.strangers.add(gone);
                for flight in theirs {
                    self.hand_over(shard, flight);
                }
            }
            Note::Gone(address) => self.table.forget(address),
            Note::Connection(moved) => self.adopt(*moved, cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feedback_about_the_path_is_known_and_nothing_that_comes_with_it_is_lost() {
        let inbound = |bytes: &[u8]| {
            let address = SocketAddr::from(([127, 0, 0, 1], 1));
            let inbound = Inbound {
                bytes,
                from: address,
                to: address,
                proto: Protocol::Udp,
            };
            inbound.is_path_feedback()
        };
        // 24 bytes of feedback, as the length says, with either trailer.
        let mut packet = vec![0x8f, 205, 0, 5];
        packet.resize(24 + 14, 0);
        assert!(inbound(&packet));
        packet.resize(24 + 20, 0);
        assert!(inbound(&packet));
        // Another packet behind it, a NACK, a receiver report, and rubbish.
        packet.resize(24 + 20 + 16, 0);
        assert!(!inbound(&packet));
        packet.resize(24 + 20, 0);
        packet[0] = 0x81;
        assert!(!inbound(&packet));
        packet[..2].copy_from_slice(&[0x8f, 201]);
        assert!(!inbound(&packet));
        assert!(!inbound(&[0x8f, 205, 0xff, 0xff, 0, 0]));
        assert!(!inbound(&[0x8f, 205]));
    }
}
