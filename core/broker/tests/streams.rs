//! One broker's streams, message by message.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use sangam_broker::{
    Change, FilterIndex, LOST_GRACE, LinkId, ORPHAN_GRACE, Owner, Parent, Publication, Routing,
    RoutingInput, RoutingOutput, StreamChange, StreamError, StreamInput, StreamOutput, StreamTable,
    TopicGate,
};
use sangam_model::limits::{STREAMS_PER_BROKER, STREAMS_PER_CLIENT};
use sangam_model::{BrokerId, Class, Filter, Incarnation, MediaInfo, Scope, StreamId, Time, Topic};
use sangam_wire::{Join, LinkState, LinkView, Message, Version};

const US: BrokerId = BrokerId(1);
const UP: LinkId = LinkId(0);
const DOWN: LinkId = LinkId(1);
const OTHER: LinkId = LinkId(2);
const OWNER: Owner = Owner { shard: 3, peer: 77 };
/// A stream of the broker behind `UP`.
const REMOTE: StreamId = StreamId::new(BrokerId(10), Incarnation(0), 5);

struct Broker {
    now: Time,
    routing: Routing,
    streams: StreamTable,
    shards: FilterIndex<u16>,
}

/// A broker with links to broker 10 (`UP`), 11 (`DOWN`) and 12 (`OTHER`), of which 10 and 12 have
/// a link, too. Broker 11 wants everything under `a`, of us and of 10.
fn broker() -> Broker {
    let mut broker = Broker {
        now: Time::from_millis(1),
        routing: Routing::new(US, Incarnation(0)),
        streams: StreamTable::new(US, Incarnation(0)),
        shards: FilterIndex::new(1_000),
    };
    for (link, peer) in [(UP, 10), (DOWN, 11), (OTHER, 12)] {
        let up = RoutingInput::LinkUp(link, BrokerId(peer));
        broker.routing.handle(broker.now, up);
        broker.streams.handle(broker.now, StreamInput::LinkUp(link));
    }
    broker.learns(UP, &state(10, 0, &[1, 12]));
    broker.learns(DOWN, &state(11, 0, &[1]));
    // Ways follow the last record a little later.
    broker.now += Duration::from_millis(20);
    broker.learns(OTHER, &state(12, 0, &[1, 10]));
    for origin in [US, BrokerId(10)] {
        broker.learns(DOWN, &join(origin, &["a/#"]));
    }
    broker
}

fn state(origin: u32, life: u8, neighbours: &[u32]) -> Message {
    let link = |to: &u32| LinkView {
        to: BrokerId(*to),
        weight: 3,
    };
    Message::LinkState(LinkState {
        version: Version {
            origin: BrokerId(origin),
            incarnation: Incarnation(life),
            sequence: 1,
        },
        draining: false,
        keeps: false,
        organises: false,
        load: 0,
        region: String::new(),
        address: String::new(),
        links: neighbours.iter().map(link).collect(),
        ways: Vec::new(),
    })
}

fn join(origin: BrokerId, filters: &[&str]) -> Message {
    let filters = filters.iter().map(|text| Filter::new(text).unwrap());
    Message::Join(Join {
        origin,
        avoid: None,
        classes: Join::ALL,
        scope: Scope::WIDE,
        part: 0,
        parts: 1,
        filters: filters.collect(),
    })
}

impl Broker {
    fn learns(&mut self, link: LinkId, message: &Message) -> Vec<StreamOutput> {
        self.routing
            .handle(self.now, RoutingInput::Message(link, message));
        self.settle()
    }

    fn hears(&mut self, link: LinkId, message: &Message) -> Vec<StreamOutput> {
        self.streams
            .handle(self.now, StreamInput::Message(link, message));
        self.settle()
    }

    fn publishes(&mut self, topic: &str) -> Result<StreamId, StreamError> {
        self.publishes_as(topic, false)
    }

    fn publishes_as(&mut self, topic: &str, gated: bool) -> Result<StreamId, StreamError> {
        self.streams.publish(Publication {
            owner: OWNER,
            source: None,
            topic: Topic::new(topic).unwrap(),
            media: MediaInfo::data(),
            gated,
        })
    }

