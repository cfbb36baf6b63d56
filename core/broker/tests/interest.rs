//! One broker's view of the network, message by message.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use sangam_broker::{
    Change, EXPIRY, InterestError, InterestInput, InterestOutput, InterestTable, LinkId,
    ORIGINS_MAX, REFRESH, Standing,
};
use sangam_model::limits::{FILTERS_PER_BROKER, HOP_LIMIT};
use sangam_model::{BrokerId, Filter, Incarnation, Time, Topic};
use sangam_wire::{FILTERS_MAX, MESSAGE_LEN_MAX, Message};

const US: BrokerId = BrokerId(1);
const FAR: BrokerId = BrokerId(2);
const LEFT: LinkId = LinkId(0);
const RIGHT: LinkId = LinkId(1);
const LIFE: Incarnation = Incarnation(3);

const fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn filters(texts: &[&str]) -> Vec<Filter> {
    texts
        .iter()
        .map(|text| Filter::new(text).unwrap())
        .collect()
}

/// A table with two links, all it had to say at first already said.
fn table() -> InterestTable {
    let mut table = InterestTable::new(US, Incarnation(0));
    table.handle(ms(1), InterestInput::LinkUp(LEFT));
    table.handle(ms(1), InterestInput::LinkUp(RIGHT));
    drain(&mut table);
    table
}

fn drain(table: &mut InterestTable) -> Vec<InterestOutput> {
    core::iter::from_fn(|| table.poll()).collect()
}

fn sent(table: &mut InterestTable) -> Vec<(LinkId, Message)> {
    let outputs = drain(table).into_iter();
    outputs
        .filter_map(|output| match output {
            InterestOutput::Send { link, message } => Some((link, message)),
            InterestOutput::Changed(_) => None,
        })
        .collect()
}

/// The interest of `FAR`.
fn told(version: u32, hops: u8, texts: &[&str]) -> Message {
    Message::Interest {
        origin: FAR,
        incarnation: LIFE,
        version,
        hops,
        part: 0,
        parts: 1,
        filters: filters(texts),
    }
}

fn hear(table: &mut InterestTable, at: Time, link: LinkId, message: &Message) {
    table.handle(at, InterestInput::Message(link, message));
}

fn links(table: &mut InterestTable, topic: &str) -> Vec<u16> {
    let topic = Topic::new(topic).unwrap();
    table
        .links_for(&topic, US)
        .iter()
        .map(|link| link.0)
        .collect()
}

fn versions(messages: &[(LinkId, Message)], on: LinkId) -> Vec<u32> {
    let on_link = messages.iter().filter(|(link, _)| *link == on);
    on_link
        .filter_map(|(_, message)| match message {
            Message::Interest {
                origin: US,
                version,
                part: 0,
                ..
            } => Some(*version),
            _ => None,
        })
        .collect()
}

#[test]
fn a_neighbour_is_told_of_us_at_once_even_without_interest() {
    let mut table = InterestTable::new(US, Incarnation(0));
    table.handle(ms(1), InterestInput::LinkUp(LEFT));
    let [
        (
            LEFT,
            Message::Interest {
                origin: US,
                hops: 1,
                parts: 1,
                filters,
                ..
            },
        ),
    ] = &sent(&mut table)[..]
    else {
        panic!("expected one message of interest");
    };
    assert!(filters.is_empty());
}

#[test]
fn the_first_change_leaves_at_once_and_a_storm_in_few_versions() {
    let mut table = table();
    let mut messages = Vec::new();
    for i in 0..1_000_u64 {
        let filter = Filter::new(&format!("a/{i}")).unwrap();
        table
            .add(ms(1_000) + Duration::from_micros(i * 100), &filter)
            .unwrap();
        messages.extend(sent(&mut table));
    }
    let first = versions(&messages, LEFT)[0];
    table.handle(ms(1_200), InterestInput::Tick);
    messages.extend(sent(&mut table));
    let told = versions(&messages, LEFT);
    assert_eq!(told, (first..first + told.len() as u32).collect::<Vec<_>>());
    assert!((4..=6).contains(&told.len()), "{told:?}");
}

