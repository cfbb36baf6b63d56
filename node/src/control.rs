//! Control: what changes rarely. It owns routing and streams, and publishes the snapshot.
//!
//! It sleeps until told something, does all that follows, and builds at most one snapshot for a
//! whole batch of changes.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use arc_swap::ArcSwap;
use sangam_broker::{
    Change, Description, FilterIndex, Insert, LinkId, Owner, Publication, Routing, RoutingInput,
    RoutingOutput, Snapshot, StreamChange, StreamError, StreamInput, StreamOutput, StreamTable,
};
use sangam_io::clock;
use sangam_io::wake::{Sleeper, Waker};
use sangam_model::limits::FILTERS_PER_BROKER;
use sangam_model::{BrokerId, Filter, Incarnation};
use sangam_wire::{Message, Refusal};

use crate::broker::{Brief, StreamInfo};
use crate::command::{ControlEvent, LaneCommand, ShardCommand, Wish};
use crate::network::NetworkMap;
use crate::organise::Organiser;
use crate::rules::{LinkRule, LinkRules};
use crate::shard::Subscriber;
use crate::ways::WayTeller;
use rules::Forbidden;

mod rules;

/// Events handled before their consequences are published.
const BATCH: usize = 1_024;
/// The longest sleep: a bound for whatever forgets to set a deadline.
const REST: Duration = Duration::from_secs(1);

/// What control is made of.
pub(crate) struct Parts {
    pub(crate) id: BrokerId,
    pub(crate) incarnation: Incarnation,
    /// Keys the snapshot's hash.
    pub(crate) seed: u64,
    pub(crate) events: Receiver<ControlEvent>,
    pub(crate) sleeper: Sleeper,
    pub(crate) snapshot: Arc<ArcSwap<Snapshot>>,
    pub(crate) lane: (SyncSender<LaneCommand>, Waker),
    /// Told to the thread of reliable topics.
    pub(crate) ways: WayTeller,
    pub(crate) shards: Vec<(SyncSender<ShardCommand>, Waker)>,
    /// What the broker says of itself.
    pub(crate) description: Description,
    /// Makes links by itself, if the broker has joined a network.
    pub(crate) organiser: Option<Organiser>,
    /// What the configuration says about links.
    pub(crate) rules: LinkRules,
}

/// The control thread.
pub(crate) struct Control {
    parts: Parts,
    routing: Routing,
    streams: StreamTable,
    /// Which shards hold which filters.
    filters: FilterIndex<u16>,
    /// Filters past what neighbours may be asked for; shards are giving them back.
    unasked: HashSet<(u16, Filter)>,
    forbidden: Forbidden,
    stopping: bool,
}

impl Control {
    pub(crate) fn new(parts: Parts) -> Self {
        let mut routing = Routing::new(parts.id, parts.incarnation);
        routing.describe(clock::now(), parts.description.clone());
        let mut control = Self {
            routing,
            streams: StreamTable::new(parts.id, parts.incarnation),
            filters: FilterIndex::new(FILTERS_PER_BROKER * 64),
            unasked: HashSet::new(),
            forbidden: Forbidden::default(),
            parts,
            stopping: false,
        };
        let rules = std::mem::take(&mut control.parts.rules);
        control.rule(LinkRule::Configured(rules));
        control
    }

    /// Runs until the broker stops.
    pub(crate) fn run(mut self) {
        while !self.stopping {
            let mut published = Vec::new();
            for _ in 0..BATCH {
                let Ok(event) = self.parts.events.try_recv() else {
                    break;
                };
                self.handle(event, &mut published);
            }
            let now = clock::now();
            self.routing.handle(now, RoutingInput::Tick);
            self.streams.handle(now, StreamInput::Tick);
            self.settle();
            self.organise();
            self.parts.ways.tell(clock::now(), &self.routing);
            // Only now does the lane know the streams, so only now may their owners send.
            for (owner, message) in published {
                self.answer(owner, message);
            }
            if !self.stopping {
                self.sleep();
            }
        }
        self.stop();
    }

