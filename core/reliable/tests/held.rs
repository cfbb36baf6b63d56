//! When a home calls a record held.

use std::sync::Arc;

use sangam_model::{BrokerId, PublisherId, Time, Topic};
use sangam_reliable::{Input, Keeper, KeeperConfig, Limits, Output, Peer, Way};
use sangam_wire::{Piece, Record, RecordFlags, Reliable};

const OURS: BrokerId = BrokerId(2);
const OTHER: BrokerId = BrokerId(1);
const EDGE: BrokerId = BrokerId(3);
const PUBLISHER: PublisherId = PublisherId(7);

fn homes(_: &Topic, _: &[BrokerId]) -> Vec<BrokerId> {
    vec![OURS, OTHER]
}

fn topic() -> Topic {
    Topic::new("lab/minutes").expect("a topic")
}

fn durable_home(now: Time) -> Keeper {
    let mut keeper = Keeper::new(KeeperConfig {
        id: OURS,
        seed: 1,
        homes,
        limits: Limits::default(),
        durable: true,
    });
    let way = |to| Way {
        to,
        mark: 0,
        keeps: true,
    };
    keeper.handle(now, Input::Ways([OTHER, OURS, EDGE].map(way).into()));
    keeper
}

fn outputs(keeper: &mut Keeper) -> Vec<Output> {
    std::iter::from_fn(|| keeper.poll()).collect()
}

/// How far the publisher was told that it is held, by each word to the edge.
fn told(outputs: &[Output]) -> Vec<u64> {
    let through = |output: &Output| match output {
        Output::Send(Peer::Broker(EDGE), Reliable::Held { through, .. }) => Some(*through),
        _ => None,
    };
    outputs.iter().filter_map(through).collect()
}

#[test]
fn what_another_home_fed_is_held_once_it_is_on_our_disk_and_the_other_has_it() {
    let now = Time::from_millis(1);
    let mut keeper = durable_home(now);
    let payload: Arc<[u8]> = Arc::from(*b"agreed");
    let flags = RecordFlags::WHOLE;
    let says = |from, message| Input::Message(Peer::Broker(from), message);

    // The other home attaches, and so do we.
    let attach = Reliable::Attach {
        feed: 5,
        topic: topic(),
        replay: u32::MAX,
        part: 0,
        parts: 1,
        positions: vec![(PUBLISHER, 2)],
    };
    keeper.handle(now, says(OTHER, attach));
    let said = outputs(&mut keeper);
    let ours = said.iter().find_map(|output| match output {
        Output::Send(Peer::Broker(OTHER), Reliable::Attach { feed, .. }) => Some(*feed),
        _ => None,
    });
    let record = |sequence| Record {
        publisher: PUBLISHER,
        sequence,
        flags,
        payload: payload.clone(),
    };
    let records = Reliable::Records {
        feed: ours.expect("a home attaches to the other one"),
        index: 0,
        all_sent: true,
        records: vec![record(1), record(2)],
    };
    keeper.handle(now, says(OTHER, records));
    let wrote = outputs(&mut keeper);
    assert!(
        wrote
            .iter()
            .any(|output| matches!(output, Output::Write(_)))
    );

    // The publisher, which heard nothing from the other home, asks here.
    let piece = || Piece {
        flags,
        payload: payload.clone(),
    };
    let push = Reliable::Push {
        topic: topic(),
        publisher: PUBLISHER,
        base: 1,
        first: 1,
        pieces: vec![piece(), piece()],
    };
    keeper.handle(now, says(EDGE, push));
    assert_eq!(told(&outputs(&mut keeper)), [0]);

    keeper.handle(now, Input::Written(1));
    assert_eq!(told(&outputs(&mut keeper)), [2]);
}