#[test]
fn a_filter_stays_until_as_many_take_it_back_as_added_it() {
    let mut table = table();
    let filter = &filters(&["a/b"])[0];
    table.add(ms(100), filter).unwrap();
    table.add(ms(200), filter).unwrap();
    assert_eq!(sent(&mut table).len(), 2, "one version, two links");
    table.remove(ms(300), filter).unwrap();
    assert_eq!(sent(&mut table), []);
    table.remove(ms(400), filter).unwrap();
    assert_eq!(sent(&mut table).len(), 2);
    assert_eq!(table.remove(ms(500), filter), Err(InterestError::Unknown));
}

#[test]
fn long_filters_are_cut_into_messages_that_fit() {
    let mut table = InterestTable::new(US, Incarnation(0));
    for i in 0..200 {
        let filter = Filter::new(&format!("{i:0255}")).unwrap();
        table.add(ms(1), &filter).unwrap();
    }
    table.handle(ms(100), InterestInput::LinkUp(LEFT));
    let messages = sent(&mut table);
    assert_eq!(messages.len(), 50, "four of the longest filters in each");
    for (_, message) in messages {
        let mut bytes = Vec::new();
        message.encode(&mut bytes).unwrap();
        assert!(bytes.len() <= MESSAGE_LEN_MAX);
    }
}

#[test]
fn a_version_counts_when_all_its_parts_are_there() {
    let mut table = table();
    let part = |part, texts: &[&str]| Message::Interest {
        origin: FAR,
        incarnation: LIFE,
        version: 9,
        hops: 1,
        part,
        parts: 2,
        filters: filters(texts),
    };
    hear(&mut table, ms(2), LEFT, &told(8, 1, &["old"]));
    hear(&mut table, ms(2), LEFT, &part(1, &["b"]));
    assert_eq!(
        (links(&mut table, "old"), links(&mut table, "b")),
        (vec![0], vec![])
    );
    hear(&mut table, ms(3), LEFT, &part(0, &["a"]));
    assert_eq!(links(&mut table, "old"), [0_u16; 0]);
    assert_eq!(
        (links(&mut table, "a"), links(&mut table, "b")),
        (vec![0], vec![0])
    );
}

#[test]
fn interest_is_passed_on_to_all_but_the_way_it_came() {
    let mut table = table();
    hear(&mut table, ms(2), LEFT, &told(1, 4, &["a/#"]));
    let outputs = drain(&mut table);
    assert!(outputs.contains(&InterestOutput::Send {
        link: RIGHT,
        message: told(1, 5, &["a/#"])
    }));
    let change = Change::Filter(filters(&["a/#"]).remove(0));
    assert!(outputs.contains(&InterestOutput::Changed(change)));
    let to_left = |o: &&_| matches!(o, InterestOutput::Send { link: LEFT, .. });
    assert_eq!(outputs.iter().filter(to_left).count(), 0);
}

#[test]
fn a_refresh_without_change_moves_nothing_but_is_passed_on() {
    let mut table = table();
    hear(&mut table, ms(2), LEFT, &told(1, 1, &["a"]));
    drain(&mut table);
    hear(&mut table, ms(3), LEFT, &told(2, 1, &["a"]));
    let want = InterestOutput::Send {
        link: RIGHT,
        message: told(2, 2, &["a"]),
    };
    assert_eq!(drain(&mut table), [want]);
}

#[test]
fn the_same_version_by_a_longer_way_is_ignored_and_by_a_shorter_one_preferred() {
    let mut table = table();
    hear(&mut table, ms(2), LEFT, &told(1, 3, &["a"]));
    hear(&mut table, ms(2), RIGHT, &told(1, 5, &["a"]));
    assert_eq!(links(&mut table, "a"), [0]);
    drain(&mut table);
    hear(&mut table, ms(3), RIGHT, &told(1, 2, &["a"]));
    assert_eq!(links(&mut table, "a"), [1]);
    let messages = sent(&mut table);
    let void = Message::Unreachable {
        origin: FAR,
        incarnation: LIFE,
        version: 1,
    };
    assert_eq!(messages, [(LEFT, told(1, 3, &["a"])), (RIGHT, void)]);
}

