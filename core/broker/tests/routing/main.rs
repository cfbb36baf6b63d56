//! One broker's routing, message by message.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod directory;
mod map;
mod plans;
mod trees;
mod ways;

use std::collections::BTreeSet;
use std::time::Duration;

use sangam_broker::{
    Change, Description, EXPIRY, LinkId, PinnedBy, REFRESH, Routing, RoutingError, RoutingInput,
    RoutingOutput, Standing, WIDE_FILTERS_MAX,
};
use sangam_model::{BrokerId, Class, Filter, Incarnation, Measured, Scope, Time, Topic};
use sangam_wire::{Join, LinkState, LinkView, Message, Register, Route, Sources, Version};

const US: BrokerId = BrokerId(1);
const A: BrokerId = BrokerId(10);
/// With us it keeps the directory of `a/room`.
const B: BrokerId = BrokerId(28);
const C: BrokerId = BrokerId(30);
const TO_A: LinkId = LinkId(0);
const TO_B: LinkId = LinkId(1);
/// How long a source that is told no more stays joined.
const LINGER: Duration = Duration::from_secs(30);
/// How long a link is in doubt before video is asked for around it, too.
const DETOUR_VIDEO: Duration = Duration::from_millis(50);
/// Between two times at which ways follow records.
const PAUSE: Duration = Duration::from_millis(20);

/// Us between A and B, which have a link, too; C hangs on both.
///
///     A --- C
///    / \   /
///  us --- B
struct Broker {
    now: Time,
    routing: Routing,
}

fn broker() -> Broker {
    let mut broker = Broker {
        now: Time::from_millis(1),
        routing: Routing::new(US, Incarnation(0)),
    };
    broker.does(RoutingInput::LinkUp(TO_A, A));
    broker.does(RoutingInput::LinkUp(TO_B, B));
    for (origin, links) in [
        (A, &[(US, 3), (B, 3), (C, 3)][..]),
        (B, &[(US, 3), (A, 3), (C, 3)]),
        (C, &[(A, 3), (B, 3)]),
    ] {
        broker.hears(TO_A, state(origin, 1, links));
    }
    // Ways follow the last record a little later, and the next one at once.
    broker.later(PAUSE);
    broker.now += PAUSE;
    broker
}

fn state(origin: BrokerId, sequence: u32, links: &[(BrokerId, u16)]) -> Message {
    let links = links.iter().map(|(to, weight)| LinkView {
        to: *to,
        weight: *weight,
    });
    Message::LinkState(LinkState {
        version: Version {
            origin,
            incarnation: Incarnation(0),
            sequence,
        },
        draining: false,
        keeps: false,
        organises: false,
        load: 0,
        region: String::new(),
        address: String::new(),
        links: links.collect(),
        ways: Vec::new(),
    })
}

fn scope(text: &str) -> Scope {
    Scope::from_text(text).unwrap()
}

fn filter(text: &str) -> Filter {
    Filter::new(text).unwrap()
}

fn join(origin: BrokerId, filters: &[&str]) -> Join {
    let filters: Vec<Filter> = filters.iter().map(|text| filter(text)).collect();
    Join {
        origin,
        avoid: None,
        classes: Join::ALL,
        scope: filters
            .first()
            .map_or_else(|| scope("a/room"), Scope::of_filter),
        part: 0,
        parts: 1,
        filters,
    }
}

/// What the session's directory says.
fn sources(from: BrokerId, brokers: &[BrokerId]) -> Message {
    Message::Sources(Sources {
        route: Route {
            to: US,
            from,
            hop_limit: 9,
        },
        scope: scope("a/room"),
        part: 0,
        parts: 1,
        brokers: brokers.to_vec(),
    })
}

impl Broker {
    fn does(&mut self, input: RoutingInput<'_>) -> Vec<(LinkId, Message)> {
        self.routing.handle(self.now, input);
        self.said()
    }

    fn hears(&mut self, link: LinkId, message: Message) -> Vec<(LinkId, Message)> {
        self.does(RoutingInput::Message(link, &message))
    }

    fn later(&mut self, time: Duration) -> Vec<(LinkId, Message)> {
        self.now += time;
        self.does(RoutingInput::Tick)
    }

    fn said(&mut self) -> Vec<(LinkId, Message)> {
        let outputs = core::iter::from_fn(|| self.routing.poll());
        let messages = outputs.filter_map(|output| match output {
            RoutingOutput::Send { link, message } => Some((link, message)),
            RoutingOutput::Changed(_) | RoutingOutput::Displaced => None,
        });
        messages.collect()
    }

    fn links_for(&self, topic: &str, class: Class, origin: BrokerId) -> Vec<u16> {
        let topic = Topic::new(topic).unwrap();
        let links = self.routing.links_for(&topic, class, origin);
        links.iter().map(|link| link.0).collect()
    }
}

fn joins(said: &[(LinkId, Message)]) -> Vec<(LinkId, Join)> {
    let joins = said.iter().filter_map(|(link, message)| match message {
        Message::Join(join) => Some((*link, join.clone())),
        _ => None,
    });
    joins.collect()
}

fn registers(said: &[(LinkId, Message)]) -> Vec<Register> {
    let registers = said.iter().filter_map(|(_, message)| match message {
        Message::Register(register) => Some(register.clone()),
        _ => None,
    });
    registers.collect()
}

fn states(said: &[(LinkId, Message)]) -> Vec<(LinkId, LinkState)> {
    let states = said.iter().filter_map(|(link, message)| match message {
        Message::LinkState(state) => Some((*link, state.clone())),
        _ => None,
    });
    states.collect()
}