    /// A session server says what is open below a prefix.
    fn gate(&mut self, prefix: &str, revision: u64, open: Option<&[&str]>) {
        let gate = TopicGate {
            epoch: 1,
            revision,
            open: open.map(|open| open.iter().map(|level| (*level).to_owned()).collect()),
            class: None,
        };
        let prefix = Topic::new(prefix).unwrap();
        self.streams.gate(self.now, &prefix, gate);
    }

    fn is_closed(&self, stream: StreamId) -> bool {
        self.streams.snapshot(1).route(stream).unwrap().closed
    }

    fn later(&mut self, time: Duration) -> Vec<StreamOutput> {
        self.now += time;
        self.streams.handle(self.now, StreamInput::Tick);
        self.settle()
    }

    fn link_down(&mut self, link: LinkId) -> Vec<StreamOutput> {
        self.routing.handle(self.now, RoutingInput::LinkDown(link));
        self.streams.handle(self.now, StreamInput::LinkDown(link));
        self.settle()
    }

    fn settle(&mut self) -> Vec<StreamOutput> {
        while let Some(output) = self.routing.poll() {
            if let RoutingOutput::Changed(change) = output {
                self.streams
                    .handle(self.now, StreamInput::Interest(&change));
            }
        }
        self.streams.route(&self.routing, &self.shards);
        core::iter::from_fn(|| self.streams.poll()).collect()
    }

    fn parent(&self) -> Parent {
        self.streams.get(REMOTE).unwrap().parent
    }

    fn hops(&self, stream: StreamId) -> Vec<u16> {
        let snapshot = self.streams.snapshot(1);
        snapshot
            .route(stream)
            .unwrap()
            .hops
            .iter()
            .map(|link| link.0)
            .collect()
    }
}

fn announce(stream: StreamId) -> Message {
    let topic = Topic::new("a/b").unwrap();
    Message::Announce {
        stream,
        topic,
        media: MediaInfo::data(),
    }
}

fn sends(link: LinkId, message: Message) -> StreamOutput {
    StreamOutput::Send { link, message }
}

fn removed(outputs: &[StreamOutput]) -> bool {
    let removed = |o: &_| matches!(o, StreamOutput::Changed(StreamChange::Removed { .. }));
    outputs.iter().any(removed)
}

#[test]
fn a_published_stream_is_announced_only_where_it_is_wanted() {
    let mut broker = broker();
    let heard = broker.publishes("a/b").unwrap();
    let unheard = broker.publishes("b").unwrap();
    let outputs = broker.settle();
    assert!(outputs.contains(&sends(DOWN, announce(heard))));
    assert_eq!(outputs.len(), 3, "two additions and one announcement");
    assert_eq!(
        (broker.hops(heard), broker.hops(unheard)),
        (vec![1], vec![])
    );
    assert!(broker.streams.take_dirty());
    assert!(!broker.streams.take_dirty());
}

#[test]
fn who_stops_wanting_a_stream_is_told_that_it_ends() {
    let mut broker = broker();
    let stream = broker.publishes("a/b").unwrap();
    broker.settle();
    let outputs = broker.learns(DOWN, &join(US, &[]));
    assert_eq!(outputs, [sends(DOWN, Message::Retire { stream })]);
    assert!(broker.hops(stream).is_empty());
}

#[test]
fn an_ended_stream_is_retired_everywhere_and_its_number_not_used_again() {
    let mut broker = broker();
    let first = broker.publishes("a/b").unwrap();
    broker.settle();
    assert_eq!(broker.streams.unpublish(OWNER, first), Ok(()));
    let outputs = broker.settle();
    assert!(removed(&outputs) && outputs.contains(&sends(DOWN, Message::Retire { stream: first })));
    let second = broker.publishes("a/b").unwrap();
    assert_ne!(first, second);
    assert_eq!(
        broker.streams.get(second).unwrap().index,
        0,
        "but its place is"
    );
}

#[test]
fn only_the_publisher_ends_its_stream_and_it_goes_with_the_publisher() {
    let mut broker = broker();
    let stream = broker.publishes("a/b").unwrap();
    let thief = Owner { shard: 3, peer: 78 };
    assert_eq!(
        broker.streams.unpublish(thief, stream),
        Err(StreamError::NotOwner)
    );
    broker.streams.remove_owner(thief);
    assert!(broker.streams.get(stream).is_some());
    broker.streams.remove_owner(OWNER);
    assert!(broker.streams.is_empty());
    assert_eq!(
        broker.streams.unpublish(OWNER, stream),
        Err(StreamError::NotOwner)
    );
}