#[test]
fn an_unreachable_origin_is_withdrawn_from_those_who_were_told() {
    let mut table = table();
    hear(&mut table, ms(2), LEFT, &told(1, 1, &["a"]));
    drain(&mut table);
    let void = Message::Unreachable {
        origin: FAR,
        incarnation: LIFE,
        version: 1,
    };
    hear(&mut table, ms(3), LEFT, &void);
    assert_eq!(sent(&mut table), [(RIGHT, void)]);
    assert_eq!(links(&mut table, "a"), [0_u16; 0]);
}

#[test]
fn a_link_that_returns_is_told_everything_and_brings_its_way_back() {
    let mut table = table();
    hear(&mut table, ms(2), LEFT, &told(1, 1, &["a"]));
    table.handle(ms(3), InterestInput::LinkDown(LEFT));
    assert_eq!(links(&mut table, "a"), [0_u16; 0]);
    table.handle(ms(4), InterestInput::LinkUp(LEFT));
    hear(&mut table, ms(5), LEFT, &told(1, 1, &["a"]));
    assert_eq!(links(&mut table, "a"), [0]);
    table.handle(ms(6), InterestInput::LinkDown(RIGHT));
    drain(&mut table);
    table.handle(ms(7), InterestInput::LinkUp(RIGHT));
    let messages = sent(&mut table);
    assert!(messages.contains(&(RIGHT, told(1, 2, &["a"]))));
}

#[test]
fn a_later_life_replaces_the_earlier_one_and_is_not_replaced_by_it() {
    let mut table = table();
    hear(&mut table, ms(2), LEFT, &told(100, 1, &["old"]));
    let Message::Interest {
        version,
        hops,
        part,
        parts,
        ..
    } = told(1, 1, &[])
    else {
        return;
    };
    let incarnation = Incarnation(LIFE.0 + 1);
    let filters = filters(&["new"]);
    let later = Message::Interest {
        origin: FAR,
        incarnation,
        version,
        hops,
        part,
        parts,
        filters,
    };
    hear(&mut table, ms(3), LEFT, &later);
    assert_eq!(
        (links(&mut table, "old"), links(&mut table, "new")),
        (vec![], vec![0])
    );
    assert_eq!(table.standing(FAR, LIFE), Standing::Replaced);
    hear(&mut table, ms(4), RIGHT, &told(101, 1, &["old"]));
    assert_eq!(
        (links(&mut table, "old"), links(&mut table, "new")),
        (vec![], vec![0])
    );
    assert_eq!(table.refused().stale, 1);
}

#[test]
fn an_origin_that_falls_silent_is_forgotten_after_its_time() {
    let mut table = table();
    hear(&mut table, ms(1_000), LEFT, &told(1, 1, &["a"]));
    table.handle(
        ms(1_000) + (EXPIRY - Duration::from_millis(1)),
        InterestInput::Tick,
    );
    drain(&mut table);
    assert_eq!(links(&mut table, "a"), [0]);
    while let Some(due) = table.deadline().filter(|due| *due < ms(40_000)) {
        table.handle(due, InterestInput::Tick);
        drain(&mut table);
    }
    assert_eq!(links(&mut table, "a"), [0_u16; 0]);
    assert_eq!(table.standing(FAR, LIFE), Standing::Unknown);
    assert_eq!(table.filters(), (0, 0));
}

#[test]
fn own_interest_is_refreshed_in_time() {
    let mut table = table();
    let due = table.deadline().unwrap();
    assert_eq!(due, ms(1) + REFRESH);
    table.handle(due, InterestInput::Tick);
    assert_eq!(sent(&mut table).len(), 2);
    assert_eq!(table.deadline(), Some(due + REFRESH));
}