    fn sleep(&mut self) {
        self.parts.sleeper.arm();
        let mut timeout = REST;
        let deadlines = [
            self.routing.deadline(),
            self.streams.deadline(),
            self.parts.ways.deadline(),
        ];
        if let Some(at) = deadlines.into_iter().flatten().min() {
            timeout = timeout.min(at - clock::now());
        }
        if let Some(organiser) = &self.parts.organiser {
            timeout = timeout.min(organiser.deadline() - clock::now());
        }
        if let Ok(event) = self.parts.events.try_recv() {
            let mut published = Vec::new();
            self.handle(event, &mut published);
            self.settle();
            for (owner, message) in published {
                self.answer(owner, message);
            }
            timeout = Duration::ZERO;
        }
        if let Err(error) = self.parts.sleeper.wait(Some(timeout)) {
            tracing::error!(%error, "control cannot wait for events");
        }
        self.parts.sleeper.disarm();
    }

    fn handle(&mut self, event: ControlEvent, published: &mut Vec<(Owner, Message)>) {
        let now = clock::now();
        match event {
            ControlEvent::FilterAdded {
                shard,
                filter,
                by,
                request,
            } => self.filter_added((shard, filter), by, request),
            ControlEvent::FilterRemoved { shard, filter } => self.filter_removed(shard, filter),
            ControlEvent::Publish(wish) => published.push(self.publish(*wish)),
            ControlEvent::Unpublish { owner, stream } => {
                // Gone already: an unpublish and the owner's leaving may cross.
                let _ = self.streams.unpublish(owner, stream);
            }
            ControlEvent::OwnerGone(owner) => self.streams.remove_owner(owner),
            ControlEvent::LinkUp {
                link,
                peer,
                address,
            } => self.link_up(link, peer, address),
            ControlEvent::LinkDown(link) => self.link_down(link),
            ControlEvent::LinkSuspect(link) => {
                self.routing.handle(now, RoutingInput::LinkSuspect(link));
            }
            ControlEvent::LinkRecovered(link) => {
                self.routing.handle(now, RoutingInput::LinkRecovered(link));
            }
            ControlEvent::LinkMeasured { link, measured } => {
                let measured = RoutingInput::LinkMeasured(link, &measured);
                self.routing.handle(now, measured);
            }
            ControlEvent::Message { link, message } => {
                self.routing
                    .handle(now, RoutingInput::Message(link, &message));
                self.streams
                    .handle(now, StreamInput::Message(link, &message));
            }
            ControlEvent::Streams(answer) => {
                // Whoever asked may have given up.
                let _ = answer.send(self.infos().collect());
            }
            ControlEvent::Brief(most, answer) => {
                // As above.
                let _ = answer.send(self.brief(most));
            }
            ControlEvent::Map(answer) => {
                // As above.
                let _ = answer.send(NetworkMap::of(&mut self.routing));
            }
            ControlEvent::Surveyed { id, rtt } => {
                if let Some(organiser) = &mut self.parts.organiser {
                    organiser.surveyed(now, id, rtt);
                }
            }
            ControlEvent::Load(load) => self.describe(|own| own.load = load),
            ControlEvent::Rule(rule) => self.rule(rule),
            ControlEvent::Rules(answer) => {
                // As above.
                let _ = answer.send(self.link_rules());
            }
            ControlEvent::Plan(from, plan) => self.routing.plan(now, from, &plan),
            ControlEvent::Gate { prefix, gate } => self.streams.gate(now, &prefix, gate),
            ControlEvent::Drain => self.drain(),
            ControlEvent::Stop => self.stopping = true,
        }
    }

    fn link_up(&mut self, link: LinkId, peer: BrokerId, address: SocketAddr) {
        let now = clock::now();
        self.routing.handle(now, RoutingInput::LinkUp(link, peer));
        self.streams.handle(now, StreamInput::LinkUp(link));
        self.parts.ways.link_up(now);
        if let Some(organiser) = &mut self.parts.organiser {
            organiser.link_up(link, peer, address);
        }
    }

