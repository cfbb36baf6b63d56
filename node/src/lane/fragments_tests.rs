use sangam_model::{BrokerId, Class, Incarnation, StreamId};

use super::super::fixture::*;
use super::super::ingest::Source;
use super::*;
use crate::config::BrokerConfig;
use sangam_wire::Flags;

const OTHERS: StreamId = StreamId::new(BrokerId(1), Incarnation(1), 2);
const RATE: u32 = 200;

/// Two clients, each with a stream for the only shard.
fn two_clients() -> Stage {
    let mut stage = Stage::with(
        1,
        BrokerConfig {
            publisher_packets_per_s: RATE,
            ..BrokerConfig::default()
        },
    );
    stage.routes([
        (STREAM, local(0, client(1), (1, &[]))),
        (OTHERS, local(1, client(2), (1, &[]))),
    ]);
    stage
}

fn send(stage: &mut Stage, from: u16, bytes: &[u8]) {
    stage.lane.event(bytes, Source::Client(client(from)));
    stage.lane.flush();
}

#[test]
fn pieces_are_paid_for_and_the_whole_is_not_paid_for_twice() {
    let mut stage = two_clients();
    for sequence in 0..RATE as u16 {
        for offset in [0, 300] {
            send(&mut stage, 1, &piece(STREAM, sequence, (offset, 600)));
        }
    }
    assert_eq!(stage.waiting(0, Class::Data), RATE as usize / 2);
    let flood = stage.dropped(DropReason::FloodPublisher);
    assert_eq!(flood, u64::from(RATE));
}

#[test]
fn a_client_that_floods_pieces_costs_another_ones_events_nothing() {
    let mut stage = two_clients();
    for sequence in 0..40 {
        send(&mut stage, 2, &piece(OTHERS, sequence, (0, 600)));
        for more in 0..40 {
            let flood = piece(STREAM, sequence * 40 + more, (0, 600));
            send(&mut stage, 1, &flood);
        }
        send(&mut stage, 2, &piece(OTHERS, sequence, (300, 600)));
    }
    assert_eq!(stage.waiting(0, Class::Data), 40);
    assert!(stage.dropped(DropReason::ReassemblyFull) > 100);
}

#[test]
fn a_piece_of_a_link_that_is_gone_leaves_the_room_for_the_next() {
    let mut stage = two_clients();
    stage.lane.whole = vec![0; 2_000];
    stage.lane.fragment(LinkId(5), &piece(STREAM, 0, (0, 600)));
    assert_eq!(stage.lane.whole.len(), 2_000);
}

#[test]
fn pieces_that_leave_are_counted_like_other_packets() {
    let mut stage = two_clients();
    let (link, socket) = stage.neighbour();
    stage.routes([(STREAM, local(0, client(1), (0, &[link])))]);
    stage.lane.links.agree(link, 600);
    for (sequence, len) in [(0, 100), (1, 1_000), (2, 100)] {
        let plain = (Class::Data, Flags::NONE);
        let bytes = event(plain, STREAM, sequence, &vec![0; len]);
        stage.lane.event(&bytes, Source::Client(client(1)));
    }
    stage.lane.flush();
    let mut bytes = [0; 2_000];
    let mut received = Vec::new();
    while let Ok(len) = socket.recv(&mut bytes) {
        received.push(len);
    }
    assert_eq!(received.len(), 4, "{received:?}");
    assert_eq!(received[1], 600);
    let relayed = &stage.counters.relayed;
    let sum = received.iter().sum::<usize>() as u64;
    assert_eq!((relayed.packets.get(), relayed.bytes.get()), (4, sum));
}
