//! What peers, control and the lane ask of a shard.

use std::net::SocketAddr;

use sangam_broker::{DropReason, Gate, Owner};
use sangam_io::clock;
use sangam_io::pool::Packet;
use sangam_io::port::{Action, Delivery, PeerKey};
use sangam_model::{Filter, StreamId, Time, Topic, limits};
use sangam_wire::feedback::{Feedback, Nack};
use sangam_wire::{Event, Header, Message, Refusal};

use super::Shard;
use super::announcements::ROUND;
use super::audience::{Subscribed, Subscriber};
use crate::command::{ControlEvent, ShardCommand, Wish};
use crate::feedback;

/// Places in a peer's control queue that announcements leave to answers.
const RESERVE: usize = 256;

impl Shard {
    /// Carries out what the port asked for, and what follows from it.
    pub(super) fn perform(&mut self, port: usize) {
        // Telling a peer something may queue more actions of the same port; they are taken on.
        while !self.actions.is_empty() {
            let mut actions = std::mem::take(&mut self.actions);
            for action in actions.drain(..) {
                self.perform_one(port as u16, action);
            }
            if self.actions.is_empty() {
                // Give the room back, so that the next round allocates nothing.
                self.actions = actions;
            }
        }
        self.follow_removals();
    }

    /// Lets deliveries under way follow changes of the audience.
    pub(super) fn follow_removals(&mut self) {
        for removal in self.audience.removals() {
            self.jobs.iter_mut().for_each(|job| job.follow(removal));
        }
    }

    pub(super) fn perform_one(&mut self, port: u16, action: Action) {
        let at = |peer: PeerKey| Subscriber { port, peer };
        let Some(action) = self.admit(port, action) else {
            return;
        };
        match action {
            Action::Subscribe {
                peer,
                request,
                filter,
            } => {
                self.subscribe(at(peer), request, &filter);
            }
            Action::Unsubscribe {
                peer,
                request,
                filter,
            } => {
                self.unsubscribe(at(peer), request, filter);
            }
            Action::Publish {
                peer,
                request,
                topic,
                media,
                source,
            } => {
                let owner = self.owner(at(peer));
                if topic.is_system() && !self.may_speak_for_the_system(at(peer), &topic, source) {
                    return self.refuse(at(peer), request, DropReason::Forbidden);
                }
                if self.audience.owned_by(at(peer)).len() >= limits::STREAMS_PER_CLIENT {
                    return self.refuse(at(peer), request, DropReason::StreamsFull);
                }
                if !self.allowances.take(at(peer), 1, clock::now()) {
                    return self.refuse(at(peer), request, DropReason::FloodControl);
                }
                let wish = Wish {
                    owner,
                    request,
                    topic,
                    media,
                    source,
                    gated: self.is_gated(at(peer)),
                };
                self.control.send(ControlEvent::Publish(Box::new(wish)));
            }
            Action::Unpublish { peer, stream } => {
                if self.owns(at(peer), stream) {
                    let owner = self.owner(at(peer));
                    self.control.send(ControlEvent::Unpublish { owner, stream });
                }
            }
            Action::Authenticate {
                peer,
                request,
                token,
                address,
            } => self.authenticate(at(peer), request, (token, address)),
            Action::Ingest { peer, packet } => self.ingest(at(peer), packet),
            Action::Feedback { peer, packet } => self.feedback(at(peer), packet),
            Action::Reliable { peer, message } => self.reliable(at(peer), message),
            Action::Gone { peer } => self.forget(at(peer)),
        }
    }

    fn subscribe(&mut self, who: Subscriber, request: u32, filter: &Filter) {
        if !self.allowances.take(who, 1, clock::now()) {
            return self.refuse(who, request, DropReason::FloodControl);
        }
        let mut added = std::mem::take(&mut self.added);
        added.clear();
        match self.audience.subscribe(who, filter, &mut added) {
            Subscribed::Full => self.refuse(who, request, DropReason::FiltersFull),
            Subscribed::Yes => {
                self.control.send(ControlEvent::FilterAdded {
                    shard: self.number,
                    filter: filter.clone(),
                    by: who,
                    request,
                });
                self.tell(who, Message::Accepted { request });
                for stream in &added {
                    self.announcements.add(who, *stream);
                }
                self.make_announcements();
            }
        }
        self.added = added;
    }