#[test]
fn a_memory_of_our_earlier_self_is_overtaken() {
    let mut table = table();
    let Message::Interest {
        hops,
        part,
        parts,
        filters,
        ..
    } = told(0, 2, &["ghost"])
    else {
        return;
    };
    let (origin, incarnation) = (US, Incarnation(0));
    let echo = Message::Interest {
        origin,
        incarnation,
        version: 500,
        hops,
        part,
        parts,
        filters,
    };
    hear(&mut table, ms(50), LEFT, &echo);
    assert_eq!(versions(&sent(&mut table), LEFT), [501]);
}

#[test]
fn topics_never_go_back_to_the_broker_they_come_from() {
    let mut table = table();
    hear(&mut table, ms(2), LEFT, &told(1, 1, &["#"]));
    let topic = Topic::new("a").unwrap();
    assert!(table.links_for(&topic, FAR).is_empty());
    assert!(!table.links_for(&topic, BrokerId(9)).is_empty());
}

#[test]
fn an_origin_beyond_the_hop_limit_is_not_passed_on() {
    let mut table = table();
    hear(&mut table, ms(2), LEFT, &told(1, HOP_LIMIT, &["a"]));
    assert_eq!(links(&mut table, "a"), [0]);
    assert_eq!(sent(&mut table), []);
    hear(&mut table, ms(3), LEFT, &told(2, HOP_LIMIT + 1, &["a"]));
    assert_eq!(table.refused().invalid, 1);
}

#[test]
fn a_peer_cannot_fill_the_table() {
    let mut table = table();
    let empty = |id: u32| Message::Interest {
        origin: BrokerId(id),
        incarnation: LIFE,
        version: 1,
        hops: 1,
        part: 0,
        parts: 1,
        filters: vec![],
    };
    for id in 0..ORIGINS_MAX as u32 + 10 {
        hear(&mut table, ms(2), LEFT, &empty(id + 10));
    }
    assert_eq!(table.brokers().count(), ORIGINS_MAX);
    assert_eq!(table.refused().full, 10);
}

#[test]
fn a_version_with_too_many_filters_is_refused_whole() {
    let mut table = table();
    let parts = (FILTERS_PER_BROKER / FILTERS_MAX) as u16 + 1;
    for part in 0..parts {
        let texts = (0..FILTERS_MAX).map(|i| Filter::new(&format!("{part}/{i}")).unwrap());
        let (origin, filters) = (FAR, texts.collect());
        let message = Message::Interest {
            origin,
            incarnation: LIFE,
            version: 1,
            hops: 1,
            part,
            parts,
            filters,
        };
        hear(&mut table, ms(2), LEFT, &message);
    }
    assert_eq!(table.filters(), (0, 0));
    assert_eq!(table.refused().full, 1);
    hear(&mut table, ms(3), LEFT, &told(2, 1, &["a"]));
    assert_eq!(links(&mut table, "a"), [0]);
}

#[test]
fn own_filters_are_bounded_and_told_at_a_pace_a_link_can_take() {
    let mut table = InterestTable::new(US, Incarnation(0));
    let filter = |i: usize| Filter::new(&format!("a/{i}")).unwrap();
    for i in 0..FILTERS_PER_BROKER {
        table.add(Time::ZERO, &filter(i)).unwrap();
    }
    assert_eq!(
        table.add(Time::ZERO, &filter(FILTERS_PER_BROKER)),
        Err(InterestError::Full)
    );
    table.handle(ms(30_000), InterestInput::LinkUp(LEFT));
    let mut told = sent(&mut table).len();
    assert_eq!(told, 256);
    let mut now = ms(30_000);
    while told < FILTERS_PER_BROKER / FILTERS_MAX {
        now = table.deadline().unwrap();
        table.handle(now, InterestInput::Tick);
        told += sent(&mut table).len();
    }
    assert!(now.since(ms(30_000)) <= REFRESH, "{now}");
}

#[test]
fn parts_from_a_link_that_is_down_or_unknown_are_ignored() {
    let mut table = table();
    table.handle(ms(2), InterestInput::LinkDown(LEFT));
    hear(&mut table, ms(3), LEFT, &told(1, 1, &["a"]));
    hear(&mut table, ms(3), LinkId(63), &told(1, 1, &["a"]));
    assert_eq!(table.brokers().count(), 0);
}
