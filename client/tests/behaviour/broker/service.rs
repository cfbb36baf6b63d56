//! What the broker does for those it has welcomed.

use sangam_io::door::Item;
use sangam_io::udp::{Address, SendReport};
use sangam_link::{Input, Output, fragment};
use sangam_model::limits::EVENT_LEN_MAX;
use sangam_model::{BrokerId, Class, Incarnation, StreamId, Time, Topic};
use sangam_wire::{Flags, Frame, Header, Message, Refusal};

use super::{Broker, Peer, Stream, Way};

impl Broker {
    pub(super) fn serve_doors(&mut self) {
        for peer in 0..self.peers.len() {
            while let Some(Peer {
                way: Way::Door(door),
                ..
            }) = &mut self.peers[peer]
            {
                match door.recv() {
                    Some(Item::Message(message)) => self.message(peer, message),
                    Some(Item::Event(packet)) => self.event(peer, &packet),
                    Some(Item::State(_)) => {}
                    None if door.is_closed() => {
                        self.note(|seen| seen.goodbyes += 1);
                        self.leave(peer);
                    }
                    None => break,
                }
            }
        }
    }

    pub(super) fn unit(&mut self, from: usize, bytes: &[u8]) {
        let Some(peer) = &mut self.peers[from] else {
            return;
        };
        let Some(session) = &mut peer.session else {
            return;
        };
        let now = sangam_io::clock::now();
        if let Ok(frame) = Frame::decode(bytes) {
            session.handle(now, Input::Frame(&frame));
            return self.drain(from);
        }
        session.heard(now);
        let Ok(header) = Header::decode(bytes) else {
            return;
        };
        if !header.flags.contains(Flags::FRAGMENT) {
            return self.event(from, bytes);
        }
        let mut whole = Vec::new();
        if peer.joiner.push(now, bytes, &mut whole) == Ok(true) {
            self.event(from, &whole);
        }
    }

    pub(super) fn drain(&mut self, at: usize) {
        loop {
            let now: Time = sangam_io::clock::now();
            let Some(peer) = &mut self.peers[at] else {
                return;
            };
            match peer.session.as_mut().and_then(|session| session.poll(now)) {
                Some(Output::Transmit(bytes)) => self.transmit(at, &bytes),
                Some(Output::Message(message)) => self.message(at, message),
                Some(
                    Output::Suspect | Output::Recovered | Output::Sample(_) | Output::Carries(_),
                ) => {}
                Some(Output::Down(reason)) => {
                    let goodbye = usize::from(reason == Refusal::Goodbye);
                    self.note(|seen| seen.goodbyes += goodbye);
                    self.leave(at);
                }
                None => return,
            }
        }
    }

    fn message(&mut self, from: usize, message: Message) {
        let Some(peer) = &mut self.peers[from] else {
            return;
        };
        match message {
            Message::Subscribe { request, .. } | Message::Publish { request, .. }
                if peer.filters.len() >= self.conduct.requests_max =>
            {
                let reason = Refusal::Limit;
                self.tell(from, Message::Refused { request, reason });
            }
            Message::Subscribe { request, filter } => {
                peer.filters.push(filter.clone());
                self.note(|seen| seen.filters += 1);
                self.tell(from, Message::Accepted { request });
                let streams = self
                    .streams
                    .iter()
                    .filter(|known| filter.matches(&known.topic));
                let announces: Vec<_> = streams.map(Stream::announce).collect();
                announces
                    .into_iter()
                    .for_each(|message| self.tell(from, message));
            }
            Message::Unsubscribe { request, filter } => {
                peer.filters.retain(|known| *known != filter);
                self.note(|seen| seen.filters -= 1);
                self.tell(from, Message::Accepted { request });
            }
            Message::Publish {
                request,
                topic,
                media,
            } => {
                let incarnation = Incarnation(self.conduct.incarnation);
                let number = self.streams.len() as u32 + 1;
                let id = StreamId::new(BrokerId(7), incarnation, number);
                let stream = Stream {
                    id,
                    topic,
                    media,
                    owner: from,
                };
                self.tell(
                    from,
                    Message::Published {
                        request,
                        stream: id,
                    },
                );
                self.tell_all(&stream.topic, &stream.announce());
                self.streams.push(stream);
            }
            Message::Unpublish { stream } => {
                if let Some(known) = self.streams.iter().find(|known| known.id == stream) {
                    let topic = known.topic.clone();
                    self.tell_all(&topic, &Message::Retire { stream });
                }
            }
            Message::Authenticate { request, token } => self.judge(from, request, &token),
            other => panic!("clients do not say {other:?}"),
        }
    }