    fn link_down(&mut self, link: LinkId) {
        let now = clock::now();
        if let Some(organiser) = &mut self.parts.organiser {
            organiser.link_down(link);
        }
        self.routing.handle(now, RoutingInput::LinkDown(link));
        self.streams.handle(now, StreamInput::LinkDown(link));
    }

    /// Whoever subscribes is told at once that it has; the few whose filter finds no room here,
    /// a moment later that it has not.
    fn filter_added(&mut self, (shard, filter): (u16, Filter), by: Subscriber, request: u32) {
        let added = self.filters.insert(&filter, shard);
        if added == Insert::Present && !self.unasked.contains(&(shard, filter.clone())) {
            return;
        }
        if added == Insert::Added {
            match self.routing.add(clock::now(), &filter) {
                Ok(()) => return self.touch(filter),
                Err(error) => tracing::warn!(%error, %filter, "a subscription is taken back"),
            }
            self.unasked.insert((shard, filter.clone()));
        }
        self.command(
            shard,
            ShardCommand::Unasked {
                to: by,
                request,
                filter,
            },
        );
    }

    fn filter_removed(&mut self, shard: u16, filter: Filter) {
        let asked = !self.unasked.remove(&(shard, filter.clone()));
        if self.filters.remove(&filter, shard)
            && asked
            && let Err(error) = self.routing.remove(clock::now(), &filter)
        {
            tracing::error!(%error, %filter, "a filter was counted wrongly");
        }
        self.touch(filter);
    }

    /// Neighbours find ways around this broker, and clients another one.
    fn drain(&mut self) {
        self.describe(|own| own.draining = true);
        for (commands, waker) in &self.parts.shards {
            // A shard has stopped only when the whole broker stops.
            let _ = commands.send(ShardCommand::Drain);
            waker.wake();
        }
    }

    fn describe(&mut self, change: impl FnOnce(&mut Description)) {
        change(&mut self.parts.description);
        let description = self.parts.description.clone();
        self.routing.describe(clock::now(), description);
    }

    fn touch(&mut self, filter: Filter) {
        let change = Change::Filter(filter);
        self.streams
            .handle(clock::now(), StreamInput::Interest(&change));
    }

    fn publish(&mut self, wish: Wish) -> (Owner, Message) {
        let Wish {
            owner,
            request,
            topic,
            media,
            source,
            gated,
        } = wish;
        let publication = Publication {
            owner,
            source,
            topic,
            media,
            gated,
        };
        let message = match self.streams.publish(publication) {
            Ok(stream) => Message::Published { request, stream },
            Err(StreamError::Full) => Message::Refused {
                request,
                reason: Refusal::Full,
            },
            Err(_) => Message::Refused {
                request,
                reason: Refusal::Limit,
            },
        };
        (owner, message)
    }

    /// Carries out what follows from the changes, and publishes the new snapshot.
    fn settle(&mut self) {
        let mut to_lane = Vec::new();
        let now = clock::now();
        loop {
            let mut quiet = true;
            while let Some(output) = self.routing.poll() {
                quiet = false;
                match output {
                    RoutingOutput::Send { link, message } => to_lane.push((link, message)),
                    RoutingOutput::Changed(change) => {
                        self.streams.handle(now, StreamInput::Interest(&change));
                    }
                    RoutingOutput::Displaced => self.step_aside(),
                }
            }
            self.streams.route(&self.routing, &self.filters);
            while let Some(output) = self.streams.poll() {
                quiet = false;
                match output {
                    StreamOutput::Send { link, message } => to_lane.push((link, message)),
                    StreamOutput::Changed(change) => {
                        self.note_source(&change);
                        self.tell_shards(&change);
                    }
                }
            }
            if quiet {
                break;
            }
        }
        // Announcements leave before the snapshot that lets events follow them.
        self.tell_lane(to_lane);
        if self.streams.take_dirty() {
            self.parts
                .snapshot
                .store(Arc::new(self.streams.snapshot(self.parts.seed)));
            // Events may wait there for just this.
            self.parts.lane.1.wake();
        }
    }