    fn unsubscribe(&mut self, who: Subscriber, request: u32, filter: Filter) {
        let Some(lost) = self.release(who, filter) else {
            let reason = Refusal::Invalid;
            return self.tell(who, Message::Refused { request, reason });
        };
        self.tell(who, Message::Accepted { request });
        for stream in lost {
            self.tell(who, Message::Retire { stream });
        }
    }

    /// Takes a subscription back that was accepted: the broker has no room for it.
    fn unasked(&mut self, who: Subscriber, request: u32, filter: Filter) {
        self.counters.dropped(DropReason::FiltersFull);
        let lost = self.release(who, filter);
        let reason = Refusal::Full;
        self.tell(who, Message::Refused { request, reason });
        for stream in lost.into_iter().flatten() {
            self.tell(who, Message::Retire { stream });
        }
    }

    /// Takes a filter from a subscriber: the streams it gets no more; `None` if it had no such
    /// filter.
    pub(super) fn release(&mut self, who: Subscriber, filter: Filter) -> Option<Vec<StreamId>> {
        let mut lost = Vec::new();
        if self.audience.unsubscribe(who, &filter, &mut lost)? {
            self.control.send(ControlEvent::FilterRemoved {
                shard: self.number,
                filter,
            });
        }
        Some(lost)
    }

    pub(super) fn refuse(&mut self, who: Subscriber, request: u32, limit: DropReason) {
        self.counters.dropped(limit);
        let reason = match limit {
            DropReason::Forbidden => Refusal::Forbidden,
            _ => Refusal::Limit,
        };
        self.tell(who, Message::Refused { request, reason });
    }

    /// The program's own parts speak for it. Aggregation nodes are programs of their own: they may
    /// pass reports on, and plan, from where brokers may link, as those could forge reports and
    /// the weights of links anyway.
    fn may_speak_for_the_system(
        &self,
        who: Subscriber,
        topic: &Topic,
        source: Option<SocketAddr>,
    ) -> bool {
        let theirs = ["$sangam/aggregate/", "$sangam/plan/"];
        let aggregate = theirs.iter().any(|above| topic.as_str().starts_with(above));
        let may_link = |from: SocketAddr| self.trusted.iter().any(|net| net.contains(from.ip()));
        aggregate && source.is_some_and(may_link)
            || self
                .ports
                .get(usize::from(who.port))
                .is_some_and(|port| port.is_system(who.peer))
    }

    pub(super) fn owner(&self, who: Subscriber) -> Owner {
        Owner {
            shard: self.number,
            peer: who.into(),
        }
    }

    fn owns(&mut self, who: Subscriber, stream: StreamId) -> bool {
        let owner = |shard: &Self| {
            shard
                .audience
                .stream(stream)
                .and_then(|stream| stream.owner)
        };
        if owner(self).is_none() {
            self.take_commands();
        }
        let owns = owner(self) == Some(who);
        if !owns {
            self.counters.dropped(DropReason::NotOwner);
        }
        owns
    }

    fn ingest(&mut self, who: Subscriber, packet: Packet) {
        let Ok(header) = packet.header() else {
            return self.counters.dropped(DropReason::Malformed);
        };
        if self.owns(who, header.stream) {
            self.push_to_lane(packet);
        }
    }

    fn push_to_lane(&mut self, packet: Packet) {
        match self.to_lane.push(packet) {
            Ok(()) => self.lane.wake(),
            Err(_) => self.counters.dropped(DropReason::IngestRingFull),
        }
    }

    fn feedback(&mut self, who: Subscriber, packet: Packet) {
        let Ok(event) = Event::decode(&packet) else {
            return self.counters.dropped(DropReason::Malformed);
        };
        let Ok(mut feedback) = Feedback::decode(event.payload) else {
            return self.counters.dropped(DropReason::Malformed);
        };
        let stream = event.header.stream;
        if !self.audience.receives(who, stream) {
            return self.counters.dropped(DropReason::UnknownStream);
        }
        if let Feedback::Nack(nack) = feedback {
            let Some(rest) = self.repair(who, stream, nack) else {
                return;
            };
            feedback = Feedback::Nack(rest);
        }
        let now = clock::now();
        match self.gate.handle(now, &event.header, &feedback) {
            Gate::Passed => {}
            Gate::Merged => self.counters.dropped(DropReason::FeedbackMerged),
            Gate::Full => self.counters.dropped(DropReason::FeedbackFull),
        }
        self.pass_feedback(now);
    }

    /// Asks the publisher for a key frame, with which a shed stream goes on.
    pub(super) fn request_key_frame(&mut self, header: Header) {
        let now = clock::now();
        self.gate.handle(now, &header, &Feedback::KeyFrame);
        self.pass_feedback(now);
    }