#[test]
fn a_remote_stream_is_passed_on_and_names_its_parent() {
    let mut broker = broker();
    let outputs = broker.hears(UP, &announce(REMOTE));
    assert!(outputs.contains(&sends(DOWN, announce(REMOTE))));
    assert_eq!(broker.parent(), Parent::Link(UP));
    let snapshot = broker.streams.snapshot(1);
    let route = snapshot.route(REMOTE).unwrap();
    assert_eq!(
        (route.class, route.hops.len(), route.shards),
        (Class::Data, 1, 0)
    );
}

#[test]
fn a_second_neighbour_takes_over_when_the_first_retires_or_dies() {
    let mut broker = broker();
    broker.hears(UP, &announce(REMOTE));
    broker.hears(OTHER, &announce(REMOTE));
    assert_eq!(broker.parent(), Parent::Link(UP));
    let outputs = broker.hears(UP, &Message::Retire { stream: REMOTE });
    assert_eq!((outputs, broker.parent()), (vec![], Parent::Link(OTHER)));
    broker.hears(UP, &announce(REMOTE));
    let outputs = broker.link_down(OTHER);
    assert_eq!((outputs, broker.parent()), (vec![], Parent::Link(UP)));
    let outputs = broker.hears(UP, &Message::Retire { stream: REMOTE });
    assert!(
        removed(&outputs) && outputs.contains(&sends(DOWN, Message::Retire { stream: REMOTE }))
    );
}

#[test]
fn of_several_neighbours_the_one_on_the_shortest_way_is_the_parent() {
    let mut broker = broker();
    broker.hears(OTHER, &announce(REMOTE));
    assert_eq!(broker.parent(), Parent::Link(OTHER));
    // The former parent lost its own way and waits for us to send it the stream: it joined.
    broker.learns(OTHER, &join(BrokerId(10), &["a/#"]));
    let outputs = broker.hears(UP, &announce(REMOTE));
    assert_eq!(broker.parent(), Parent::Link(UP));
    assert!(outputs.contains(&sends(OTHER, announce(REMOTE))));
}

#[test]
fn a_stream_waits_for_its_neighbour_to_return() {
    let mut broker = broker();
    broker.hears(UP, &announce(REMOTE));
    assert_eq!(broker.link_down(UP), []);
    assert_eq!(broker.later(ORPHAN_GRACE - Duration::from_millis(1)), []);
    broker.streams.handle(broker.now, StreamInput::LinkUp(UP));
    assert_eq!(broker.hears(UP, &announce(REMOTE)), []);
    assert_eq!(broker.later(ORPHAN_GRACE), []);
    broker.link_down(UP);
    assert_eq!(broker.streams.deadline(), Some(broker.now + ORPHAN_GRACE));
    let outputs = broker.later(ORPHAN_GRACE);
    assert!(
        removed(&outputs) && outputs.contains(&sends(DOWN, Message::Retire { stream: REMOTE }))
    );
}

#[test]
fn a_neighbour_cannot_take_a_local_stream_over() {
    let mut broker = broker();
    let stream = broker.publishes("a/b").unwrap();
    broker.settle();
    broker.hears(UP, &announce(stream));
    broker.hears(UP, &Message::Retire { stream });
    let known = broker.streams.get(stream).unwrap();
    assert_eq!(
        known.parent,
        Parent::Local {
            source: None,
            shard: OWNER.shard
        }
    );
    assert_eq!(broker.streams.refused(), 1);
}

#[test]
fn a_stream_of_an_unknown_broker_is_not_passed_on_and_ends_in_time() {
    let mut broker = broker();
    let stream = StreamId::new(BrokerId(99), Incarnation(0), 1);
    let outputs = broker.hears(UP, &announce(stream));
    assert_eq!(outputs.len(), 1, "an addition");
    assert!(removed(&broker.later(LOST_GRACE)));
}

