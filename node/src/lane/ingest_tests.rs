use sangam_model::BrokerId;
use sangam_model::Incarnation;

use super::super::fixture::*;
use super::*;

const PLAIN: (Class, Flags) = (Class::Data, Flags::NONE);
const MOMENT: Duration = Duration::from_millis(150);

#[test]
fn what_comes_before_its_announcement_waits_for_it() {
    let mut stage = Stage::new(1);
    let (link, _socket) = stage.neighbour();
    stage
        .lane
        .event(&event(PLAIN, STREAM, 1, &[0; 50]), Source::Link(link));
    stage.later(MOMENT);
    stage.routes([(STREAM, remote(0, link, 1))]);
    stage.lane.flush();
    assert_eq!(stage.waiting(0, Class::Data), 1);
}

#[test]
fn what_waits_for_its_announcement_does_not_become_younger_when_the_map_changes() {
    let mut stage = Stage::new(1);
    let (link, _socket) = stage.neighbour();
    let others = StreamId::new(BrokerId(3), Incarnation(1), 1);
    stage
        .lane
        .event(&event(PLAIN, STREAM, 1, &[0; 50]), Source::Link(link));
    for index in 0..2 {
        stage.later(MOMENT);
        stage.routes([(others, remote(index, link, 1))]);
    }
    assert_eq!(stage.dropped(DropReason::UnknownStream), 1);
    stage.routes([(STREAM, remote(0, link, 1))]);
    stage.lane.flush();
    assert_eq!(stage.waiting(0, Class::Data), 0);
}

#[test]
fn nothing_takes_a_buffer_that_may_not_come_in() {
    let config = crate::config::BrokerConfig {
        publisher_packets_per_s: 2,
        ..Default::default()
    };
    let mut stage = Stage::with(1, config);
    stage.routes([(STREAM, local(0, client(1), (1, &[])))]);
    let pool = stage.lane.pool.clone();
    let taken: Vec<_> = std::iter::from_fn(|| pool.take(10)).collect();
    let mut send = |from, sequence| {
        let bytes = event(PLAIN, STREAM, sequence, &[0; 50]);
        stage.lane.event(&bytes, Source::Client(client(from)));
    };
    send(2, 7);
    send(1, 7);
    drop(taken);
    // What found no buffer may come once more.
    send(1, 7);
    let taken: Vec<_> = std::iter::from_fn(|| pool.take(10)).collect();
    send(1, 8);
    drop(taken);
    stage.lane.flush();
    assert_eq!(stage.waiting(0, Class::Data), 1);
    let counted = [
        DropReason::NotOwner,
        DropReason::PoolExhausted,
        DropReason::FloodPublisher,
        DropReason::Duplicate,
    ];
    assert_eq!(counted.map(|reason| stage.dropped(reason)), [1, 1, 1, 0]);
}