    /// Passes on what the gate has let through.
    pub(super) fn pass_feedback(&mut self, now: Time) {
        self.gate.expire(now);
        while let Some(output) = self.gate.poll() {
            match feedback::event(&output, &self.pool) {
                Some(packet) => self.push_to_lane(packet),
                None => self.counters.dropped(DropReason::PoolExhausted),
            }
        }
    }

    /// Resends what the cache holds; returns what it does not.
    fn repair(&mut self, who: Subscriber, stream: StreamId, nack: Nack) -> Option<Nack> {
        let cache = &self.cache;
        let (found, missing) = feedback::split(nack, |seq| cache.get(stream, seq));
        for packet in found {
            let mut done = Delivery::default();
            self.with_port(usize::from(who.port), |port, cx| {
                done = port.repair(&packet, who.peer, cx);
            });
            // It may have sent what was gathered before, too.
            self.counters.delivery(&done);
            match done.peers {
                0 => self.counters.dropped(DropReason::SendBufferFull),
                _ if done.peer_full > 0 => {}
                _ => self.counters.repaired.add(1),
            }
        }
        missing
    }

    fn forget(&mut self, who: Subscriber) {
        self.control.send(ControlEvent::OwnerGone(self.owner(who)));
        self.announcements.forget(who);
        self.allowances.forget(who);
        self.end_reliable(who);
        self.access.forget(who);
        for filter in self.audience.leave(who) {
            self.control.send(ControlEvent::FilterRemoved {
                shard: self.number,
                filter,
            });
        }
    }

    /// Reads all commands that wait.
    pub(super) fn take_commands(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                ShardCommand::Added {
                    id,
                    topic,
                    media,
                    owner,
                } => {
                    let here = owner.filter(|owner| owner.shard == self.number);
                    let owner = here.map(|owner| owner.peer.into());
                    let outlived = owner.filter(|owner| !self.keeps(*owner, &topic));
                    self.audience.add_stream(id, topic, media, owner);
                    if let Some(owner) = outlived {
                        // The grant ended while control made the stream.
                        self.end_publication(owner, id);
                    }
                    for who in self.audience.receivers(id) {
                        self.announcements.add(who, id);
                    }
                    self.make_announcements();
                }
                ShardCommand::Removed(id) => self.remove_stream(id),
                ShardCommand::Tell { to, message } if self.may_tell(to, &message) => {
                    self.tell(to, message);
                }
                ShardCommand::Tell { .. } => self.counters.dropped(DropReason::ReliableFull),
                ShardCommand::Unasked {
                    to,
                    request,
                    filter,
                } => self.unasked(to, request, filter),
                ShardCommand::Judged {
                    to,
                    ticket,
                    verdict,
                } => self.judged(to, ticket, verdict),
                ShardCommand::Drain => self.send_away(),
                ShardCommand::Stop => self.stopping = true,
            }
        }
    }

    /// Tells all clients that this broker is about to leave; who knows another one goes there.
    fn send_away(&mut self) {
        for port in 0..self.ports.len() {
            for peer in self.ports[port].clients() {
                let port = port as u16;
                self.tell(Subscriber { port, peer }, Message::LEAVING);
            }
        }
    }

    fn remove_stream(&mut self, id: StreamId) {
        let receivers = self.audience.receivers(id);
        if self.audience.remove_stream(id).is_some() {
            for who in receivers {
                self.tell(who, Message::Retire { stream: id });
            }
        }
    }

    /// Announces streams to those who have room for it; the others stay in line.
    pub(super) fn make_announcements(&mut self) {
        for _ in 0..self.announcements.len().min(ROUND) {
            let Some((who, id)) = self.announcements.next() else {
                return;
            };
            if !self.audience.receives(who, id) {
                // It left the stream while it stood in line.
                continue;
            }
            let Some(stream) = self.audience.stream(id) else {
                continue;
            };
            let (topic, media) = (stream.topic.clone(), (*stream.media).clone());
            let room = self
                .ports
                .get(usize::from(who.port))
                .map_or(0, |port| port.room(who.peer));
            if room > RESERVE {
                self.tell(
                    who,
                    Message::Announce {
                        stream: id,
                        topic,
                        media,
                    },
                );
            } else {
                self.announcements.add(who, id);
            }
        }
    }

    pub(super) fn tell(&mut self, who: Subscriber, message: Message) {
        self.with_port(usize::from(who.port), |port, cx| {
            port.tell(who.peer, message, cx)
        });
    }
}