    /// Another broker goes by our id: the network goes on with that one, we with our own clients.
    fn step_aside(&mut self) {
        tracing::error!(
            id = %self.parts.id,
            "another broker goes by this broker's id and has the better right to it: this one \
             steps aside and serves its own clients only. Stop it, give it a data_dir of its own \
             (never a copy of another broker's) and start it again"
        );
        self.parts.organiser = None;
        // The lane has stopped only when the whole broker stops.
        let _ = self.parts.lane.0.send(LaneCommand::StepAside);
        self.parts.lane.1.wake();
    }

    /// A stream of one of our own clients makes this broker a source of its session.
    fn note_source(&mut self, change: &StreamChange) {
        let now = clock::now();
        match change {
            StreamChange::Added { stream, topic, .. } if stream.broker() == self.parts.id => {
                self.routing.add_source(now, topic);
            }
            StreamChange::Removed { stream, topic, .. } if stream.broker() == self.parts.id => {
                self.routing.remove_source(now, topic);
            }
            _ => {}
        }
    }

    fn tell_lane(&self, messages: Vec<(LinkId, Message)>) {
        if messages.is_empty() {
            return;
        }
        for (link, message) in messages {
            // The lane has stopped only when the whole broker stops.
            let _ = self.parts.lane.0.send(LaneCommand::Send { link, message });
        }
        self.parts.lane.1.wake();
    }

    /// Makes the links that the map asks for.
    fn organise(&mut self) {
        let Some(organiser) = &mut self.parts.organiser else {
            return;
        };
        let commands = organiser.plan(clock::now(), &self.routing);
        if commands.is_empty() {
            return;
        }
        for command in commands {
            // As for messages.
            let _ = self.parts.lane.0.send(command);
        }
        self.parts.lane.1.wake();
    }

    fn tell_shards(&self, change: &StreamChange) {
        for (commands, waker) in &self.parts.shards {
            let command = match change {
                StreamChange::Added {
                    stream,
                    topic,
                    media,
                    ..
                } => ShardCommand::Added {
                    id: *stream,
                    topic: topic.clone(),
                    media: media.clone(),
                    owner: self.streams.get(*stream).and_then(|known| known.owner),
                },
                StreamChange::Removed { stream, .. } => ShardCommand::Removed(*stream),
            };
            // A shard has stopped only when the whole broker stops.
            let _ = commands.send(command);
            waker.wake();
        }
    }

    fn answer(&self, owner: Owner, message: Message) {
        let to = owner.peer.into();
        self.command(owner.shard, ShardCommand::Tell { to, message });
    }

    fn command(&self, shard: u16, command: ShardCommand) {
        if let Some((commands, waker)) = self.parts.shards.get(usize::from(shard)) {
            // A shard has stopped only when the whole broker stops.
            let _ = commands.send(command);
            waker.wake();
        }
    }

    fn brief(&mut self, most: usize) -> Brief {
        let epoch = self.routing.epoch();
        let links = self.routing.links();
        let weights = links.map(|link| (link.peer, link.weight, link.pinned));
        // The map begins with this broker.
        let own = self.routing.brokers().next();
        let draining = own.is_some_and(|(own, _)| own.draining);
        let reachable = self.routing.brokers().filter(|(_, reachable)| *reachable);
        Brief {
            streams: self.streams.len(),
            origins: self.infos().filter(|one| one.local).take(most).collect(),
            filters: self.routing.sizes().0,
            interest: self.routing.own_filters().take(most).cloned().collect(),
            brokers: reachable.count(),
            weights: weights.collect(),
            draining,
            epoch,
            planned: self.routing.planned().collect(),
        }
    }

    fn infos(&self) -> impl Iterator<Item = StreamInfo> {
        self.streams.iter().map(|(id, stream)| StreamInfo {
            id,
            topic: stream.topic.clone(),
            media: (*stream.media).clone(),
            links: stream.wanted.intersection(stream.told).len(),
            local: stream.owner.is_some(),
        })
    }

    fn stop(&self) {
        self.parts.ways.stop();
        for (commands, waker) in &self.parts.shards {
            let _ = commands.send(ShardCommand::Stop);
            waker.wake();
        }
        let _ = self.parts.lane.0.send(LaneCommand::Stop);
        self.parts.lane.1.wake();
    }
}
