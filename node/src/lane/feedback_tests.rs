use super::super::fixture::*;
use super::super::outbox::Pace;
use super::*;
use sangam_model::Time;
use sangam_wire::Flags;

/// What a neighbour asks for; `hops` brokers may still pass it on.
fn asks(what: &Feedback, hops: u8) -> Vec<u8> {
    let mut payload = Vec::new();
    what.encode(&mut payload);
    let mut bytes = event((Class::Feedback, Flags::NONE), STREAM, 0, &payload);
    bytes[sangam_wire::Header::HOP_LIMIT_AT] = hops;
    bytes
}

#[test]
fn a_repair_counts_once_it_finds_room() {
    let mut stage = Stage::new(1);
    let (link, _socket) = stage.neighbour();
    stage.routes([(STREAM, local(0, client(1), (1, &[])))]);
    let frame = Flags::FRAME_START.with(Flags::FRAME_END);
    let bytes = event((Class::Video, frame), STREAM, 7, &[0; 1_000]);
    stage.lane.event(&bytes, Source::Client(client(1)));
    let nack = asks(&Feedback::Nack(Nack { first: 7, also: 0 }), 9);
    stage.lane.feedback(&nack, Source::Link(link));
    assert_eq!(stage.counters.repaired.get(), 1);
    stage.lane.flush();

    // A path that is all but closed, with audio before all else.
    stage.lane.outboxes.open(link, Pace::Begins(None));
    let slow = sangam_link::Sample {
        rtt: std::time::Duration::from_secs(5),
        ..Default::default()
    };
    stage
        .lane
        .outboxes
        .sampled(link, Time::from_millis(1), slow);
    for sequence in 100..200 {
        let bytes = event((Class::Data, Flags::NONE), STREAM, sequence, &[0; 1_000]);
        let packet = stage.lane.pool.copy(&bytes).expect("a buffer").freeze();
        stage.lane.outboxes.push(link, packet, Shedder::default());
    }
    stage.lane.feedback(&nack, Source::Link(link));
    assert_eq!(stage.counters.repaired.get(), 1);
}

#[test]
fn feedback_crosses_as_many_brokers_as_it_may() {
    let mut stage = Stage::new(1);
    let (link, socket) = stage.neighbour();
    stage.routes([(STREAM, remote(0, link, 1))]);
    let mut passes = |hops, lost| {
        let lost = Nack {
            first: lost,
            also: 0,
        };
        let nack = asks(&Feedback::Nack(lost), hops);
        stage.lane.feedback(&nack, Source::Shard);
        stage.lane.flush();
        let mut bytes = [0; 100];
        let got = socket.recv(&mut bytes);
        got.ok().map(|_| bytes[sangam_wire::Header::HOP_LIMIT_AT])
    };
    assert_eq!([passes(15, 1), passes(2, 2)], [Some(14), Some(1)]);
    assert_eq!([passes(1, 3), passes(0, 4)], [None, None]);
    assert_eq!(stage.dropped(DropReason::HopLimit), 2);
}
