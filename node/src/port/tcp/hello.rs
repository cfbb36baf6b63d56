//! Who comes in by a stream: a client, or a neighbour for the lane.

use sangam_broker::DropReason;
use sangam_io::port::{Context, PeerKey};
use sangam_io::stream::Framed;
use sangam_link::{Session, SessionConfig, Timing, Verdict};
use sangam_wire::{Frame, Hello, Refusal, Role, Welcome, WireError};

use super::TcpPort;
use crate::welcome::{Greeting, of_no_version};

impl TcpPort {
    /// A frame that cannot be read; of a hello from another release it is known what to answer.
    pub(super) fn unreadable(&mut self, key: PeerKey, bytes: &[u8], error: WireError) {
        self.counters.dropped(error.into());
        if let (Some(refuse), Some(peer)) = (of_no_version(bytes), self.peers.get_mut(key)) {
            peer.answer(&Frame::Refuse(refuse));
        }
    }

    pub(super) fn hello(&mut self, key: PeerKey, hello: &Hello, cx: &mut Context<'_>) {
        let verdict = self.acceptor.judge_stream(hello);
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        if peer.session.is_some() || peer.neighbour.is_some() {
            return self.counters.dropped(DropReason::ControlUnexpected);
        }
        if let (Verdict::Accept { .. }, Role::Broker(..)) = (&verdict, hello.role) {
            peer.neighbour = Some(hello.clone());
            return;
        }
        let frame = match verdict {
            Verdict::Retry(frame) | Verdict::Refuse(frame) => frame,
            Verdict::Accept { .. } if peer.surplus => {
                self.counters.dropped(DropReason::AddressFull);
                Frame::Refuse(Greeting::no_room(hello, Refusal::Limit))
            }
            Verdict::Accept { .. } if !self.greeting.enter() => {
                Frame::Refuse(Greeting::no_room(hello, Refusal::Full))
            }
            Verdict::Accept { .. } => {
                let config = SessionConfig {
                    number: self.greeting.next_session(),
                    timing: Timing::accepting(self.greeting.keepalive()),
                    datagram_max: self.greeting.datagram_max,
                    reliable: true,
                };
                peer.session = Some(Session::new(config, cx.now));
                Frame::Welcome(Welcome {
                    session: config.number,
                    datagram_max: config.datagram_max,
                    media_port: 0,
                    ..self.greeting.welcome(hello)
                })
            }
        };
        peer.answer(&frame);
    }

    /// Neighbours are the lane's.
    pub(super) fn hand_over(
        &mut self,
        key: PeerKey,
        framed: Framed,
        hello: Hello,
        cx: &mut Context<'_>,
    ) {
        let address = self.peers.get(key).map(|peer| peer.address);
        let removed = cx.poller.remove(framed.fd());
        self.remove(key, cx);
        let taken = removed.is_ok()
            && address.is_some_and(|address| self.entrance.hand_over(framed, (hello, address)));
        if !taken {
            self.counters.dropped(DropReason::FloodHello);
        }
    }
}
