//! Neighbours that call at a port for clients, by a stream: on their way to the lane, and in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use sangam_broker::{DropReason, LinkId};
use sangam_io::quic::broker_of;
use sangam_io::stream::Framed;
use sangam_io::wake::Waker;
use sangam_link::Verdict;
use sangam_wire::{Capabilities, Frame, Hello, Refusal, Role, Welcome};

use super::Lane;
use super::judge::{Call, Proof};
use super::link::End;
use crate::addresses::Addresses;
use crate::config::Transport;
use crate::welcome::Greeting;

/// Callers that may wait for the lane.
const CALLERS: usize = 64;
/// Those of one address: whoever calls again and again leaves places for others.
const CALLERS_PER_ADDRESS: usize = 8;

/// A neighbour that called at a port for clients.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) framed: Framed,
    pub(crate) hello: Hello,
    pub(crate) address: SocketAddr,
    pub(crate) transport: Transport,
}

/// Where the ports for clients send neighbours.
#[derive(Clone, Debug)]
pub(crate) struct Reception {
    lane: SyncSender<Caller>,
    waker: Waker,
    waiting: Arc<Addresses>,
}

/// Where the lane finds them.
#[derive(Debug)]
pub(crate) struct Callers {
    arrivals: Receiver<Caller>,
    waiting: Arc<Addresses>,
}

/// A reception and the callers who pass it.
pub(crate) fn reception(waker: Waker) -> (Reception, Callers) {
    let (lane, arrivals) = sync_channel(CALLERS);
    let waiting = Arc::new(Addresses::new(CALLERS_PER_ADDRESS));
    let callers = Callers {
        arrivals,
        waiting: Arc::clone(&waiting),
    };
    let reception = Reception {
        lane,
        waker,
        waiting,
    };
    (reception, callers)
}

impl Reception {
    /// Hands a neighbour over to the lane; whether there is a place for it.
    pub(crate) fn hand_over(&self, caller: Caller) -> bool {
        let address = caller.address.ip();
        if !self.waiting.enter(address) {
            return false;
        }
        let taken = self.lane.try_send(caller).is_ok();
        if !taken {
            self.waiting.leave(address);
        }
        self.waker.wake();
        taken
    }

    /// Wakes the lane.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }
}

impl Callers {
    fn next(&self) -> Option<Caller> {
        let caller = self.arrivals.try_recv().ok()?;
        self.waiting.leave(caller.address.ip());
        Some(caller)
    }
}

impl Lane {
    /// Takes the neighbours that called at ports for clients.
    pub(super) fn take_callers(&mut self) {
        for _ in 0..CALLERS {
            let Some(caller) = self.streams.callers().next() else {
                return;
            };
            self.called(caller);
        }
    }

    fn called(&mut self, mut caller: Caller) {
        let answer = match (self.acceptor.judge_stream(&caller.hello), caller.hello.role) {
            (Verdict::Retry(frame) | Verdict::Refuse(frame), _) => frame,
            (_, Role::Client) => refusal(&caller.hello, Refusal::Invalid),
            (_, Role::Broker(peer, life)) => {
                let call = Call {
                    peer: (peer, life),
                    from: caller.address,
                    proof: proof(&caller),
                    beside: caller.hello.capabilities.contains(Capabilities::SECOND_WAY),
                    nonce: caller.hello.nonce,
                };
                match self.judge_call(&call, None) {
                    Ok(_) if !self.links.has_room() => refusal(&caller.hello, Refusal::Full),
                    Ok(beside) => return self.admit_caller(caller, (call, beside)),
                    Err(reason) => refusal(&caller.hello, reason),
                }
            }
        };
        say_last(&mut caller.framed, &answer);
    }

    fn admit_caller(&mut self, caller: Caller, (call, beside): (Call, Option<LinkId>)) {
        let Caller {
            framed,
            hello,
            address,
            transport,
        } = caller;
        let end = self.links.accepted_by_stream(&hello, self.now);
        let number = match &end {
            End::Accepted { session, .. } => session.number(),
            End::Dialing(_) => return,
        };
        // None if it cannot be watched; then the stream just ends, and the neighbour tries again.
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
            ..self.links.greeting.welcome(&hello)
        };
        let mut bytes = Vec::new();
        Frame::Welcome(welcome).encode(&mut bytes);
        self.push_frame(id, &bytes);
        if beside.is_none() {
            self.link_up(id, call.peer, self.links.greeting.datagram_max);
        }
        self.drain_link(id);
    }
}

fn proof(caller: &Caller) -> Proof {
    match caller.transport.is_encrypted() {
        true => Proof::Certificate(caller.framed.certificate().and_then(broker_of)),
        false => Proof::Network,
    }
}

fn refusal(hello: &Hello, reason: Refusal) -> Frame<'static> {
    Frame::Refuse(Greeting::refusal(hello, reason))
}

/// Answers as far as the kernel takes it at once; the stream ends with that.
fn say_last(framed: &mut Framed, frame: &Frame<'_>) {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    if framed.push_bytes(&bytes).is_ok() {
        framed.finish();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use sangam_io::stream::OutLimits;
    use sangam_io::wake::pair;
    use sangam_wire::VERSION;

    use super::*;

    fn caller(listener: &TcpListener, address: [u8; 4]) -> Caller {
        let to = listener.local_addr().expect("it is bound");
        let stream = TcpStream::connect(to).expect("it listens");
        let limits = OutLimits {
            units: 1,
            bytes: 1_000,
        };
        Caller {
            framed: Framed::new(stream, limits),
            hello: Hello {
                role: Role::Client,
                version_min: VERSION,
                version_max: VERSION,
                capabilities: Capabilities::OURS,
                nonce: 1,
                datagram_max: 1_472,
                clock_domain: 1,
                cookie: None,
            },
            address: (address, 1).into(),
            transport: Transport::Tcp,
        }
    }

    #[test]
    fn callers_of_one_address_leave_places_for_others() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (waker, _sleeper) = pair().expect("a descriptor");
        let (reception, callers) = reception(waker);
        let call = |address| reception.hand_over(caller(&listener, address));
        let (one, other) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        assert!((0..CALLERS_PER_ADDRESS).all(|_| call(one)));
        assert!(!call(one) && call(other));
        assert!(callers.next().is_some());
        assert!(call(one), "whoever is taken leaves a place");
        assert!((3..).take(CALLERS).any(|host| !call([10, 0, 0, host])));
        while callers.next().is_some() {}
        assert!(call(one) && call(other));
    }
}