    fn judge(&mut self, from: usize, request: u32, token: &str) {
        let good = self.conduct.token.is_none_or(|good| good == token);
        let reason = Refusal::Unauthenticated;
        self.tell(
            from,
            match good {
                true => Message::Accepted { request },
                false => Message::Refused { request, reason },
            },
        );
    }

    fn event(&mut self, from: usize, bytes: &[u8]) {
        let Ok(header) = Header::decode(bytes) else {
            return;
        };
        self.note(|seen| seen.headers.push(header));
        let Some(stream) = self.streams.iter().find(|known| known.id == header.stream) else {
            return;
        };
        if header.class == Class::Feedback {
            return self.deliver(stream.owner, bytes);
        }
        assert_eq!(stream.owner, from, "only its owner sends a stream");
        let topic = stream.topic.clone();
        for peer in self.wanting(&topic) {
            self.deliver(peer, bytes);
        }
    }

    fn wanting(&self, topic: &Topic) -> Vec<usize> {
        let wants = |peer: &Option<Peer>| {
            peer.as_ref()
                .is_some_and(|peer| peer.filters.iter().any(|one| one.matches(topic)))
        };
        (0..self.peers.len())
            .filter(|peer| wants(&self.peers[*peer]))
            .collect()
    }

    fn tell_all(&mut self, topic: &Topic, message: &Message) {
        for peer in self.wanting(topic) {
            self.tell(peer, message.clone());
        }
    }

    fn tell(&mut self, to: usize, message: Message) {
        let now = sangam_io::clock::now();
        match self.peers[to]
            .as_mut()
            .and_then(|peer| peer.session.as_mut())
        {
            Some(session) => session.handle(now, Input::Send(message)),
            None => self.say(to, Item::Message(message)),
        }
    }

    pub(super) fn say(&mut self, to: usize, item: Item) {
        if let Some(Peer {
            way: Way::Door(door),
            ..
        }) = &mut self.peers[to]
        {
            // A full door loses items, as a broker's would.
            let _ = door.send(item);
        }
    }

    fn deliver(&mut self, to: usize, event: &[u8]) {
        let packet = self.pool.copy(event).expect("buffers enough").freeze();
        self.drain(to);
        let Some(peer) = &self.peers[to] else { return };
        match &peer.way {
            Way::Door(_) => self.say(to, Item::Event(packet)),
            Way::Tcp(_) => self.transmit(to, &packet),
            Way::Udp(_) => {
                let datagram_max = usize::from(self.conduct.datagram_max);
                let mut pieces = fragment(event, datagram_max).expect("a whole event");
                let mut out = vec![0; EVENT_LEN_MAX + 64];
                while let Some(len) = pieces.write_next(&mut out) {
                    self.transmit(to, &out[..len.expect("room enough")]);
                }
            }
        }
    }

    pub(super) fn transmit(&mut self, to: usize, bytes: &[u8]) {
        match &mut self.peers[to] {
            Some(Peer {
                way: Way::Udp(at), ..
            }) => {
                let to = Address::from(*at);
                let mut report = SendReport::default();
                self.sent
                    .send(&self.sockets.shard, [(to, bytes)], &mut report);
            }
            Some(Peer {
                way: Way::Tcp(framed),
                ..
            }) => {
                framed.push_bytes(bytes).expect("the client reads");
                // What is left over goes out with the next unit.
                let _ = framed.write();
            }
            _ => {}
        }
    }

    pub(super) fn leave(&mut self, peer: usize) {
        if let Some(Peer {
            way: Way::Tcp(framed),
            ..
        }) = &self.peers[peer]
        {
            self.poller.remove(framed.fd()).expect("it was watched");
        }
        if let Some(gone) = self.peers[peer].take() {
            self.note(|seen| {
                seen.peers -= 1;
                seen.filters -= gone.filters.len();
            });
        }
    }
}

impl Stream {
    fn announce(&self) -> Message {
        let (topic, media) = (self.topic.clone(), self.media.clone());
        Message::Announce {
            stream: self.id,
            topic,
            media,
        }
    }
}
