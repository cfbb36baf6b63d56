//! Clients over connections (TCP, TLS, WebSocket, QUIC): how they come in, and what their sessions
//! want. What carries the units is the port's.

use std::net::IpAddr;
use std::sync::Arc;

use sangam_broker::DropReason;
use sangam_io::pool::PacketMut;
use sangam_io::port::{Context, PeerKey};
use sangam_link::{Acceptor, Input, Output, Session, SessionConfig, Timing, Verdict};
use sangam_model::Time;
use sangam_wire::{Frame, Hello, Message, Refusal, Role, Welcome, is_event};

use super::request;
use crate::addresses::Knock;
use crate::counters::Counters;
use crate::welcome::{Greeting, of_no_version};

/// Where clients over connections come in.
pub(super) struct Desk {
    pub(super) acceptor: Acceptor,
    pub(super) greeting: Greeting,
    pub(super) counters: Arc<Counters>,
}

/// One client, from its connection on.
pub(super) struct Client {
    /// Whence it came; it may have moved since.
    pub(super) address: IpAddr,
    /// Its address has all the clients it may have.
    surplus: bool,
    /// None until the hello.
    session: Option<Session>,
    /// It is no client but a neighbour.
    is_neighbour: bool,
}

/// What a unit comes to.
pub(super) enum Said {
    /// To be answered by these bytes.
    Answer(Vec<u8>),
    /// The same, and that is the last word.
    Refusal(Vec<u8>),
    /// It is a neighbour broker.
    Neighbour(Hello),
    /// Nothing but what [`Desk::next`] tells.
    Heard,
    /// Nothing at all.
    Nothing,
}

/// What a client's session wants next.
pub(super) enum Step {
    /// To be sent to it.
    Transmit(Vec<u8>),
    /// It is over.
    Over(Refusal),
    /// Nothing until then.
    Rest(Option<Time>),
}

impl Desk {
    /// Somebody has connected; `None` if there are far too many of that address.
    pub(super) fn knock(&self, address: IpAddr) -> Option<Client> {
        match self.greeting.addresses.knock(address) {
            Knock::Enter { surplus } => Some(Client {
                address,
                surplus,
                session: None,
                is_neighbour: false,
            }),
            Knock::Leave => {
                self.counters.dropped(DropReason::AddressFull);
                None
            }
        }
    }

    /// A client's connection is gone.
    pub(super) fn leave(&self, client: &Client) {
        self.greeting.addresses.leave(client.address);
        if client.session.is_some() {
            self.greeting.leave();
        }
    }

    /// Takes a unit from a client; its events go into the lane.
    pub(super) fn unit(
        &self,
        client: &mut Client,
        (key, unit): (PeerKey, &[u8]),
        cx: &mut Context<'_>,
    ) -> Said {
        match unit.first().copied().and_then(is_event) {
            Some(true) => self.event(client, (key, unit), cx),
            Some(false) => return self.frame(client, unit, cx.now),
            None => self.counters.dropped(DropReason::Version),
        }
        Said::Nothing
    }

    /// What a client's session wants next; its messages become actions of the shard.
    pub(super) fn next(&self, client: &mut Client, key: PeerKey, cx: &mut Context<'_>) -> Step {
        let Some(session) = &mut client.session else {
            return Step::Rest(None);
        };
        loop {
            match session.poll(cx.now) {
                Some(Output::Transmit(bytes)) => return Step::Transmit(bytes),
                Some(Output::Down(reason)) => return Step::Over(reason),
                // Only broker links are suspected and measured.
                Some(
                    Output::Suspect | Output::Recovered | Output::Sample(_) | Output::Carries(_),
                ) => {}
                Some(Output::Message(message)) => {
                    match request::action(key, message, (client.address, None)) {
                        Some(action) => cx.actions.push(action),
                        None => self.counters.dropped(DropReason::ControlUnexpected),
                    }
                }
                None => return Step::Rest(session.deadline()),
            }
        }
    }

    fn event(&self, client: &mut Client, (key, bytes): (PeerKey, &[u8]), cx: &mut Context<'_>) {
        let Some(session) = &mut client.session else {
            return self.counters.dropped(DropReason::UnknownPeer);
        };
        session.heard(cx.now);
        let Some(packet) = cx.pool.copy(bytes).map(PacketMut::freeze) else {
            return self.counters.dropped(DropReason::PoolExhausted);
        };
        match request::event(key, packet) {
            Ok(action) => cx.actions.push(action),
            Err(error) => self.counters.dropped(error.into()),
        }
    }

    fn frame(&self, client: &mut Client, bytes: &[u8], now: Time) -> Said {
        self.counters.frames.add(1);
        match Frame::decode(bytes) {
            Ok(Frame::Hello(hello)) => self.hello(client, hello, now),
            Ok(frame) => {
                if let Some(session) = &mut client.session {
                    session.handle(now, Input::Frame(&frame));
                }
                Said::Heard
            }
            Err(error) => {
                self.counters.dropped(error.into());
                // Of a hello from another release it is known what to answer.
                let refuse = of_no_version(bytes);
                refuse.map_or(Said::Heard, |refuse| answer(&Frame::Refuse(refuse)))
            }
        }
    }

    fn hello(&self, client: &mut Client, hello: Hello, now: Time) -> Said {
        if client.session.is_some() || client.is_neighbour {
            self.counters.dropped(DropReason::ControlUnexpected);
            return Said::Heard;
        }
        // The connection has proved the address.
        match self.acceptor.judge_stream(&hello) {
            Verdict::Retry(frame) | Verdict::Refuse(frame) => return answer(&frame),
            Verdict::Accept { .. } => {}
        }
        if let Role::Broker(..) = hello.role {
            client.is_neighbour = true;
            return Said::Neighbour(hello);
        }
        if client.surplus {
            self.counters.dropped(DropReason::AddressFull);
            return refusal(&hello, Refusal::Limit);
        }
        if !self.greeting.enter() {
            return refusal(&hello, Refusal::Full);
        }
        let config = SessionConfig {
            number: self.greeting.next_session(),
            timing: Timing::accepting(self.greeting.keepalive()),
            datagram_max: self.greeting.datagram_max,
            reliable: true,
        };
        client.session = Some(Session::new(config, now));
        answer(&Frame::Welcome(Welcome {
            session: config.number,
            datagram_max: config.datagram_max,
            media_port: 0,
            ..self.greeting.welcome(&hello)
        }))
    }
}

impl Client {
    /// Whether it has not been welcomed yet.
    pub(super) fn is_stranger(&self) -> bool {
        self.session.is_none()
    }

    /// Tells its session to carry a message; whether there is one.
    pub(super) fn tell(&mut self, now: Time, message: Message) -> bool {
        self.handle(now, Input::Send(message))
    }

    /// The same to say goodbye.
    pub(super) fn close(&mut self, now: Time) -> bool {
        self.handle(now, Input::Close(Refusal::Leaving))
    }

    /// Messages that it has not acknowledged.
    pub(super) fn unacknowledged(&self) -> usize {
        self.session.as_ref().map_or(0, Session::unacknowledged)
    }

    fn handle(&mut self, now: Time, input: Input<'_>) -> bool {
        let Some(session) = &mut self.session else {
            return false;
        };
        session.handle(now, input);
        true
    }
}

fn refusal(hello: &Hello, reason: Refusal) -> Said {
    answer(&Frame::Refuse(Greeting::refusal(hello, reason)))
}

fn answer(frame: &Frame<'_>) -> Said {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    match frame {
        Frame::Refuse(_) => Said::Refusal(bytes),
        _ => Said::Answer(bytes),
    }
}
