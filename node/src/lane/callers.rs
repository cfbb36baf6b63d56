//! Who may come in as a neighbour by a stream.

use std::net::SocketAddr;

use sangam_broker::DropReason;
use sangam_io::quic::broker_of;
use sangam_io::stream::Framed;
use sangam_link::Verdict;
use sangam_model::{BrokerId, Incarnation};
use sangam_wire::{Capabilities, Frame, Hello, Refusal, Refuse, Role, VERSION, Welcome};

use super::Lane;
use super::link::End;
use super::streams::Caller;
use crate::config::Transport;
use crate::welcome::{self, RETRY_AFTER};

impl Lane {
    /// A neighbour has called at a port for clients.
    pub(super) fn called(&mut self, caller: Caller) {
        let Caller {
            mut framed,
            hello,
            address,
            transport,
        } = caller;
        let answer = match (self.acceptor.judge_stream(&hello), hello.role) {
            (Verdict::Retry(frame) | Verdict::Refuse(frame), _) => frame,
            (_, Role::Client) => refusal(&hello, Refusal::Invalid),
            (_, Role::Broker(peer, life)) => {
                match self.judge_caller((peer, life), (&framed, transport, address)) {
                    Ok(()) => return self.admit_caller((framed, transport, address), &hello),
                    Err(reason) => refusal(&hello, reason),
                }
            }
        };
        say_last(&mut framed, &answer);
    }

    /// Whether a broker may link at all, by what it has proved or where it calls from.
    fn judge_caller(
        &mut self,
        (peer, _): (BrokerId, Incarnation),
        (framed, transport, address): (&Framed, Transport, SocketAddr),
    ) -> Result<(), Refusal> {
        if transport.is_encrypted() && framed.certificate().and_then(broker_of) != Some(peer) {
            if welcome::is_time_to_tell() {
                tracing::warn!(
                    %address,
                    broker = %peer,
                    "a neighbour shows no certificate for the broker it says it is"
                );
            }
            self.counters.dropped(DropReason::LinkIdentity);
            return Err(Refusal::Identity);
        }
        if peer == self.id || self.aside {
            welcome::tell_twin(peer, address);
            return Err(Refusal::Identity);
        }
        let mut networks = self.accept_links.iter();
        if !transport.is_encrypted() && !networks.any(|one| one.contains(address.ip())) {
            return Err(Refusal::Forbidden);
        }
        Ok(())
    }

    fn admit_caller(
        &mut self,
        (mut framed, transport, address): (Framed, Transport, SocketAddr),
        hello: &Hello,
    ) {
        let Role::Broker(peer, life) = hello.role else {
            return;
        };
        let wants = hello.capabilities.contains(Capabilities::SECOND_WAY);
        let judged = match self.links.with_peer(peer, None) {
            // Through TLS nobody came here without a proof.
            Some(other) => {
                self.judge_second(other, ((peer, life), wants, transport.is_encrypted()))
            }
            None => Ok(None),
        };
        let beside = match judged {
            Ok(beside) => beside,
            Err(reason) => {
                if reason == Refusal::Identity {
                    welcome::tell_twin(peer, address);
                }
                return say_last(&mut framed, &refusal(hello, reason));
            }
        };
        let end = self.links.accepted_over(hello, self.now);
        let number = match &end {
            End::Accepted { session, .. } => session.number(),
            End::Dialing(_) => return,
        };
        // None if there are too many; then the stream just ends, and the neighbour tries again.
        let Some(id) = self.place_stream((framed, transport, address), end) else {
            return self.counters.dropped(DropReason::LinkDown);
        };
        if let Some(of) = beside {
            self.links.called_beside(id, of, self.now);
        }
        let welcome = Welcome {
            capabilities: self.links.capabilities(id),
            session: number,
            datagram_max: self.links.greeting.datagram_max,
            keepalive_ms: 100,
            media_port: 0,
            ..self.links.greeting.welcome(hello)
        };
        let mut bytes = Vec::new();
        Frame::Welcome(welcome).encode(&mut bytes);
        self.push_frame(id, &bytes);
        if beside.is_none() {
            self.link_up(id, (peer, life), self.links.greeting.datagram_max);
        }
        self.drain_link(id);
    }
}

fn refusal(hello: &Hello, reason: Refusal) -> Frame<'static> {
    Frame::Refuse(Refuse {
        nonce: hello.nonce,
        reason,
        retry_after_ms: RETRY_AFTER.as_millis() as u32,
        speaks: VERSION,
    })
}

/// Answers as far as the kernel takes it at once; the stream ends with that.
fn say_last(framed: &mut Framed, frame: &Frame<'_>) {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    if framed.push_bytes(&bytes).is_ok() {
        framed.finish();
    }
}
