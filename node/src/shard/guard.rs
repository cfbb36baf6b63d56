//! Tokens at the door of a shard: what a client asks for passes here before it is done.

use std::net::IpAddr;

use sangam_broker::DropReason;
use sangam_io::clock;
use sangam_io::port::Action;
use sangam_model::{Filter, Grants, StreamId, Time, Topic};
use sangam_wire::{Message, Refusal};

use super::Shard;
use super::allowance::TOKEN;
use super::audience::Subscriber;
use crate::command::ControlEvent;

impl Shard {
    /// Gives an action back if it may be done now. What is not granted is refused, and what
    /// depends on a token under examination waits.
    pub(super) fn admit(&mut self, port: u16, action: Action) -> Option<Action> {
        let (peer, request) = match &action {
            Action::Subscribe { peer, request, .. }
            | Action::Unsubscribe { peer, request, .. }
            | Action::Publish { peer, request, .. }
            | Action::Authenticate { peer, request, .. } => (*peer, *request),
            _ => return Some(action),
        };
        let who = Subscriber { port, peer };
        if !self.guards(who) {
            return Some(action);
        }
        if self.access.is_asked(who) {
            if self.access.hold(who, action).is_err() {
                self.refuse(who, request, DropReason::FloodControl);
            }
            return None;
        }
        let granted = match &action {
            Action::Subscribe { filter, .. } => self.access.may_subscribe(who, filter),
            Action::Publish { topic, .. } => self.access.may_publish(who, topic),
            _ => true,
        };
        if granted {
            return Some(action);
        }
        self.counters.dropped(DropReason::NotGranted);
        let reason = Refusal::Forbidden;
        self.tell(who, Message::Refused { request, reason });
        None
    }

    /// A client shows a token.
    pub(super) fn authenticate(&mut self, who: Subscriber, request: u32, token: (String, IpAddr)) {
        if !self.guards(who) {
            return self.tell(who, Message::Accepted { request });
        }
        let allowed = self.allowances.take(who, TOKEN, clock::now());
        if !allowed || !self.access.ask(who, request, token) {
            self.refuse(who, request, DropReason::FloodToken);
        }
    }

    /// The verdict on a token.
    pub(super) fn judged(
        &mut self,
        who: Subscriber,
        ticket: u64,
        verdict: Result<Grants, Refusal>,
    ) {
        let refusal = verdict.as_ref().err().copied();
        let Some(verdict) = self.access.judged(who, ticket, verdict.ok()) else {
            return;
        };
        let request = verdict.request;
        match refusal {
            None => {
                self.tell(who, Message::Accepted { request });
                self.confine(who);
            }
            Some(reason) => {
                self.counters.dropped(match reason {
                    Refusal::Limit => DropReason::FloodToken,
                    _ => DropReason::TokenRefused,
                });
                self.tell(who, Message::Refused { request, reason });
            }
        }
        for action in verdict.held {
            // It may leave over an answer, and its number is another's then.
            if self.access.knows(who) {
                self.perform_one(who.port, action);
            }
        }
        self.follow_removals();
    }

    /// Ends what tokens granted until now.
    pub(super) fn expire_grants(&mut self, now: Time) {
        while let Some((who, request)) = self.access.expire(now) {
            let reason = Refusal::Expired;
            self.tell(who, Message::Refused { request, reason });
            self.confine(who);
        }
        self.follow_removals();
    }

    /// Whether a client that now publishes a stream may still do so.
    pub(super) fn keeps(&self, who: Subscriber, topic: &Topic) -> bool {
        !self.guards(who) || self.access.may_publish(who, topic)
    }

    /// Whether what a client publishes goes nowhere before a session server's word.
    pub(super) fn is_gated(&self, who: Subscriber) -> bool {
        self.guards(who) && self.access.is_gated(who)
    }

    /// Whether a client may subscribe to this.
    pub(super) fn hears(&self, who: Subscriber, filter: &Filter) -> bool {
        !self.guards(who) || self.access.may_subscribe(who, filter)
    }

    /// Ends the subscriptions and streams of a client that its token does not grant any more.
    fn confine(&mut self, who: Subscriber) {
        self.end_reliable(who);
        let held = self.audience.filters_of(who).iter();
        let lost: Vec<Filter> = held
            .filter(|filter| !self.access.may_subscribe(who, filter))
            .cloned()
            .collect();
        for filter in lost {
            for stream in self.release(who, filter).unwrap_or_default() {
                self.tell(who, Message::Retire { stream });
            }
        }
        for stream in self.audience.owned_by(who).to_vec() {
            let topic = self
                .audience
                .stream(stream)
                .map(|stream| stream.topic.clone());
            if topic.is_some_and(|topic| !self.access.may_publish(who, &topic)) {
                self.end_publication(who, stream);
            }
        }
    }

    /// Ends a stream of a client without being asked to.
    pub(super) fn end_publication(&mut self, who: Subscriber, stream: StreamId) {
        let owner = self.owner(who);
        self.control.send(ControlEvent::Unpublish { owner, stream });
        self.tell(who, Message::Retire { stream });
    }

    /// Whether this peer needs a token.
    pub(super) fn guards(&self, who: Subscriber) -> bool {
        let port = self.ports.get(usize::from(who.port));
        self.access.is_guarded() && port.is_some_and(|port| !port.is_trusted())
    }
}