#[test]
fn a_stream_without_a_way_to_its_origin_ends_in_time_though_a_neighbour_still_tells_of_it() {
    let mut broker = broker();
    broker.hears(OTHER, &announce(REMOTE));
    let Message::LinkState(mut cut_off) = state(10, 0, &[]) else {
        unreachable!();
    };
    cut_off.version.sequence = 2;
    broker.now += Duration::from_millis(200);
    assert_eq!(broker.learns(OTHER, &Message::LinkState(cut_off)), []);
    assert_eq!(broker.later(LOST_GRACE - Duration::from_millis(1)), []);
    assert!(removed(&broker.later(Duration::from_millis(1))));
}

#[test]
fn a_stream_of_an_earlier_life_ends_with_the_later_one() {
    let mut broker = broker();
    broker.hears(UP, &announce(REMOTE));
    assert!(removed(&broker.learns(UP, &state(10, 1, &[1, 12]))));
}

#[test]
fn shards_that_want_a_stream_are_in_its_route() {
    let mut broker = broker();
    let stream = broker.publishes("a/b").unwrap();
    let filter = Filter::new("+/b").unwrap();
    for shard in [0, 5] {
        broker.shards.insert(&filter, shard);
        let change = Change::Filter(filter.clone());
        broker
            .streams
            .handle(broker.now, StreamInput::Interest(&change));
    }
    broker.settle();
    let snapshot = broker.streams.snapshot(1);
    assert_eq!(snapshot.route(stream).unwrap().shards, 0b10_0001);
}

#[test]
fn a_client_and_the_broker_have_their_limits() {
    let mut broker = broker();
    for _ in 0..STREAMS_PER_CLIENT {
        broker.publishes("a/b").unwrap();
    }
    assert_eq!(broker.publishes("a/b"), Err(StreamError::Limit));
    for local in 0..STREAMS_PER_BROKER as u32 {
        let stream = StreamId::new(BrokerId(10), Incarnation(0), local);
        broker
            .streams
            .handle(broker.now, StreamInput::Message(UP, &announce(stream)));
    }
    assert_eq!(broker.streams.len(), STREAMS_PER_BROKER);
    assert_eq!(broker.streams.refused(), STREAMS_PER_CLIENT as u64);
    broker.streams.remove_owner(OWNER);
    broker.settle();
    broker.hears(
        UP,
        &announce(StreamId::new(BrokerId(10), Incarnation(0), 1 << 20)),
    );
    assert_eq!(broker.streams.refused(), STREAMS_PER_CLIENT as u64);
}

#[test]
fn many_announcements_leave_at_a_pace_and_events_follow_only_them() {
    let mut broker = broker();
    let streams: Vec<_> = (0..1_000)
        .map(|i| StreamId::new(BrokerId(10), Incarnation(0), i))
        .collect();
    for stream in &streams {
        broker
            .streams
            .handle(broker.now, StreamInput::Message(UP, &announce(*stream)));
    }
    let is_send = |o: &&StreamOutput| matches!(o, StreamOutput::Send { .. });
    assert_eq!(broker.settle().iter().filter(is_send).count(), 512);
    let told = streams
        .iter()
        .filter(|stream| !broker.hops(**stream).is_empty())
        .count();
    assert_eq!(told, 512);
    assert_eq!(
        broker.streams.deadline(),
        Some(broker.now + Duration::from_millis(1))
    );
    assert_eq!(broker.later(Duration::from_millis(10)).len(), 10);
}

#[test]
fn what_is_gated_waits_for_a_word_about_its_own_session() {
    let mut broker = broker();
    let member = broker.publishes_as("a/weekly/main/audio/m1", true).unwrap();
    let namesake = broker
        .publishes_as("a/weekly2/main/audio/m1", true)
        .unwrap();
    let radio = broker.publishes("a/weekly2/radio").unwrap();
    broker.settle();
    let closed = |broker: &Broker| [member, namesake, radio].map(|one| broker.is_closed(one));
    assert_eq!(closed(&broker), [true, true, false]);
    broker.gate("a/weekly", 1, Some(&["main"]));
    assert_eq!(closed(&broker), [false, true, false]);
    broker.gate("a/weekly/main/audio", 2, Some(&["m2"]));
    assert_eq!(closed(&broker), [true, true, false]);
    broker.gate("a/weekly/main/audio", 3, Some(&["m1", "m2"]));
    broker.gate("a/weekly2", 4, None);
    assert_eq!(closed(&broker), [false, false, false]);
    let late = broker.publishes_as("a/weekly/main/audio/m1", true).unwrap();
    broker.settle();
    assert!(!broker.is_closed(late));
}
